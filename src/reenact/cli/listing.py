"""Tables of what a server lists: as text, or as JSON, one object per line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from reenact.cli.parsing import columns
from reenact.cli.render import cells, clip, json_line, rows, safe
from reenact.search.moments import moment, read_moment

__all__ = ["Column", "print_table", "since_and_until", "told", "when"]

Column = tuple[str, Callable[[dict[str, Any]], str]]
"""A heading, and what stands below it."""

_WIDEST = 60


def print_table(
    args: argparse.Namespace, items: Iterable[dict[str, Any]], table: Sequence[Column], none: str
) -> None:
    """Print ``items``; ``none`` goes to stderr when there are none."""
    if args.json:
        for item in items:
            print(json_line(item))
        return
    listed = list(items)
    if not listed:
        print(f"reenact: {none}", file=sys.stderr)
        return
    body = [_row(one, table) for one in listed]
    width = columns() if sys.stdout.isatty() else 0
    for line in rows([tuple(heading for heading, _ in table), *body]):
        print(clip(line, width) if width and cells(line) > width else line)


def _row(item: dict[str, Any], table: Sequence[Column]) -> tuple[str, ...]:
    """The last column has as much room as it needs."""
    *front, last = (safe(cell(item)) for _, cell in table)
    return (*(clip(cell, _WIDEST) for cell in front), last)


def told(name: str, *others: str) -> Callable[[dict[str, Any]], str]:
    """The first of these fields that says something."""

    def cell(item: dict[str, Any]) -> str:
        found = (item.get(one) for one in (name, *others))
        return next((str(value) for value in found if value not in (None, "", [])), "-")

    return cell


def when(name: str) -> Callable[[dict[str, Any]], str]:
    """A time, for people."""

    def cell(item: dict[str, Any]) -> str:
        value = item.get(name)
        return moment(value) if isinstance(value, int) and value else "-"

    return cell


def since_and_until(args: argparse.Namespace) -> dict[str, int | None]:
    """The filters of these names, out of what people say."""
    now = datetime.now().astimezone()
    return {
        "since": None if args.since is None else read_moment(args.since, now),
        "until": None if args.until is None else read_moment(args.until, now, end=True),
    }
