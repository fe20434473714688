"""``reenact cassettes check``: may these files be shared? Made for a hook before a commit.

What is found is never shown: only the file, the line, and the rule that found it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from reenact.cli.inventory import find_tapes, status_of
from reenact.cli.render import count, escape_controls, json_line
from reenact.cli.staleness import Project
from reenact.errors import PolicyRefused, RecordingError
from reenact.format.event import Event
from reenact.format.manifest import Manifest
from reenact.policy.paths import find_root
from reenact.policy.redaction.redactor import Profile, Redactor
from reenact.store.tape.reader import open_tape

__all__ = ["check"]

_FOREIGN = (".yaml", ".yml")
_LOOKS = "text that looks like a secret"
_AGAIN = (
    "take it out (reenact redact), or record it again; a secret that was seen has to be changed"
)


class Finding(msgspec.Struct, frozen=True):
    """What is wrong with one file, and the exit code that it is worth."""

    path: Path
    what: str
    hint: str
    code: int


def check(args: argparse.Namespace) -> int:
    """The command ``cassettes check``."""
    places = [Path(text) for text in args.path or ["."]]
    project = Project(find_root(Path.cwd(), os.environ))
    tapes = list(find_tapes(places))
    foreign = [path for path in places if path.suffix in _FOREIGN and path.is_file()]
    findings = [one for path in tapes for one in _of_tape(path, project)]
    findings += [one for path in foreign for one in _of_foreign(path)]
    for one in findings:
        if args.json:
            told = {"path": str(one.path), "what": one.what, "hint": one.hint}
            print(json_line(told))
        else:
            print(
                f"{escape_controls(str(one.path))}: {escape_controls(one.what)}\n  hint: {escape_controls(one.hint)}"
            )
    if findings and not args.json:
        bad, whole = len({one.path for one in findings}), count(len(tapes) + len(foreign), "file")
        print(f"reenact: {bad:,} of {whole} refused", file=sys.stderr)
    return max((one.code for one in findings), default=0)


def _of_tape(path: Path, project: Project) -> Iterator[Finding]:
    try:
        with open_tape(path) as source:
            redactor = _redactor(source.manifest(), project)
            for event in source:
                rules = _survivors(event, redactor)
                if rules:
                    what = f"line {event.seq + 1}: {_LOOKS} ({', '.join(rules)})"
                    yield Finding(path, what, _AGAIN, PolicyRefused.exit_code)
    except RecordingError as error:
        what = f"{status_of(error)}: {error.message}"
        yield Finding(path, what, error.hint or "record it again", error.exit_code)


def _survivors(event: Event, redactor: Redactor) -> list[str]:
    """The rules that find something: those of the last scan before an event is written, and those
    that would have taken something out of it before."""
    payload = event.payload
    rules = set(redactor.survivors(payload))
    if redactor.suspects(payload):
        rules |= {mark.rule for mark in redactor.redact(event.data).marks}
    return sorted(rules)


def _redactor(manifest: Manifest, project: Project) -> Redactor:
    """The one that such a recording is written with, and ``default`` at least."""
    profile: Profile = manifest.redaction.profile
    profile = "default" if profile == "none" else profile
    said = manifest.policy
    pinned = None if said is None else project.policy(said.id)
    if pinned is None or pinned.sanitizer is None:
        return _plain(profile)
    arguments = pinned.sanitizer.arguments(dict(os.environ))
    arguments["profile"] = profile
    return Redactor(**arguments)


@cache
def _plain(profile: Profile) -> Redactor:
    return Redactor(profile, environ=dict(os.environ))


def _of_foreign(path: Path) -> Iterator[Finding]:
    """A cassette of vcrpy: its text alone is looked at, for tokens."""
    data = path.read_bytes()
    if b"interactions:" not in data:
        return
    redactor = _plain("default")
    for number, line in enumerate(data.splitlines(), 1):
        rules = redactor.survivors(line)
        if rules:
            what = f"line {number}: {_LOOKS} ({', '.join(rules)})"
            yield Finding(path, what, "filter it and record it again", PolicyRefused.exit_code)
