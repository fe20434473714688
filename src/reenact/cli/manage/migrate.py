"""The ``migrate`` command: rewrite a recording in the current format."""

from __future__ import annotations

import argparse
from pathlib import Path

from reenact._system import start_clock
from reenact.cli._output import count, escape_controls, json_line
from reenact.cli._parser import Command, Parser, json_flag
from reenact.cli._recordings import manifest_json, recording_at
from reenact.store.rewrite import migrate as rewrite_old

__all__ = ["COMMANDS"]


def _arguments(parser: Parser) -> None:
    parser.add_argument("old", metavar="OLD", help="the capture directory of an earlier version")
    parser.add_argument("new", metavar="NEW", help="where to write the new one")
    json_flag(parser, "what was done as JSON")


def migrate(args: argparse.Namespace) -> int:
    new = Path(args.new)
    manifest = rewrite_old(recording_at(args.old), new, start_clock())
    if args.json:
        print(json_line({"path": str(new), **manifest_json(manifest)}))
    else:
        events = count(manifest.event_count, "event")
        version = manifest.format.version
        print(
            f"{escape_controls(str(new))}: {events}, now in format {version}; {escape_controls(args.old)} is unchanged"
        )
    return 0


COMMANDS = {
    "migrate": Command(
        description="Rewrites a recording of an earlier format version in the current format. The original is "
        "not changed.",
        example="reenact migrate runs/old runs/new",
        arguments=_arguments,
        run=migrate,
    ),
}
