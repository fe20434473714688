"""The ``cassettes`` commands: list, check and remove the cassettes of a test tree."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from reenact._system import start_clock
from reenact.cli._output import count, escape_controls, json_line, rows, size
from reenact.cli._parser import Command, Group, argument, json_flag, takes
from reenact.cli.manage._cassette_inventory import (
    Cassette,
    CassetteUsage,
    Project,
    collect_usage,
    files_of,
    find_tapes,
    inspect_cassette,
    read_report,
    status_of,
)
from reenact.errors import PolicyRefused, RecordingError, UsageError
from reenact.format.event import Event
from reenact.format.manifest import Manifest
from reenact.policy.paths import find_root
from reenact.policy.redaction.redactor import Profile, Redactor
from reenact.store.reader import open_tape

__all__ = ["COMMANDS"]

_FOUND = 1
"""Exit code if the list is not empty."""
_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"))


_FOLDER = argument("dir [DIR]", "where to look, else .", default=".")


def ls(args: argparse.Namespace) -> int:
    folder, now = _folder(args.dir), start_clock()()
    project = _project(folder)
    found = [inspect_cassette(path, count=True) for path in find_tapes([folder])]
    if args.json:
        for one in found:
            print(json_line(_as_json(one, project)))
        return 0
    table: list[tuple[str, ...]] = [
        ("cassette", "events", "calls", "size", "age", "policy", "status")
    ]
    table += [_row(one, project, now) for one in found]
    print("\n".join(rows(table, right=frozenset({1, 2, 3}))))
    return 0


def _folder(text: str) -> Path:
    folder = Path(text)
    if not folder.is_dir():
        raise UsageError(f"{text} is not a folder", hint="reenact cassettes ls tests")
    return folder


def _project(folder: Path) -> Project:
    return Project(find_root(folder, os.environ))


def _row(one: Cassette, project: Project, now: int) -> tuple[str, ...]:
    name, manifest = escape_controls(str(one.path)), one.manifest
    if manifest is None:
        return (name, "-", "-", size(one.size), "-", "-", one.status)
    made = manifest.completed_at or manifest.created_at
    return (
        name,
        f"{one.events:,}",
        f"{one.calls:,}",
        size(one.size),
        _age(now - made),
        project.pin(manifest),
        one.status,
    )


def _age(milliseconds: int) -> str:
    for unit, word in _UNITS:
        if milliseconds >= unit:
            return count(milliseconds // unit, word)
    return "now"


def _as_json(one: Cassette, project: Project) -> dict[str, Any]:
    told: dict[str, Any] = {"path": str(one.path), "status": one.status, "bytes": one.size}
    manifest = one.manifest
    if manifest is None:
        return {**told, "why": one.why}
    return {
        **told,
        "events": one.events,
        "calls": one.calls,
        "createdAt": manifest.created_at,
        "completedAt": manifest.completed_at,
        "redaction": manifest.redaction.profile,
        "policy": None if manifest.policy is None else manifest.policy.id,
        "pin": project.pin(manifest),
    }


def stale(args: argparse.Namespace) -> int:
    folder = _folder(args.dir)
    project = _project(folder)
    found = [(path, list(project.reasons(inspect_cassette(path)))) for path in find_tapes([folder])]
    old = [(path, reasons) for path, reasons in found if reasons]
    for path, reasons in old:
        if args.json:
            print(json_line({"path": str(path), "reasons": reasons}))
        else:
            print(
                "\n".join(
                    f"{escape_controls(str(path))}: {escape_controls(reason)}" for reason in reasons
                )
            )
    _note(f"{len(old):,} of {count(len(found), 'cassette')} should be recorded again", args)
    return _FOUND if old else 0


def unused(args: argparse.Namespace) -> int:
    found, left = _unused(_folder(args.dir), _used_by_tests(args))
    for path in left:
        print(json_line({"path": str(path)}) if args.json else escape_controls(str(path)))
    _note(f"no test uses {len(left):,} of {count(found, 'cassette')}", args)
    return _FOUND if left else 0


def prune(args: argparse.Namespace) -> int:
    found, left = _unused(_folder(args.dir), _used_by_tests(args))
    for path in left:
        print(
            json_line({"path": str(path), "removed": args.yes})
            if args.json
            else escape_controls(str(path))
        )
    if not args.yes:
        _note(
            f"{len(left):,} of {count(found, 'cassette')} would be removed; add --yes to do it",
            args,
        )
        return _FOUND if left else 0
    sys.stdout.flush()
    for path in left:
        for one in files_of(path):
            shutil.rmtree(one) if one.is_dir() else one.unlink()
    _note(f"removed {len(left):,} of {count(found, 'cassette')}", args)
    return 0


def _used_by_tests(args: argparse.Namespace) -> CassetteUsage:
    return collect_usage() if args.report is None else read_report(Path(args.report))


def _unused(folder: Path, asked: CassetteUsage) -> tuple[int, list[Path]]:
    found = list(find_tapes([folder]))
    return len(found), [path for path in found if path.resolve() not in asked.cassettes]


def _note(text: str, args: argparse.Namespace) -> None:
    if not args.json:
        print(f"reenact: {text}", file=sys.stderr)


_FOREIGN = (".yaml", ".yml")
_LOOKS = "text that looks like a secret"
_AGAIN = (
    "take it out (reenact redact), or record it again; a secret that was seen has to be changed"
)


class Finding(msgspec.Struct, frozen=True):
    """Problem of one file, with its exit code."""

    path: Path
    what: str
    hint: str
    code: int


def check(args: argparse.Namespace) -> int:
    places = [Path(text) for text in args.path or ["."]]
    project = Project(find_root(Path.cwd(), os.environ))
    tapes = list(find_tapes(places))
    foreign = [path for path in places if path.suffix in _FOREIGN and path.is_file()]
    findings = [one for path in tapes for one in _check_tape(path, project)]
    findings += [one for path in foreign for one in _check_vcr(path)]
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


def _check_tape(path: Path, project: Project) -> Iterator[Finding]:
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
    """Return the rules that detect a secret: in the final scan, or by redacting again."""
    payload = event.payload
    rules = set(redactor.survivors(payload))
    if redactor.suspects(payload):
        rules |= {mark.rule for mark in redactor.redact(event.data).marks}
    return sorted(rules)


def _redactor(manifest: Manifest, project: Project) -> Redactor:
    """Return the redactor for recordings like this one, with at least the ``default`` profile."""
    profile: Profile = manifest.redaction.profile
    profile = "default" if profile == "none" else profile
    said = manifest.policy
    pinned = None if said is None else project.policy(said.id)
    if pinned is None or pinned.sanitizer is None:
        return _default_redactor(profile)
    arguments = pinned.sanitizer.arguments(dict(os.environ))
    arguments["profile"] = profile
    return Redactor(**arguments)


@cache
def _default_redactor(profile: Profile) -> Redactor:
    return Redactor(profile, environ=dict(os.environ))


def _check_vcr(path: Path) -> Iterator[Finding]:
    """Search the text of a vcrpy cassette for tokens."""
    data = path.read_bytes()
    if b"interactions:" not in data:
        return
    redactor = _default_redactor("default")
    for number, line in enumerate(data.splitlines(), 1):
        rules = redactor.survivors(line)
        if rules:
            what = f"line {number}: {_LOOKS} ({', '.join(rules)})"
            yield Finding(path, what, "filter it and record it again", PolicyRefused.exit_code)


COMMANDS = {
    "cassettes": Group(
        description="Cassettes are tapes that tests replay. These commands list all cassettes below a "
        "folder, find unused and outdated ones, and check that they can be shared.",
        example="reenact cassettes ls tests",
        commands={
            "ls": Command(
                summary="a table of the cassettes",
                description="Lists every cassette with its events, calls, size and age, whether its policy is the "
                "pinned one, and whether it can be replayed.",
                example="reenact cassettes ls tests --json",
                arguments=takes(_FOLDER, json_flag("one line of JSON per cassette")),
                run=ls,
            ),
            "unused": Command(
                summary="cassettes that no test uses",
                description="Lists the cassettes that no test uses, as collected by pytest. Exit code 1 if there "
                "are any.",
                example="reenact cassettes unused tests",
                arguments=takes(
                    _FOLDER,
                    argument(
                        "--report FILE",
                        "the report of pytest --reenact-report (default: collect the tests with pytest)",
                    ),
                    json_flag("one line of JSON per cassette"),
                ),
                run=unused,
            ),
            "stale": Command(
                summary="cassettes that should be recorded again",
                description="Lists the cassettes that should be recorded again, and why: an older format, a "
                "different policy, weaker redaction, or an unfinished recording. Exit code 1 if there "
                "are any.",
                example="reenact cassettes stale tests",
                arguments=takes(_FOLDER, json_flag("one line of JSON per cassette")),
                run=stale,
            ),
            "prune": Command(
                summary="remove the cassettes that no test uses",
                description="Lists the cassettes that no test uses and, with --yes, removes them and their files. "
                "Without --yes nothing is removed.",
                example="reenact cassettes prune tests --yes",
                arguments=takes(
                    _FOLDER,
                    argument(
                        "--report FILE",
                        "the report of pytest --reenact-report (default: collect the tests with pytest)",
                    ),
                    json_flag("one line of JSON per cassette"),
                    argument("--yes", "remove them; else they are only listed"),
                ),
                run=prune,
            ),
            "check": Command(
                summary="refuse cassettes that must not be shared",
                description="Checks cassettes before they are committed: hashes, completeness, and text that "
                "looks like a secret. vcrpy YAML files are checked as text. Secrets are not printed. "
                "Exit code 4 for a secret, 3 for damage.",
                example="reenact cassettes check tests",
                arguments=takes(
                    argument("path [PATH...]", "files and folders, else the folder you are in"),
                    json_flag("one line of JSON per finding"),
                ),
                run=check,
            ),
        },
    )
}
