"""Layout of a timeline: lanes as rows, calls as bars, time as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

import msgspec

from reenact.format import lane as lane_names
from reenact.views.timeline.axis import Axis, Tick, make_axis
from reenact.views.timeline.calls import Bar, State

__all__ = ["MOST_LANES", "Piece", "Row", "Timeline", "lay_out"]

MOST_LANES: Final = 24
_MOST_TRACKS = 4
_MOST_ROWS = 40
_ROUNDED = 1
"""Milliseconds by which calls may seem to overlap."""
_BADNESS: dict[State, int] = {"done": 0, "cut": 1, "open": 2, "failed": 3}


class Piece(msgspec.Struct, kw_only=True):
    """What is drawn: a call, or ``calls`` that share a column."""

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
        """The column after it."""
        return self.column + self.width

    def take(self, bar: Bar) -> None:
        """One more in the same column. The worst that happened is what shows."""
        self.calls += 1
        self.diverged = self.diverged or bar.diverged
        self.timed = self.timed and bar.timed
        self.state = max(self.state, bar.state, key=_BADNESS.__getitem__)
        self.kind = self.kind if self.kind == bar.kind else ""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A lane, or ``lanes`` of them that were folded, of which ``load`` says how many calls were
    under way in each column. ``depth``: how many of the lanes above have spawned it, one the other.
    A lane with overlapping calls has further rows, without ``lane``."""

    lane: str
    depth: int
    lanes: int
    calls: int
    pieces: tuple[Piece, ...] = ()
    load: tuple[int, ...] = ()


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is to be drawn."""

    axis: Axis
    ticks: tuple[Tick, ...]
    rows: tuple[Row, ...]
    timed: bool
    """False where no times were recorded: then calls stand in their order."""


def lay_out(
    bars: list[Bar],
    width: int,
    *,
    start: int,
    end: int,
    zero: int | None = None,
    most: int = MOST_LANES,
) -> Timeline:
    """``bars`` by their beginning, from ``start`` to ``end``, in ``width`` columns; at most ``most``
    lanes by themselves. Ticks count from ``zero``, by default from ``start``."""
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


def _seq(bar: Bar) -> int:
    return bar.seq


def _in_order(place: int, bar: Bar) -> Bar:
    return msgspec.structs.replace(bar, start=place, end=place + 1)


def _numbers(bars: list[Bar], axis: Axis) -> Iterator[Tick]:
    """Ticks where time says nothing: the numbers of events."""
    free = 0
    for bar in bars:
        column, text = axis.column(bar.start), f"event {bar.seq}"
        if column >= free and column + len(text) < axis.width:
            yield Tick(column, text)
            free = column + len(text) + 4


def _by_lane(bars: Iterable[Bar]) -> dict[str, list[Bar]]:
    found: dict[str, list[Bar]] = {}
    for bar in bars:
        found.setdefault(bar.lane, []).append(bar)
    return {lane: found[lane] for lane in sorted(found, key=lane_names.order)}


def _rows(lanes: dict[str, list[Bar]], axis: Axis, most: int) -> Iterator[Row]:
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


def _worth_a_row(lanes: dict[str, list[Bar]], most: int) -> set[str]:
    """Those with divergences, then those with failures, then the busiest."""
    if len(lanes) <= most:
        return set(lanes)

    def worth(lane: str) -> tuple[bool, int, int]:
        bars = lanes[lane]
        return (
            any(bar.diverged for bar in bars),
            max(_BADNESS[bar.state] for bar in bars),
            sum(bar.end - bar.start for bar in bars),
        )

    root = [lane for lane in lanes if lane == lane_names.ROOT]
    rest = [lane for lane in lanes if lane != lane_names.ROOT]
    return {*root, *sorted(rest, key=worth, reverse=True)[: most - len(root)]}


def _depth(lane: str, depths: dict[str, int]) -> int:
    while "." in lane:
        lane = lane.rpartition(".")[0]
        if lane in depths:
            return depths[lane] + 1
    return 0


def _lane_rows(lane: str, depth: int, bars: list[Bar], axis: Axis, most: int) -> Iterator[Row]:
    tracks: list[list[Piece]] = []
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


def _put(pieces: list[Piece], bar: Bar, axis: Axis) -> None:
    """At the end of ``pieces``: in its place, a column later, or together with the one before."""
    first, last = _columns(bar, axis)
    if pieces and first < pieces[-1].end:
        before = pieces[-1]
        first, last = before.end, max(last, before.end + 1)
        if last > axis.width or (before.width == 1 and _columns(bar, axis)[1] <= before.end):
            before.take(bar)
            return
    pieces.append(
        Piece(
            column=first,
            width=last - first,
            kind=bar.kind,
            label=bar.label,
            state=bar.state,
            diverged=bar.diverged,
            timed=bar.timed,
        )
    )


def _columns(bar: Bar, axis: Axis) -> tuple[int, int]:
    """The first column of it, and the one after its last."""
    first = axis.column(bar.start)
    return first, max(first + 1, axis.edge(bar.end))


def _folded(names: list[str], depth: int, lanes: dict[str, list[Bar]], axis: Axis) -> Row:
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
