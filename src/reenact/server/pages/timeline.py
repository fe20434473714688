"""An exchange in time: processors in their order, with the calls that each of them made (pure)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from reenact.exchange.model import Exchange, Processor
from reenact.server.pages.markup import Html, tag
from reenact.server.pages.told import Told

__all__ = ["Entry", "bar", "entries"]

_DEEPEST: Final = 8
_WIDE: Final = 1_000
_SLACK: Final = 5.0
"""Milliseconds: clocks of steps and calls are rounded."""


class Entry(msgspec.Struct, frozen=True):
    """One row: a processor, or a call. ``start`` and ``length`` are in milliseconds from the start of
    the exchange; ``start`` is None where nobody knows."""

    depth: int
    processor: Processor | None
    told: Told | None
    start: float | None
    length: float


def entries(exchange: Exchange, calls: Sequence[Told]) -> Iterator[Entry]:
    """From the outside in: a processor, its calls and the processors in it as they began, and what
    follows."""
    owned: dict[int, list[Told]] = {}
    for told in calls:
        owned.setdefault(told.call.processor_seq, []).append(told)
    inside: dict[int, list[Processor]] = {}
    known = {one.seq for one in exchange.processors}
    for processor in exchange.processors:
        parent = processor.parent_seq if processor.parent_seq in known else 0
        inside.setdefault(parent, []).append(processor)
    waiting: list[tuple[int, Processor | Told]] = _next(0, 0, inside, owned)
    seen: set[int] = set()
    while waiting:
        depth, one = waiting.pop()
        yield _entry(exchange, depth, one)
        if isinstance(one, Processor) and one.seq not in seen:
            seen.add(one.seq)
            waiting += _next(one.seq, depth + 1, inside, owned)


def _next(
    seq: int, depth: int, inside: dict[int, list[Processor]], owned: dict[int, list[Told]]
) -> list[tuple[int, Processor | Told]]:
    """What is in a processor, the last first."""
    found: list[Processor | Told] = [*inside.pop(seq, ()), *owned.pop(seq, ())]
    served = any(isinstance(one, Told) and one.served for one in found)
    found.sort(key=_place if served else _moment, reverse=True)
    return [(min(depth, _DEEPEST), one) for one in found]


def _place(one: Processor | Told) -> tuple[int, int]:
    """By calls, where they have no time: a processor stands where the first of its calls would."""
    if isinstance(one, Processor):
        return one.first_call, one.seq
    return one.call.position, sys.maxsize


def _moment(one: Processor | Told) -> tuple[int, int]:
    """What has no time, such as a call that was refused, comes last."""
    if isinstance(one, Processor):
        return one.started_at or sys.maxsize, one.seq
    return one.began or sys.maxsize, one.call.seq


def _entry(exchange: Exchange, depth: int, one: Processor | Told) -> Entry:
    if isinstance(one, Processor):
        start = float(one.started_at - exchange.started_at) if one.started_at else None
        return Entry(depth, one, None, start, one.duration)
    if one.served or not one.began:  # it took no time of its own, or nobody knows
        return Entry(depth, None, one, None, 0.0)
    start = float(one.began - exchange.started_at)
    return Entry(depth, None, one, start, float(one.ended - one.began))


def bar(entry: Entry, whole: float, tone: str) -> Html:
    """Its place in the whole, drawn. What lies outside of it is left out."""
    inside: Html | None = None
    if entry.start is not None and whole > 0 and entry.start <= whole + _SLACK:
        start = max(0.0, min(entry.start / whole, 1.0))
        length = max(0.004, min(entry.length / whole, 1.0 - start))
        x, width = min(start, 0.996) * _WIDE, length * _WIDE
        inside = tag("rect", x=f"{x:.1f}", y=0, width=f"{width:.1f}", height=10, rx=2, class_=tone)
    return tag(
        "svg",
        inside,
        viewBox=f"0 0 {_WIDE} 10",
        preserveAspectRatio="none",
        aria_hidden="true",
        class_="bar",
    )
