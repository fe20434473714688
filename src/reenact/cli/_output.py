"""Text, tables, progress and errors on the screen.

Recorded data is untrusted. Every function escapes it, so that no control character reaches the terminal.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from reenact.cli._parser import DEFAULT_WIDTH, Misuse, columns
from reenact.diff.terminal_text import cell_width, clip, escape_controls, preview
from reenact.errors import RecordingError, ReenactError, SinkUnwritable, UsageError

if TYPE_CHECKING:
    import argparse
    from collections import Counter
    from pathlib import Path

    from reenact.diff.values import Difference
    from reenact.engine.divergence.model import Gap

__all__ = [
    "NOTHING",
    "Column",
    "Progress",
    "Screen",
    "cell_width",
    "clip",
    "count",
    "escape_controls",
    "fail",
    "field",
    "has_colour",
    "json_line",
    "mark_words",
    "offset",
    "os_error",
    "pretty",
    "preview",
    "print_result",
    "print_table",
    "report",
    "report_misuse",
    "rows",
    "screen_of",
    "share",
    "size",
    "span",
    "table_lines",
    "time_field",
    "value_lines",
    "write_page",
]

# JSON


def json_line(value: Any) -> str:
    """Return one line of JSON in ASCII, in which no character is special to a terminal."""
    return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")


def pretty(value: Any) -> str:
    """Return indented JSON with readable characters that is still valid and safe to print."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    text = json.dumps(value, ensure_ascii=encoding != "utf8", indent=2)
    return "\n".join(map(escape_controls, text.split("\n")))


# Numbers and times


