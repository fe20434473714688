"""``reenact view``: a recording as one page for a browser."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from reenact.cli.pages import write_page
from reenact.cli.places import recording_at
from reenact.cli.render import json_line, safe, size
from reenact.cli.reports import divergences_in
from reenact.store.reading import open_recording
from reenact.views.page.contents import contents
from reenact.views.page.run import run_page
from reenact.views.steps import read_steps

__all__ = ["view"]

_VERSION = 1


def view(args: argparse.Namespace) -> int:
    """The command ``view``."""
    path = recording_at(args.path)
    found = [] if args.report is None else divergences_in(Path(args.report))
    target = Path(args.output or f"{path.resolve().stem}.html")
    with open_recording(path) as source:
        data = contents(path.name, source.manifest(), read_steps(source, draws=args.draws), found)
    document = run_page(path.name, data).encode()
    write_page(target, document)
    if args.json:
        told = {"path": str(target), "bytes": len(document), "steps": len(data["steps"])}
        print(json_line({"version": _VERSION, **told}))
    else:
        print(f"wrote {safe(str(target))}, {size(len(document))}", file=sys.stderr)
    return 0
