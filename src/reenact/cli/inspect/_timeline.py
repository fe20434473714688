"""Timeline of ``reenact show --timeline``: lanes are rows, calls are bars.

It uses block characters and colours where the terminal has them, otherwise ASCII."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from reenact.cli._output import Screen, count, escape_controls, json_line, screen_of, span
from reenact.cli._parser import DEFAULT_WIDTH, columns
from reenact.cli._recordings import divergences_in
from reenact.diff.terminal_text import cell_width
from reenact.engine.divergence.model import Divergence
from reenact.format.event import Event, lane_order
from reenact.store.source import LogSource
from reenact.views.recorded_calls import MARKS, RecordedCall, RunCalls, read_run
from reenact.views.timeline.layout import MOST_LANES, Axis, Row, Segment, Timeline, lay_out
from reenact.views.timeline.model import Span, State, read_spans

__all__ = [
    "Drawing",
    "timeline",
]

VERSION = 1
_MOST_TOLD = 10

Wanted = Callable[[Iterable[Event]], Iterable[Event]]


def timeline(path: Path, source: LogSource, args: argparse.Namespace, wanted: Wanted) -> int:
    """Print the timeline of the calls of which ``wanted`` accepts at least one event."""
    found = [] if args.report is None else divergences_in(Path(args.report))
    steps = read_run(source)
    chosen = _chosen(steps, wanted, args.limit)
    bars = read_spans(chosen, {one.event_seq for one in found if one.event_seq is not None})
    zero, last = _ends(source, steps)
    if args.json:
        print(json_line(_as_json(path, bars, steps, found, zero, last)))
    elif bars:
        _draw(path, source, args, bars, steps, (zero, last))
        _tell(steps, found)
    if not bars:
        print(f"no call matches, in {count(len(source), 'event')}", file=sys.stderr)
    return 0


def _chosen(steps: RunCalls, wanted: Wanted, limit: int | None) -> list[RecordedCall]:
    picked = [step for step in _calls(steps) if any(True for _ in wanted(_events(step)))]
    return sorted(picked, key=lambda step: step.seq)[:limit]


def _calls(steps: RunCalls) -> Iterator[RecordedCall]:
    return (step for lane in steps.lanes.values() for step in lane if step.kind not in MARKS)


def _events(step: RecordedCall) -> list[Event]:
    several = step.closing is not None and step.closing is not step.opening
    return [step.opening, step.closing] if several and step.closing else [step.opening]


def _ends(source: LogSource, steps: RunCalls) -> tuple[int, int]:
    """Return start and end of the recording. A call can start before the first event was written."""
    if not len(source):
        return 0, 0
    firsts = [lane[0].began for lane in steps.lanes.values() if lane]
    return min([source.at(1).ts, *firsts]), source.at(len(source)).ts


def _draw(
    path: Path,
    source: LogSource,
    args: argparse.Namespace,
    bars: list[Span],
    steps: RunCalls,
    ends: tuple[int, int],
) -> None:
    zero, last = ends
    start, end = zero, max(last, max(bar.end for bar in bars))
    if _is_filtered(args):
        start, end = min(bar.start for bar in bars), max(bar.end for bar in bars)
    width = (columns() if args.width is None else args.width) or DEFAULT_WIDTH
    drawing = Drawing(screen_of(sys.stdout), width, bars)
    plan = lay_out(bars, drawing.room, start=start, end=end, zero=zero)
    lanes = len({bar.lane for bar in bars})
    whole = sum(1 for _ in _calls(steps))
    some = "" if len(bars) == whole else f"{len(bars):,} of "
    print(
        f"{escape_controls(str(path))}: {some}{count(whole, 'call')} in {count(lanes, 'lane')}, "
        f"{span(last - zero)}, status {source.manifest().status}"
    )
    for line in drawing.lines(plan):
        print(line)


def _is_filtered(args: argparse.Namespace) -> bool:
    return any((args.type, args.lane, args.grep, args.first, args.last, args.limit))


def _tell(steps: RunCalls, found: list[Divergence]) -> None:
    """Print the divergences and the number of hidden draws."""
    for one in found[:_MOST_TOLD]:
        place = f"event {one.event_seq}, " if one.event_seq is not None else ""
        where = f" at {escape_controls(one.json_path)}" if one.json_path else ""
        print(
            f"  diverged: {place}lane {escape_controls(one.lane)}: {escape_controls(one.code)}{where}"
        )
    if len(found) > _MOST_TOLD:
        print(f"  and {count(len(found) - _MOST_TOLD, 'more divergence')}")
    if draws := sum(steps.left_out.values()):
        print(f"  not shown: {count(draws, 'draw')} of clock and chance")


def _as_json(
    path: Path, bars: list[Span], steps: RunCalls, found: list[Divergence], zero: int, last: int
) -> dict[str, Any]:
    return {
        "version": VERSION,
        "path": str(path),
        "start": zero,
        "spanMs": last - zero,
        "lanes": [_lane(lane, number) for lane, number in _lanes(bars).items()],
        "calls": [_call(bar, zero) for bar in bars],
        "divergences": [one.to_json() for one in found],
        "notShown": dict(sorted(steps.left_out.items())),
    }


def _lanes(bars: list[Span]) -> dict[str, int]:
    numbers = Counter(bar.lane for bar in bars)
    return {lane: numbers[lane] for lane in sorted(numbers, key=lane_order)}


def _lane(lane: str, calls: int) -> dict[str, Any]:
    return {"lane": lane, "parent": lane.rpartition(".")[0] or None, "calls": calls}


def _call(bar: Span, zero: int) -> dict[str, Any]:
    told = msgspec.to_builtins(bar)
    return {**told, "start": bar.start - zero, "end": bar.end - zero}


_LEAST_ROOM = 20
_MOST_DEPTH = 8
_SHORTEST_LABEL = 3
_ENDS: dict[State, str] = {"done": "", "failed": "!", "cut": "~", "open": ">"}
_COLOURS = {"llm": "35", "tool": "32", "network": "36", "process": "33", "mcp": "34"}
_FAILED, _DIVERGED, _FAINT, _OTHER = "31", "1;31", "2", "37"


class _Glyphs(msgspec.Struct, frozen=True):
    first: str
    fill: str
    last: str
    alone: str
    tick: str
    idle: str
    down: str
    branch: str
    corner: str
    levels: str
    """Levels of load of folded lanes, starting with 1."""


_BLOCKS = _Glyphs("▐", "█", "█", "▐", "│", "·", "│ ", "├ ", "└ ", "▁▂▃▄▅▆▇█")
_PLAIN = _Glyphs("[", "=", "]", "|", "|", ".", "| ", "|-", "`-", "123456789#")


class _Line:
    """Cells of a line with their colours. A wide character leaves the next cell empty."""

    def __init__(self, width: int) -> None:
        self._cells = [" "] * width
        self._colours = [""] * width

    def put(self, column: int, text: str, colour: str = "") -> None:
        at = column
        for char in text:
            wide = cell_width(char)
            if not wide and at > column:
                self._cells[at - 1] += char
            elif wide and at + wide <= len(self._cells):
                self._cells[at : at + wide] = [char, *[""] * (wide - 1)]
                self._colours[at : at + wide] = [colour] * wide
                at += wide

    def text(self, *, colour: bool) -> str:
        if not colour:
            return "".join(self._cells).rstrip()
        parts, now = [], ""
        for cell, wanted in zip(self._cells, self._colours, strict=True):
            if wanted != now:
                parts.append("\033[0m" if not wanted else f"\033[0;{wanted}m")
                now = wanted
            parts.append(cell)
        return "".join(parts).rstrip() + ("\033[0m" if now else "")


class Drawing:
    """Drawing of the calls ``bars`` on ``screen``, ``width`` cells wide."""

    def __init__(self, screen: Screen, width: int, bars: Sequence[Span]) -> None:
        self._screen = screen
        self._glyphs = _BLOCKS if screen.blocks else _PLAIN
        self._names = max(len("lane"), min(_longest_name({bar.lane for bar in bars}), width // 4))
        self._numbers = max(len("calls"), len(f"{len(bars):,}"))
        self._front = self._names + 2 + self._numbers + 2
        self.room = max(_LEAST_ROOM, width - self._front)
        """Number of columns for the calls."""

    def lines(self, plan: Timeline) -> Iterator[str]:
        """Yield the axis, the rows and the legend."""
        yield self._heading(plan)
        for row, guide in zip(plan.rows, self._guides(plan.rows), strict=True):
            yield self._row(row, guide, plan.axis)
        yield from self._legend(plan)

    def _line(self, name: str, number: str) -> _Line:
        line = _Line(self._front + self.room)
        line.put(0, name)
        line.put(self._names + 2 + self._numbers - len(number), number)
        return line

    def _heading(self, plan: Timeline) -> str:
        line = self._line("lane", "calls")
        for gap in plan.axis.gaps:
            line.put(self._front + gap.column, " //", _FAINT)
        for tick in plan.ticks:
            line.put(self._front + tick.column, f"{self._glyphs.tick}{tick.text}", _FAINT)
        return line.text(colour=self._screen.colour)

    def _guides(self, rows: Sequence[Row]) -> list[str]:
        """Return the tree lines from lanes to their child lanes, in front of each name."""
        glyphs, guides = self._glyphs, []
        coming: set[int] = set()
        for row in reversed(rows):
            depth = min(row.depth, _MOST_DEPTH)
            lines = [glyphs.down if level in coming else "  " for level in range(1, depth + 1)]
            if depth and row.lane:
                lines[-1] = glyphs.branch if depth in coming else glyphs.corner
                coming.add(depth)
            coming = {level for level in coming if level <= depth}
            guides.append("".join(lines))
        return guides[::-1]

    def _row(self, row: Row, guide: str, axis: Axis) -> str:
        line = self._line(self._name(row, guide), f"{row.calls:,}" if row.calls else "")
        if row.pieces:
            alive = row.pieces[-1].end - row.pieces[0].column
            line.put(self._front + row.pieces[0].column, self._glyphs.idle * alive, _FAINT)
        for gap in axis.gaps:
            line.put(self._front + gap.column + 1, ":", _FAINT)
        for piece in row.pieces:
            self._piece(line, piece)
        most = max(row.load, default=0)
        for column, load in enumerate(row.load):
            if load:
                line.put(self._front + column, self._level(load, most), _OTHER)
        return line.text(colour=self._screen.colour)

    def _name(self, row: Row, guide: str) -> str:
        name = row.lane if row.lanes == 1 else count(row.lanes, "lane")
        if len(guide) + len(name) > self._names:
            guide = ""
        # The ends of long names differ.
        long = len(name) > self._names
        return f"..{name[2 - self._names :]}" if long else guide + name

    def _level(self, load: int, most: int) -> str:
        levels = self._glyphs.levels
        if not self._screen.blocks:
            return levels[min(load, len(levels)) - 1]
        return levels[max(0, load * len(levels) // most - 1)]

    def _piece(self, line: _Line, piece: Segment) -> None:
        colour = self._colour(piece)
        column = self._front + piece.column
        line.put(column, self._bar(piece), colour)
        label = self._label(piece)
        if label:
            line.put(column + 1, label, f"{colour};7" if self._screen.blocks else colour)

    def _bar(self, piece: Segment) -> str:
        glyphs, end = self._glyphs, _ENDS[piece.state]
        first = "*" if piece.diverged else glyphs.first
        if piece.width == 1:
            alone = "*" if piece.diverged else end
            return alone or (glyphs.alone if piece.calls == 1 else _number(piece.calls))
        return first + glyphs.fill * (piece.width - 2) + (end or glyphs.last)

    def _label(self, piece: Segment) -> str:
        room = piece.width - 2
        if room < _SHORTEST_LABEL or piece.calls > 1:
            return ""
        encoding = self._screen.encoding
        shown = escape_controls(piece.label).encode(encoding, "replace").decode(encoding)
        if piece.kind == "network" and cell_width(shown) > room:
            shown = shown.partition(" ")[2] or shown  # the path is more useful than the method
        return _fitted(shown, room)

    def _colour(self, piece: Segment) -> str:
        if piece.diverged:
            return _DIVERGED
        return _FAILED if piece.state == "failed" else _COLOURS.get(piece.kind, _OTHER)

    def _legend(self, plan: Timeline) -> Iterator[str]:
        pieces = [piece for row in plan.rows for piece in row.pieces]
        states = {piece.state for piece in pieces}
        known = not plan.timed or all(piece.timed for piece in pieces)
        short = "a short call" if known else "a short call, or one of unknown length"
        told = [
            (f"{self._glyphs.alone} {short}", any(piece.width == 1 for piece in pieces)),
            ("2-9 several short ones, # more", any(piece.calls > 1 for piece in pieces)),
            ("! failed", "failed" in states),
            ("~ cancelled or left", "cut" in states),
            ("> never completed", "open" in states),
            ("* diverged", any(piece.diverged for piece in pieces)),
        ]
        yield from self._wrapped([text for text, there in told if there])
        if not plan.timed:
            yield "  no times were recorded, so calls are shown in order"
        for gap in plan.axis.gaps:
            began = span(gap.start - plan.axis.zero)
            yield f"  // left out: {span(gap.end - gap.start)} after {began}, nothing was under way"
        folded = sum(row.lanes for row in plan.rows if row.lanes > 1)
        if folded:
            how = "higher is more" if self._screen.blocks else "the number of them, # 10 and more"
            yield f"  {count(folded, 'lane')} folded, which show calls under way ({how}); --lane LANE shows one"

    def _wrapped(self, texts: list[str]) -> Iterator[str]:
        line = ""
        for text in texts:
            if line and len(line) + 3 + len(text) > self._front + self.room:
                yield line
                line = ""
            line = f"{line};  {text}" if line else f"  {text}"
        if line:
            yield line


def _longest_name(lanes: set[str]) -> int:
    """Return the number of cells for names of lanes and of folded rows."""
    longest = max((len(lane) + 2 * min(lane.count("."), _MOST_DEPTH) for lane in lanes), default=0)
    return longest if len(lanes) <= MOST_LANES else max(longest, len("    999 lanes"))


def _fitted(text: str, room: int) -> str:
    """Clip ``text`` to ``room`` cells. Characters without a cell count as 0."""
    kept = []
    for char in text[: 2 * room]:
        room -= cell_width(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept)


def _number(calls: int) -> str:
    return str(calls) if calls <= 9 else "#"
