"""``reenact view``: a recording as one page for a browser."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from reenact.cli.pages import write_page
from reenact.cli.places import recording_at
from reenact.cli.render import escape_controls, json_line, size
from reenact.cli.reports import divergences_in
from reenact.store.reader import open_recording
from reenact.views.calls import read_steps
from reenact.views.html.run_page import MOST_STEPS, Window, contents, left_out, run_page

__all__ = ["view"]

_VERSION = 1


def view(args: argparse.Namespace) -> int:
    """The command ``view``."""
    path = recording_at(args.path)
    found = [] if args.report is None else divergences_in(Path(args.report))
    target = Path(args.output or f"{path.resolve().stem}.html")
    with open_recording(path) as source:
        steps = read_steps(source, draws=args.draws)
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