def count(number: int, noun: str) -> str:
    """Return ``1 event`` or ``1,204 events``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: int) -> str:
    """Return a readable number of bytes: ``731 B``, ``4.2 KiB``."""
    if number < 1024:
        return f"{number} B"
    amount, unit = number / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if amount < 999.95:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.1f} {unit}"


def share(part: int, total: int) -> str:
    """Return a percentage such as ``25%``; ``100%`` if ``total`` is 0."""
    return f"{100 * part / total:.0f}%" if total else "100%"


def offset(milliseconds: int) -> str:
    """Return the time since the first event: ``0.000``, ``12.345``, ``1:02:03.456``."""
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
    """Return a duration with its unit: ``12.345 s``, ``1:02:03.456 h``."""
    unit = "s" if abs(milliseconds) < 60_000 else "min" if abs(milliseconds) < 3_600_000 else "h"
    return f"{offset(milliseconds)} {unit}"


# Tables

Column = tuple[str, Callable[[dict[str, Any]], str]]
"""Heading and cell function of a column. The last column can return several lines."""

NOTHING = "-"
"""Text of an empty cell."""
_WIDEST_CELL = 60
_NARROWEST_CELL = 20
_INDENT = "    "


def rows(table: Sequence[tuple[str, ...]], *, right: frozenset[int] = frozenset()) -> list[str]:
    """Align the cells of a small table in columns; those in ``right`` are aligned to the right."""
    if not table:
        return []
    widths = [max(map(cell_width, column)) for column in zip(*table, strict=True)]
    return ["  ".join(_padded(row, widths, right)).rstrip() for row in table]


def _padded(row: tuple[str, ...], widths: list[int], right: frozenset[int]) -> Iterator[str]:
    for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
        gap = " " * (width - cell_width(cell))
        yield gap + cell if index in right else cell + gap


def print_table(
    args: argparse.Namespace, items: Iterable[dict[str, Any]], table: Sequence[Column], none: str
) -> None:
    """Print ``items`` as a table, or as JSON with ``--json``. Without items, print ``none`` to stderr."""
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
    """Return ``items`` as lines of at most ``width`` cells; 0 means unlimited.

    If the last column does not fit, it is printed below each line.
    """
    from textwrap import wrap

    heading = tuple(heading for heading, _ in table)
    complete = rows([heading, *(_row(one, table) for one in items)])
    if not width or max(map(cell_width, complete)) <= width:
        yield from complete
        return
    front = rows([heading[:-1], *(_row(one, table[:-1]) for one in items)])
    yield clip(front[0], width)
    for line, item in zip(front[1:], items, strict=True):
        yield clip(line, width)
        for text in _cell_lines(table[-1], item) if table[-1][1](item) != NOTHING else ():
            room = max(_NARROWEST_CELL, width - len(_INDENT))
            yield from (f"{_INDENT}{part}" for part in wrap(text, room))


def _row(item: dict[str, Any], table: Sequence[Column]) -> tuple[str, ...]:
    *front, last = (", ".join(_cell_lines(column, item)) for column in table)
    return (*(clip(cell, _WIDEST_CELL) for cell in front), last)


def _cell_lines(column: Column, item: dict[str, Any]) -> list[str]:
    return [escape_controls(line) for line in column[1](item).split("\n")]


def field(name: str, *others: str) -> Callable[[dict[str, Any]], str]:
    """Return a cell function for the first of these fields that is not empty."""

    def cell(item: dict[str, Any]) -> str:
        found = (item.get(one) for one in (name, *others))
        return next((str(value) for value in found if value not in (None, "", [])), NOTHING)

    return cell


def time_field(name: str) -> Callable[[dict[str, Any]], str]:
    """Return a cell function for a time in milliseconds."""

    def cell(item: dict[str, Any]) -> str:
        from reenact.search.query import moment

        value = item.get(name)
        return moment(value) if isinstance(value, int) and value else NOTHING

    return cell


def print_result(args: argparse.Namespace, found: Any, *lines: str) -> int:
    """Print ``lines``, or ``found`` with ``--json``, and return exit code 0."""
    if args.json:
        print(json_line({"ok": True} if found is None else found))
    else:
        print(*map(escape_controls, lines), sep="\n")
    return 0


# Terminals

_DUMB = ("", "dumb")
_BLOCKS = "█▐▁"
_COLOUR_MARKS = {
    "same": ("", ""),
    "removed": ("\033[31m", "\033[0m"),
    "added": ("\033[32m", "\033[0m"),
}


class Screen(NamedTuple):
    """Capabilities of an output stream: block characters, colours, and the encoding of its text."""

    blocks: bool
    colour: bool
    encoding: str


def screen_of(out: TextIO) -> Screen:
    """Detect the capabilities of a stream. Only a terminal gets block characters."""
    encoding = getattr(out, "encoding", None) or "ascii"
    smart = out.isatty() and os.environ.get("TERM", "") not in _DUMB
    return Screen(smart and _can_encode(encoding, _BLOCKS), has_colour(out), encoding)


def has_colour(out: TextIO) -> bool:
    """Return whether ``out`` is a terminal with colours and ``NO_COLOR`` is not set."""
    smart = out.isatty() and os.environ.get("TERM", "") not in _DUMB
    return smart and not os.environ.get("NO_COLOR")


def _can_encode(encoding: str, characters: str) -> bool:
    try:
        characters.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def mark_words(old: str, new: str, out: TextIO) -> str:
    """Return two texts as one, with removed and added words marked, in colour if ``out`` has it.

    Long equal parts are shortened. The result is never clipped, because the change can be anywhere in it.
    """
    from reenact.diff.sequences import mark_words as marked

    return marked(old, new, _COLOUR_MARKS if has_colour(out) else None)


def value_lines(
    found: Difference | Gap, out: TextIO, width: int, *, indent: str, most: int = 0
) -> Iterator[str]:
    """Yield the values of a difference, clipped to ``width``; 0 means unlimited.

    Two texts become one with marked words, which is never clipped, unless they have more than
    ``most`` characters together. Other values are printed below each other.
    """
    one, other = found.expected, found.observed
    if isinstance(one, str) and isinstance(other, str) and (not most or len(one + other) < most):
        yield f"{indent}{mark_words(one, other, out)}"
        return
    room = width or 1 << 16
    if found.kind != "added":
        yield clip(f"{indent}- {preview(one, room)}", width)
    if found.kind != "removed":
        yield clip(f"{indent}+ {preview(other, room)}", width)


def write_page(target: Path, document: bytes) -> None:
    """Replace the HTML file ``target`` atomically. Raises :class:`SinkUnwritable`."""
    from reenact.store.files import replace_file

    try:
        replace_file(target, document, sync=False, private=False)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SinkUnwritable(
            f"cannot write the page {target}: {reason}",
            hint="choose a place that exists, has room and is yours to write",
        ) from None


# Progress

_BAR = 24
_BAR_INTERVAL, _LINE_INTERVAL = 0.1, 10.0
"""Seconds between updates at a terminal, and between lines elsewhere."""


class Progress:
    """Progress of a long operation: a bar at a terminal, otherwise a line every few seconds."""

    def __init__(
        self, total: int, done: int = 0, *, quiet: bool = False, out: TextIO | None = None
    ) -> None:
        from reenact._system import monotonic

        self._total, self._before, self._done = total, done, done
        self._out = out or sys.stderr
        self._quiet = quiet
        self._bar = self._out.isatty()
        self._clock = monotonic
        self._start = self._printed = monotonic()

    def step(self, counts: Counter[str]) -> None:
        """Count one more item; ``counts`` has the outcomes so far."""
        self._done += 1
        now = self._clock()
        interval = _BAR_INTERVAL if self._bar else _LINE_INTERVAL
        if not self._quiet and (now - self._printed >= interval or self._done == self._total):
            self._printed = now
            line = self._line(now, counts)
            start, end = ("\r\033[K", "") if self._bar else ("", "\n")
            print(f"{start}{line}", end=end, file=self._out, flush=True)

    def end(self) -> None:
        """End the line of the bar."""
        if self._bar and not self._quiet and self._done > self._before:
            print(file=self._out)

    def _line(self, now: float, counts: Counter[str]) -> str:
        seconds = max(now - self._start, 1e-9)
        rate = (self._done - self._before) / seconds
        left = (self._total - self._done) / rate if rate else 0.0
        time = f"{_clock(left)} left" if self._done < self._total else f"in {_clock(seconds)}"
        outcomes = ", ".join(
            f"{number:,} {name}" for name, number in sorted(counts.items()) if number
        )
        line = f"{self._done:,}/{self._total:,}  {rate:,.1f}/s  {time}  {outcomes}"
        if not self._bar:
            return f"reenact: {line}"
        width = self._width()
        if width < len(line) + _BAR + 3:
            return clip(line, width)
        full = round(_BAR * self._done / self._total) if self._total else _BAR
        return f"[{'#' * full}{'.' * (_BAR - full)}] {line}"

    def _width(self) -> int:
        # A line of the full width would wrap, and \r could not overwrite it.
        try:
            return max(1, (os.get_terminal_size(self._out.fileno()).columns or DEFAULT_WIDTH) - 1)
        except (OSError, ValueError):
            return DEFAULT_WIDTH


def _clock(seconds: float) -> str:
    """Return ``12 s``, ``3:05 min`` or ``1:02:03 h``."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min"


