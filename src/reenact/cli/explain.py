"""``reenact explain``: why a replay diverged, and what would settle it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec

from reenact.cli.explain_text import Printer
from reenact.cli.parsing import columns
from reenact.cli.places import recording_at
from reenact.cli.render import count, json_line
from reenact.errors import RecordingError, UsageError
from reenact.policy.paths import find_root
from reenact.runs.kept import kept_about, last_kept
from reenact.runs.options import LAST
from reenact.store.reader import open_recording
from reenact.views.explain.explanation import VERSION, Explanation, Told, explain, told_in

__all__ = ["explain_divergence"]

_STDIN = "-"
_HOW = (
    "reenact run --replay RUN -- CMD keeps one when it diverges; --report FILE writes it anywhere"
)


def explain_divergence(args: argparse.Namespace) -> int:
    """The command ``explain``."""
    listed = told_in(_report(args.what))
    if not listed:
        raise UsageError(f"{args.what}: nothing diverged there", hint=_HOW)
    if args.number > len(listed):
        raise UsageError(
            f"there is no divergence {args.number}: {args.what} has {count(len(listed), 'divergence')}",
            hint="-n counts from 1",
        )
    told = listed[args.number - 1]
    path = _recording(args, told)
    with nullcontext(None) if path is None else open_recording(path) as source:
        changed = source is not None and _has_changed(
            told, source.manifest().integrity.content_hash
        )
        found = explain(told, path, source)
        if args.json:
            print(json_line(_whole(found, told, path, len(listed), args.number, changed)))
        else:
            Printer(columns() if args.width is None else args.width).print(found)
    _say(args, told, path, len(listed), changed)
    return 0


def _report(what: str) -> Any:
    """What the command line names: a file, stdin, a recording, or the last that diverged."""
    if what == _STDIN:
        return _read(sys.stdin.buffer.read(), "what stands on stdin")
    if what == LAST:
        return _found(last_kept(_root()), "no replay has diverged here lately")
    path = recording_at(what)
    if path.is_file() and not _is_tape(path):
        return _read(path.read_bytes(), what)
    with open_recording(path):  # says what is wrong with it, if it is none
        roots = (_root(), find_root(path.resolve().parent, os.environ))
        kept = next(filter(None, (kept_about(root, path) for root in roots)), None)
        return _found(kept, f"the last replay of {what} did not diverge")


def _read(content: bytes, what: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} is no JSON: {error}", hint=_HOW) from None


def _is_tape(path: Path) -> bool:
    """Is its first line the header of a recording? A report is one object, in one line or many."""
    with path.open("rb") as file:
        line = file.readline()
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        return path.suffix == ".jsonl"
    return isinstance(head, dict) and "captureId" in head


def _found(report: Any, otherwise: str) -> Any:
    if report is None:
        raise UsageError(f"{otherwise}, or nothing was kept of it", hint=_HOW)
    return report


def _root() -> Path:
    return find_root(Path.cwd(), os.environ)


def _recording(args: argparse.Namespace, told: Told) -> Path | None:
    """The recording, as somebody here would write it; None when it is not known or not there."""
    if args.recording is not None:
        return recording_at(args.recording)
    if told.recording is None:
        return None
    path = Path(told.recording)
    path = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    try:
        with open_recording(path):
            return path
    except (RecordingError, OSError):
        return None


def _has_changed(told: Told, now: str) -> bool:
    return told.content_hash is not None and told.content_hash != now


def _say(
    args: argparse.Namespace, told: Told, path: Path | None, number: int, changed: bool
) -> None:
    sys.stdout.flush()
    if path is None:
        why = (
            "names no recording"
            if told.recording is None
            else "names a recording that is not there"
        )
        _note(f"the report {why}: what stands around it is not known (--recording RUN)")
    if changed:
        _note("the recording has changed since: replay it again for a report that fits")
    if number > 1:
        _note(f"{args.number} of {count(number, 'divergence')}; -n N explains another")


def _note(text: str) -> None:
    print(f"reenact: note: {text}", file=sys.stderr)


def _whole(
    found: Explanation, told: Told, path: Path | None, number: int, which: int, changed: bool
) -> dict[str, Any]:
    near = [
        {"seq": one.seq, "lane": one.lane, "kind": one.kind, "name": one.name, "became": one.became}
        for one in found.case.near
    ]
    return {
        "version": VERSION,
        "recording": None if path is None else str(path),
        "recordingChanged": changed,
        "number": which,
        "of": number,
        "divergence": told.divergence.to_json(),
        "near": near,
        "causes": msgspec.to_builtins(found.causes),
        "settle": None if found.settle is None else msgspec.to_builtins(found.settle),
    }
