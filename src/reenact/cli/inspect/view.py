"""The ``view`` command: write a recording as an HTML page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from reenact.cli._output import escape_controls, json_line, size, write_page
from reenact.cli._parser import RECORDING, Command, Parser, json_flag, positive
from reenact.cli._recordings import divergences_in, recording_at
from reenact.store.reader import open_recording
from reenact.views.html.run_page import MOST_STEPS, Window, contents, left_out, run_page
from reenact.views.recorded_calls import read_run

__all__ = ["COMMANDS"]

_VERSION = 1


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("path", metavar="RUN", help=RECORDING)
    add(
        "-o", "--output", metavar="FILE", help="the file to write, otherwise RUN.html where you are"
    )
    add(
        "--report",
        metavar="FILE",
        help="mark the divergences of a replay, as run --report wrote them",
    )
    add("--draws", action="store_true", help="also show clock readings and random values")
    add("--from", dest="first", type=positive, metavar="SEQ", help="start with this event")
    add(
        "--limit",
        type=positive,
        metavar="N",
        help="show at most N steps (default: 10,000; a page of 32 MiB has fewer)",
    )
    json_flag("what was written as JSON")(parser)


def view(args: argparse.Namespace) -> int:
    path = recording_at(args.path)
    found = [] if args.report is None else divergences_in(Path(args.report))
    target = Path(args.output or f"{path.resolve().stem}.html")
    with open_recording(path) as source:
        steps = read_run(source, draws=args.draws)
        window = Window(first=args.first or 1, steps=args.limit or MOST_STEPS)
        data = contents(path.name, source.manifest(), steps, found, window)
    note, following = left_out(data), data["left"]["next"]
    document = run_page(path.name, data, note=note).encode()
    write_page(target, document)
    if args.json:
        told = {"path": str(target), "bytes": len(document), "steps": len(data["steps"])}
        left = {"left": data["left"]} if note else {}
        print(json_line({"version": _VERSION, **told, **left}))
        return 0
    print(f"wrote {escape_controls(str(target))}, {size(len(document))}", file=sys.stderr)
    if note:
        print(f"it shows {note}", file=sys.stderr)
    if following is not None:
        place = escape_controls(str(args.path))
        print(f"for the next ones: reenact view {place} --from {following}", file=sys.stderr)
    return 0


COMMANDS = {
    "view": Command(
        description="Writes a recording as one HTML file: lanes over time, conversations, HTTP, search, links. "
        "Nothing is loaded from elsewhere, and nothing that was recorded is obeyed.",
        example="reenact view runs/today -o today.html",
        arguments=_arguments,
        run=view,
    ),
}
