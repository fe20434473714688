"""The ``recover`` command: close a recording whose program was killed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from reenact._system import start_clock
from reenact.cli._output import count, escape_controls, json_line
from reenact.cli._parser import Command, Parser, json_flag, recording
from reenact.cli._recordings import recording_at
from reenact.errors import RecordingDamaged
from reenact.store.files import MANIFEST
from reenact.store.reader import part_path
from reenact.store.recover import Recovery
from reenact.store.recover import recover as close_unfinished

__all__ = ["COMMANDS"]


def _arguments(parser: Parser) -> None:
    recording(parser)
    parser.add_argument(
        "--cut", action="store_true", help="end it before the first line that is not an event"
    )
    json_flag(parser, "what was kept and cut as JSON")


def recover(args: argparse.Namespace) -> int:
    path = recording_at(args.path)
    try:
        found = close_unfinished(path, start_clock(), cut_damage=args.cut)
    except RecordingDamaged as error:
        if not args.cut and not error.hint and _is_open(path):
            error.hint = f"to end it before that line: reenact recover --cut {path}"
        raise
    if args.json:
        print(json_line(_recovery_json(path, found)))
        return 0
    events = count(found.manifest.event_count, "event")
    if found.already_whole:
        print(f"{escape_controls(str(path))}: whole already, {events}; nothing was done")
        return 0
    print(f"{escape_controls(str(path))}: recovered, {events} kept")
    if found.unfinished:
        print(f"  unfinished: {count(found.unfinished, 'call')} whose answer was still coming")
    for what in found.cut or ("nothing",):
        print(f"  cut: {escape_controls(what)}")
    return 0


def _is_open(path: Path) -> bool:
    if path.is_dir():
        return not (path / MANIFEST).exists()
    return part_path(path).exists()


def _recovery_json(path: Path, found: Recovery) -> dict[str, Any]:
    return {
        "path": str(path),
        "events": found.manifest.event_count,
        "status": found.manifest.status,
        "alreadyWhole": found.already_whole,
        "unfinished": found.unfinished,
        "cut": list(found.cut),
    }


COMMANDS = {
    "recover": Command(
        description="Closes a recording whose program was killed. Complete events are kept; a torn last "
        "line is set aside and reported.",
        example="reenact recover runs/today",
        arguments=_arguments,
        run=recover,
    ),
}