# Errors

_ERRNO_HINTS = {
    errno.EACCES: "check its owner and permissions",
    errno.EPERM: "check its owner and permissions",
    errno.ENOENT: "check the path",
    errno.ENOSPC: "make room on the disk, or choose another place",
    errno.EDQUOT: "make room on the disk, or choose another place",
    errno.EROFS: "choose a place that can be written",
}


def fail(error: ReenactError, *, as_json: bool) -> int:
    """Report ``error``, with ``--json`` also as JSON on stdout, and return its exit code."""
    if as_json:
        print(json_line({"error": error.to_json()}))
    report(error)
    return error.exit_code


def report(error: ReenactError) -> None:
    """Print an error and its hint to stderr."""
    print(f"reenact: error: {escape_controls(error.message)}", file=sys.stderr)
    if error.hint:
        print(f"hint: {escape_controls(error.hint)}", file=sys.stderr)


def report_misuse(misuse: Misuse, *, as_json: bool) -> int:
    """Report a command line that cannot be parsed and return the exit code."""
    return fail(UsageError(str(misuse), hint=f"{misuse.prog} --help"), as_json=as_json)


def os_error(error: OSError) -> RecordingError:
    """Convert an error of the operating system to a :class:`RecordingError` with a hint."""
    what = "reading or writing" if error.filename is None else str(error.filename)
    return RecordingError(
        f"{what}: {error.strerror or type(error).__name__}",
        hint=_ERRNO_HINTS.get(error.errno or 0, "check the path and the disk"),
        errno=error.errno,
    )
