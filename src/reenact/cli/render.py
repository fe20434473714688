"""Words and tables for the screen. What was recorded is hostile: it is escaped, never obeyed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from reenact.diff.terminal_text import cell_width, clip, escape_controls

__all__ = [
    "cell_width",
    "clip",
    "count",
    "escape_controls",
    "json_line",
    "offset",
    "pretty",
    "preview",
    "rows",
    "share",
    "size",
    "span",
]


def json_line(value: Any) -> str:
    """One line of JSON in plain ASCII: no character in it means anything to a terminal."""
    return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")


def pretty(value: Any) -> str:
    """JSON to read: indented, with the characters of all languages, and still safe and valid."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    text = json.dumps(value, ensure_ascii=encoding != "utf8", indent=2)
    return "\n".join(map(escape_controls, text.split("\n")))


def preview(value: Any, limit: int) -> str:
    """The beginning of ``value`` as JSON on one line. Costs no more than what is shown."""
    text = ""
    for piece in _pieces(value, limit):
        text += piece
        if len(text) > limit:
            break
    return clip(escape_controls(text), limit)


def _pieces(value: Any, limit: int) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _joined("{", (_field(item, limit) for item in value.items()), "}")
    elif isinstance(value, list):
        yield from _joined("[", (_pieces(item, limit) for item in value), "]")
    elif isinstance(value, str):
        yield json.dumps(value[: limit + 1], ensure_ascii=False)
    else:
        yield json.dumps(value)


def _field(item: tuple[str, Any], limit: int) -> Iterator[str]:
    yield f"{json.dumps(item[0][: limit + 1], ensure_ascii=False)}: "
    yield from _pieces(item[1], limit)


def _joined(start: str, parts: Iterable[Iterator[str]], end: str) -> Iterator[str]:
    yield start
    for number, part in enumerate(parts):
        if number:
            yield ", "
        yield from part
    yield end


def rows(table: Sequence[tuple[str, ...]], *, right: frozenset[int] = frozenset()) -> list[str]:
    """A small table as lines: columns as wide as they need to be, those in ``right`` to the right."""
    if not table:
        return []
    widths = [max(map(cell_width, column)) for column in zip(*table, strict=True)]
    return ["  ".join(_padded(row, widths, right)).rstrip() for row in table]


def _padded(row: tuple[str, ...], widths: list[int], right: frozenset[int]) -> Iterator[str]:
    for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
        gap = " " * (width - cell_width(cell))
        yield gap + cell if place in right else cell + gap


def count(number: int, noun: str) -> str:
    """``1 event``, ``1,204 events``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: int) -> str:
    """Bytes for people: ``731 B``, ``4.2 KiB``."""
    if number < 1024:
        return f"{number} B"
    amount, unit = number / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if amount < 999.95:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.1f} {unit}"


def share(part: int, whole: int) -> str:
    """``25%``; of nothing, everything."""
    return f"{100 * part / whole:.0f}%" if whole else "100%"


def offset(milliseconds: int) -> str:
    """The time since the first event: ``0.000``, ``12.345``, ``1:02:03.456``."""
    sign = "-" if milliseconds < 0 else ""
    seconds, rest = divmod(abs(milliseconds), 1000)
    hours, seconds = divmod(seconds, 3600)
    if not hours and seconds < 60:
        return f"{sign}{seconds}.{rest:03}"
    minutes, seconds = divmod(seconds, 60)
    if not hours:
        return f"{sign}{minutes}:{seconds:02}.{rest:03}"
    return f"{sign}{hours}:{minutes:02}:{seconds:02}.{rest:03}"


def span(milliseconds: int) -> str:
    """A duration with its unit: ``12.345 s``, ``1:02:03.456 h``."""
    unit = "s" if abs(milliseconds) < 60_000 else "min" if abs(milliseconds) < 3_600_000 else "h"
    return f"{offset(milliseconds)} {unit}"
