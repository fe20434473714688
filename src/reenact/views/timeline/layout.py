"""Layout of a timeline in columns: lanes as rows, calls as segments, a time axis with ticks.

The axis leaves out long idle periods (:class:`Gap`), which would make the calls too small to see.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

import msgspec

from reenact.format.event import ROOT_LANE, lane_order
from reenact.views.timeline.model import Span, State

__all__ = [
    "FOLD",
    "MOST_LANES",
    "Axis",
    "Gap",
    "Row",
    "Segment",
    "Tick",
    "Timeline",
    "lay_out",
    "make_axis",
]

FOLD: Final = 3
"""Columns of time that is left out."""
_WORTH_MS = 5_000
_WORTH_TIMES = 4
_APART = 4
_NICE = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000)
_NICE_MINUTES = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1_440)
_MINUTE = 60_000

Interval = tuple[int, int]


class Gap(msgspec.Struct, frozen=True):
    """Time in which nothing was under way, and which is left out. Milliseconds since the beginning."""

    start: int
    end: int
    column: int


class Tick(msgspec.Struct, frozen=True):
    """A moment that is named on the axis."""

    column: int
    text: str


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    """``start`` and ``end`` are milliseconds; ``zero`` is what ticks count from."""

    width: int
    start: int
    end: int
    zero: int
    gaps: tuple[Gap, ...] = ()

    def column(self, at: int) -> int:
        """Return the column of a time, from 0 to ``width - 1``."""
        return min(self.width - 1, self.edge(at))

    def edge(self, at: int) -> int:
        """Return the number of columns before a moment, from 0 to ``width``."""
        before = bisect_left(self.gaps, at, key=lambda gap: gap.start)
        shown = at - self.start
        for gap in self.gaps[:before]:
            shown -= min(at, gap.end) - gap.start
        place = before * FOLD + shown * self._room // max(1, self._shown)
        return max(0, min(self.width, place))

    def ticks(self) -> Iterator[Tick]:
        """Yield the ticks from left to right, without overlapping labels."""
        step, free = self._step(), 0
        first = self.zero + -(-(self.start - self.zero) // step) * step
        for start, end in self._parts(first):
            at = first + -(-(start - first) // step) * step
            while at <= end:
                tick = Tick(self.column(at), tick_text(at - self.zero, step))
                if tick.column >= free and tick.column + len(tick.text) < self.width:
                    yield tick
                    free = tick.column + len(tick.text) + _APART // 2
                at += step

    def _parts(self, first: int) -> Iterator[Interval]:
        start = first
        for gap in self.gaps:
            if gap.start > start:
                yield start, gap.start
            start = max(start, gap.end)
        yield start, self.end

    def _step(self) -> int:
        """Return the smallest round step with enough space for the label of each tick."""
        for step in (*_NICE, *(minutes * _MINUTE for minutes in _NICE_MINUTES)):
            room = step * self._room // max(1, self._shown)
            last = (self.end - self.zero) // step * step
            if room >= len(tick_text(last, step)) + _APART:
                return step
        day = _NICE_MINUTES[-1] * _MINUTE
        return max(day, (self._shown * 16 // max(1, self._room) // day + 1) * day)

    @property
    def _shown(self) -> int:
        return self.end - self.start - sum(gap.end - gap.start for gap in self.gaps)

    @property
    def _room(self) -> int:
        return max(1, self.width - FOLD * len(self.gaps))


def make_axis(start: int, end: int, width: int, *, zero: int, busy: Iterable[Interval]) -> Axis:
    """Return an axis with ``width`` columns.

    ``busy`` are the times of calls, sorted by start. Long idle periods between them are left out.
    """
    whole = Axis(width=width, start=start, end=max(start, end), zero=zero)
    idle = list(_idle(start, end, busy))
    worked = end - start - sum(last - first for first, last in idle)
    worth = max(_WORTH_MS, _WORTH_TIMES * worked)
    left_out = [one for one in idle if one[1] - one[0] > worth] if worked else []
    most = width // (_WORTH_TIMES * FOLD)
    gaps = tuple(Gap(first, last, 0) for first, last in left_out[:most])
    whole = msgspec.structs.replace(whole, gaps=gaps)
    placed = tuple(Gap(gap.start, gap.end, whole.edge(gap.start)) for gap in gaps)
    return msgspec.structs.replace(whole, gaps=placed)


def _idle(start: int, end: int, busy: Iterable[Interval]) -> Iterator[Interval]:
    reached = start
    for first, last in busy:
        if first > reached:
            yield reached, first
        reached = max(reached, last)
    if end > reached:
        yield reached, end


def tick_text(milliseconds: int, step: int) -> str:
    """Return the label of a tick: ``0``, ``250 ms``, ``1.5 s``, ``2:30``, ``1:00:00``."""
    if milliseconds == 0:
        return "0"
    if abs(milliseconds) < _MINUTE:
        if abs(milliseconds) < 1_000 and step < 100:
            return f"{milliseconds} ms"
        return f"{milliseconds / 1000:.10g} s"
    sign, seconds = "-" if milliseconds < 0 else "", abs(milliseconds) / 1000
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    rest = f"{seconds:06.3f}".rstrip("0").rstrip(".") if step < 1_000 else f"{int(seconds):02}"
    return f"{sign}{hours}:{minutes:02}:{rest}" if hours else f"{sign}{minutes}:{rest}"


MOST_LANES: Final = 24
_MOST_TRACKS = 4
_MOST_ROWS = 40
_ROUNDED = 1
"""Milliseconds by which consecutive calls can seem to overlap."""
_BADNESS: dict[State, int] = {"done": 0, "cut": 1, "open": 2, "failed": 3}


class Segment(msgspec.Struct, kw_only=True):
    """Segment of a row: one call, or several ``calls`` in the same column."""

    column: int
    width: int
    kind: str
    label: str
    state: State
    diverged: bool
    timed: bool = True
    calls: int = 1

    @property
    def end(self) -> int:
        """Column after the segment."""
        return self.column + self.width

    def take(self, bar: Span) -> None:
        """Merge a further call into the segment. The worst state is shown."""
        self.calls += 1
        self.diverged = self.diverged or bar.diverged
        self.timed = self.timed and bar.timed
        self.state = max(self.state, bar.state, key=_BADNESS.__getitem__)
        self.kind = self.kind if self.kind == bar.kind else ""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Row of a lane, or of several folded ``lanes``.

    ``load`` is the number of active calls per column of folded lanes. ``depth`` is the number of
    visible ancestors. A lane with overlapping calls has additional rows with an empty ``lane``.
    """

    lane: str
    depth: int
    lanes: int
    calls: int
    pieces: tuple[Segment, ...] = ()
    load: tuple[int, ...] = ()


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Complete layout to draw."""

    axis: Axis
    ticks: tuple[Tick, ...]
    rows: tuple[Row, ...]
    timed: bool
    """False without recorded times; the calls are then in their order."""


def lay_out(
    bars: list[Span],
    width: int,
    *,
    start: int,
    end: int,
    zero: int | None = None,
    most: int = MOST_LANES,
) -> Timeline:
    """Lay out ``bars``, sorted by start, from ``start`` to ``end`` in ``width`` columns.

    At most ``most`` lanes have their own row. Ticks count from ``zero``, by default from ``start``.
    """
    timed = end > start or len(bars) < 2
    if not timed:
        bars = [_in_order(place, bar) for place, bar in enumerate(sorted(bars, key=_seq))]
        start, end, zero = 0, len(bars), 0
    bars = [bar if bar.closed else msgspec.structs.replace(bar, end=end) for bar in bars]
    busy = ((bar.start, bar.end) for bar in bars) if timed else ((start, end),)
    zero = start if zero is None else zero
    axis = make_axis(start, end, width, zero=zero, busy=busy)
    ticks = tuple(axis.ticks() if timed else _numbers(bars, axis))
    rows = tuple(_rows(_by_lane(bars), axis, most))
    return Timeline(axis=axis, ticks=ticks, rows=rows, timed=timed)


def _seq(bar: Span) -> int:
    return bar.seq


def _in_order(place: int, bar: Span) -> Span:
    return msgspec.structs.replace(bar, start=place, end=place + 1)


def _numbers(bars: list[Span], axis: Axis) -> Iterator[Tick]:
    """Yield event numbers as ticks, for a recording without times."""
    free = 0
    for bar in bars:
        column, text = axis.column(bar.start), f"event {bar.seq}"
        if column >= free and column + len(text) < axis.width:
            yield Tick(column, text)
            free = column + len(text) + 4


def _by_lane(bars: Iterable[Span]) -> dict[str, list[Span]]:
    found: dict[str, list[Span]] = {}
    for bar in bars:
        found.setdefault(bar.lane, []).append(bar)
    return {lane: found[lane] for lane in sorted(found, key=lane_order)}


def _rows(lanes: dict[str, list[Span]], axis: Axis, most: int) -> Iterator[Row]:
    shown = _worth_a_row(lanes, most)
    tracks = max(1, min(_MOST_TRACKS, _MOST_ROWS // max(1, len(shown))))
    depths: dict[str, int] = {}
    for is_shown, group in groupby(lanes, shown.__contains__):
        names = list(group)
        if is_shown or len(names) == 1:
            for name in names:
                depths[name] = _depth(name, depths)
                yield from _lane_rows(name, depths[name], lanes[name], axis, tracks)
        else:
            yield _folded(names, _depth(names[0], depths), lanes, axis)


def _worth_a_row(lanes: dict[str, list[Span]], most: int) -> set[str]:
    """Return the lanes with divergences, then with failures, then with the most calls."""
    if len(lanes) <= most:
        return set(lanes)

    def worth(lane: str) -> tuple[bool, int, int]:
        bars = lanes[lane]
        return (
            any(bar.diverged for bar in bars),
            max(_BADNESS[bar.state] for bar in bars),
            sum(bar.end - bar.start for bar in bars),
        )

    root = [lane for lane in lanes if lane == ROOT_LANE]
    rest = [lane for lane in lanes if lane != ROOT_LANE]
    return {*root, *sorted(rest, key=worth, reverse=True)[: most - len(root)]}


def _depth(lane: str, depths: dict[str, int]) -> int:
    while "." in lane:
        lane = lane.rpartition(".")[0]
        if lane in depths:
            return depths[lane] + 1
    return 0


def _lane_rows(lane: str, depth: int, bars: list[Span], axis: Axis, most: int) -> Iterator[Row]:
    tracks: list[list[Segment]] = []
    ends: list[int] = []
    for bar in bars:
        free = (place for place, end in enumerate(ends) if bar.start >= end - _ROUNDED)
        place = next(free, min(len(ends), most - 1))
        if place == len(ends):
            ends.append(bar.end)
            tracks.append([])
        ends[place] = max(ends[place], bar.end)
        _put(tracks[place], bar, axis)
    for place, pieces in enumerate(tracks):
        yield Row(
            lane="" if place else lane,
            depth=depth,
            lanes=1,
            calls=0 if place else len(bars),
            pieces=tuple(pieces),
        )


def _put(pieces: list[Segment], bar: Span, axis: Axis) -> None:
    """Add ``bar`` to ``pieces``: in its column, one column later, or merged with the previous
    piece."""
    first, last = _columns(bar, axis)
    if pieces and first < pieces[-1].end:
        before = pieces[-1]
        first, last = before.end, max(last, before.end + 1)
        if last > axis.width or (before.width == 1 and _columns(bar, axis)[1] <= before.end):
            before.take(bar)
            return
    pieces.append(
        Segment(
            column=first,
            width=last - first,
            kind=bar.kind,
            label=bar.label,
            state=bar.state,
            diverged=bar.diverged,
            timed=bar.timed,
        )
    )


def _columns(bar: Span, axis: Axis) -> tuple[int, int]:
    """Return the first column of a bar, and the column after its last."""
    first = axis.column(bar.start)
    return first, max(first + 1, axis.edge(bar.end))


def _folded(names: list[str], depth: int, lanes: dict[str, list[Span]], axis: Axis) -> Row:
    steps = [0] * (axis.width + 1)
    bars = [bar for name in names for bar in lanes[name]]
    for bar in bars:
        first, last = _columns(bar, axis)
        steps[first] += 1
        steps[last] -= 1
    load, now = [], 0
    for step in steps[: axis.width]:
        now += step
        load.append(now)
    return Row(lane=names[0], depth=depth, lanes=len(names), calls=len(bars), load=tuple(load))
