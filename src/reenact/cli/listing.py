"""Tables of what a server lists: as text, or as JSON, one object per line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from textwrap import wrap
from typing import Any

from reenact.cli.parsing import columns
from reenact.cli.render import cell_width, clip, escape_controls, json_line, rows
from reenact.search.moments import moment, read_moment

__all__ = [
    "NOTHING",
    "Column",
    "ended",
    "print_table",
    "since_and_until",
    "table_lines",
    "told",
    "when",
]

Column = tuple[str, Callable[[dict[str, Any]], str]]
"""A heading, and what stands below it. Of the last one each line is a thing of its own."""

NOTHING = "-"
"""What stands where there is nothing."""
_WIDEST = 60
_NARROW = 20
_BELOW = "    "


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
    width = columns() if sys.stdout.isatty() else 0
    for line in table_lines(listed, table, width):
        print(line)


def table_lines(
    items: Sequence[dict[str, Any]], table: Sequence[Column], width: int
) -> Iterator[str]:
    """``items`` as lines of at most ``width`` cells; 0 means as long as they are. What the last
    column says goes below the line where it does not fit into it."""
    heading = tuple(heading for heading, _ in table)
    whole = rows([heading, *(_row(one, table) for one in items)])
    if not width or max(map(cell_width, whole)) <= width:
        yield from whole
        return
    front = rows([heading[:-1], *(_row(one, table[:-1]) for one in items)])
    yield clip(front[0], width)
    for line, item in zip(front[1:], items, strict=True):
        yield clip(line, width)
        for text in _lines(table[-1], item) if table[-1][1](item) != NOTHING else ():
            yield from (f"{_BELOW}{part}" for part in wrap(text, max(_NARROW, width - len(_BELOW))))


def _row(item: dict[str, Any], table: Sequence[Column]) -> tuple[str, ...]:
    """The last column has as much room as it needs."""
    *front, last = (", ".join(_lines(column, item)) for column in table)
    return (*(clip(cell, _WIDEST) for cell in front), last)


def _lines(column: Column, item: dict[str, Any]) -> list[str]:
    return [escape_controls(line) for line in column[1](item).split("\n")]


def told(name: str, *others: str) -> Callable[[dict[str, Any]], str]:
    """The first of these fields that says something."""

    def cell(item: dict[str, Any]) -> str:
        found = (item.get(one) for one in (name, *others))
        return next((str(value) for value in found if value not in (None, "", [])), NOTHING)

    return cell


def ended(item: dict[str, Any]) -> str:
    """Return the ending of a replay's exchange, with the HTTP status of its response."""
    words = (str(item.get("ending") or ""), str(item.get("httpStatus") or ""))
    return " ".join(filter(None, words)) or NOTHING


def when(name: str) -> Callable[[dict[str, Any]], str]:
    """A time, for people."""

    def cell(item: dict[str, Any]) -> str:
        value = item.get(name)
        return moment(value) if isinstance(value, int) and value else NOTHING

    return cell


def since_and_until(args: argparse.Namespace) -> dict[str, int | None]:
    """The filters of these names, out of what people say."""
    now = datetime.now().astimezone()
    return {
        "since": None if args.since is None else read_moment(args.since, now),
        "until": None if args.until is None else read_moment(args.until, now, end=True),
    }
