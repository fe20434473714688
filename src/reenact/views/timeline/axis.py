"""Time axis in columns, with ticks and shortened idle periods."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

__all__ = ["FOLD", "Axis", "Gap", "Tick", "make_axis"]

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
        """The column in which a moment stands, from 0 to ``width - 1``."""
        return min(self.width - 1, self.edge(at))

    def edge(self, at: int) -> int:
        """How many columns lie before a moment, from 0 to ``width``."""
        before = bisect_left(self.gaps, at, key=lambda gap: gap.start)
        shown = at - self.start
        for gap in self.gaps[:before]:
            shown -= min(at, gap.end) - gap.start
        place = before * FOLD + shown * self._room // max(1, self._shown)
        return max(0, min(self.width, place))

    def ticks(self) -> Iterator[Tick]:
        """From left to right, no text touching another."""
        step, free = self._step(), 0
        first = self.zero + -(-(self.start - self.zero) // step) * step
        for start, end in self._parts(first):
            at = first + -(-(start - first) // step) * step
            while at <= end:
                tick = Tick(self.column(at), told(at - self.zero, step))
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
        """The smallest nice one that leaves room for the text of each tick."""
        for step in (*_NICE, *(minutes * _MINUTE for minutes in _NICE_MINUTES)):
            room = step * self._room // max(1, self._shown)
            last = (self.end - self.zero) // step * step
            if room >= len(told(last, step)) + _APART:
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
    """For ``width`` columns. ``busy`` are the times of calls, by their beginning: a long time without
    any, beside which what happens could hardly be seen, is left out."""
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


def told(milliseconds: int, step: int) -> str:
    """A moment as its tick says it: ``0``, ``250 ms``, ``1.5 s``, ``2:30``, ``1:00:00``."""
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
