"""Timeline of an exchange as HTML: one row per step or call, with its details."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from reenact.errors import ReenactError
from reenact.exchange.model import Change, Exchange, Processor
from reenact.exchange.payload import to_document
from reenact.exchange.payload_edits import Op, apply_patch
from reenact.server.exchanges.schema import ExchangeView
from reenact.server.web.components.diff import path_changes, side_by_side
from reenact.server.web.components.formatting import (
    badge,
    count,
    duration,
    error_text,
    folded,
    value,
)
from reenact.server.web.components.html import Child, Html, fragment, tag
from reenact.server.web.components.tables import ListPart
from reenact.server.web.exchanges.calls import CallDetails, call_target, http_message
from reenact.views.timeline.model import Extent, TimeRange, nested

__all__ = [
    "SVG_WIDTH",
    "PayloadStep",
    "TimelineRow",
    "exchange_timeline",
    "payload_steps",
    "row_bar",
    "span_bar",
    "timeline_rows",
]


def exchange_timeline(
    found: ExchangeView, told: Sequence[CallDetails], part: ListPart
) -> tuple[Html, list[CallDetails]]:
    """Return a part of the timeline, and the calls in it."""
    rows = [*timeline_rows(found, told)]
    if not rows:
        return tag("p", "This exchange has no steps and made no calls.", class_="dim"), []
    shown, drawn = part.of(rows, partial(_row, found=found, documents=payload_steps(found)))
    timeline = fragment(
        tag("p", _counted(found, told), class_="dim"),
        tag("div", *drawn, class_="timeline", id=part.name) if drawn else None,
        part.links(len(drawn), len(rows), "row"),
    )
    return timeline, [one.told for one in shown if one.told is not None]


def _counted(found: ExchangeView, told: Sequence[CallDetails]) -> str:
    counts = ((len(found.processors), "step"), (len(told), "outbound call"))
    return ", ".join(count(number, noun) for number, noun in counts if number)


def _row(entry: TimelineRow, found: ExchangeView, documents: dict[int, PayloadStep]) -> Html:
    if entry.processor is not None:
        one = entry.processor
        name = fragment(tag("b", one.processor_id), " ", tag("span", _kind(one), class_="dim"))
        state = badge(one.status) if one.status != "completed" else None
        inside, tone = [*_step(entry, documents)], str(one.status)
    else:
        assert entry.told is not None  # a row is one or the other
        call = entry.told.call
        name = fragment(tag("span", call.type, class_="dim"), " ", call_target(entry.told))
        state = _state(entry.told)
        inside, tone = [*_call(entry.told)], f"call {_known(call.type)}"
    head = fragment(
        tag("span", name, " ", state, class_="name"),
        row_bar(entry, found.duration, tone),
        tag("span", _length(entry), class_="number"),
    )
    return folded(head, *inside, class_=f"row depth-{entry.depth}")


def _state(told: CallDetails) -> Html | None:
    call = told.call
    if call.refused is True:
        return badge("refused")
    if call.error:
        return badge("failed")
    return badge("asked otherwise", tone="warn") if call.asked is not msgspec.UNSET else None


def _length(entry: TimelineRow) -> str:
    """Return the duration of a row.

    Calls are timed in whole milliseconds, processors more precisely.
    """
    if entry.told is not None and entry.told.served:
        return "recorded"
    if entry.processor is None and entry.length < 1:
        return "< 1 ms" if entry.start is not None else ""
    return duration(entry.length)


def _known(kind: str) -> str:
    return kind if kind in ("llm", "tool", "network", "process", "mcp") else "other"


def _kind(one: Any) -> str:
    said = [] if one.kind == "step" else [one.kind]
    if one.iteration is not None:
        said.append(f"round {one.iteration + 1}")
    if one.branch:
        said.append(f"→ {one.branch}")
    return " ".join(said)


def _label(words: str) -> Html:
    return tag("h3", words, class_="label")


def _step(entry: TimelineRow, documents: dict[int, PayloadStep]) -> Iterator[Child]:
    one = entry.processor
    if one is None:
        return
    yield error_text(one.error)
    if one.changes:
        yield _label(f"Changed {count(len(one.changes), 'place')}")
        yield path_changes(one.changes)
    if one.seq in documents:
        passage = documents[one.seq]
        both = side_by_side(passage.before, passage.after, caption="Payload before and after")
        yield folded("Payload before and after", both)
    for name, item in (("Given", one.input), ("Gave", one.output)):
        if item is not msgspec.UNSET:
            yield _label(name)
            yield value(item)
    if not one.changes and one.input is msgspec.UNSET and one.output is msgspec.UNSET:
        yield tag("p", "It changed nothing.", class_="dim")


def _call(told: CallDetails) -> Iterator[Child]:
    call = told.call
    otherwise = call.asked is not msgspec.UNSET
    if call.refused is True:
        yield tag("p", "This call is not in the recording and got no response.", class_="wrong")
    elif told.served:
        yield tag("p", _from_recording(told), class_="dim")
    if otherwise:
        yield _label("Request in this replay")
        yield http_message(call.asked)
    request = "Recorded request that was answered" if otherwise else "Request"
    for name, item in ((request, call.request), ("Answer", call.response), ("Error", call.error)):
        if item is not None:
            yield _label(name)
            yield http_message(item)


def _from_recording(told: CallDetails) -> str:
    by = told.call.answered_by
    which = f", of event {by}" if by is not msgspec.UNSET else ""
    took = duration(told.ended - told.began)
    return f"It was served from the recording{which}; there it took {took}."


_DEEPEST: Final = 8
SVG_WIDTH: Final = 1_000
_SLACK: Final = 5.0
"""Milliseconds: clocks of steps and calls are rounded."""


class TimelineRow(msgspec.Struct, frozen=True):
    """Row of the timeline: a processor or a call.

    ``start`` and ``length`` are in milliseconds from the start of the exchange; ``start`` is
    None if unknown.
    """

    depth: int
    processor: Processor | None
    told: CallDetails | None
    start: float | None
    length: float


def timeline_rows(exchange: Exchange, calls: Sequence[CallDetails]) -> Iterator[TimelineRow]:
    """Yield the rows of the timeline: each processor, then its calls and inner processors by start."""
    items: list[Processor | CallDetails] = [*exchange.processors, *calls]
    known = {one.seq for one in exchange.processors}
    inside: dict[int, list[int]] = {}
    for index, one in enumerate(items):
        if isinstance(one, Processor):
            parent = one.parent_seq if one.parent_seq in known else 0
        else:
            parent = one.call.processor_seq
        inside.setdefault(parent, []).append(index)

    def below(seq: int) -> list[int]:
        found = inside.pop(seq, [])
        served = any(
            isinstance(one, CallDetails) and one.served for one in map(items.__getitem__, found)
        )
        order = _position if served else _moment
        return sorted(found, key=lambda index: order(items[index]))

    def children(index: int) -> list[int]:
        one = items[index]
        return below(one.seq) if isinstance(one, Processor) else []

    for depth, index in nested(below(0), children, deepest=_DEEPEST):
        yield _entry(exchange, depth, items[index])


def _position(one: Processor | CallDetails) -> tuple[int, int]:
    """Return the sort key without times: a processor has the position of its first call."""
    if isinstance(one, Processor):
        return one.first_call, one.seq
    return one.call.position, sys.maxsize


def _moment(one: Processor | CallDetails) -> tuple[int, int]:
    """Return the sort key by start. Rows without a time, such as refused calls, come last."""
    if isinstance(one, Processor):
        return one.started_at or sys.maxsize, one.seq
    return one.began or sys.maxsize, one.call.seq


def _entry(exchange: Exchange, depth: int, one: Processor | CallDetails) -> TimelineRow:
    if isinstance(one, Processor):
        start = float(one.started_at - exchange.started_at) if one.started_at else None
        return TimelineRow(depth, one, None, start, one.duration)
    if one.served or not one.began:  # without a duration, or unknown
        return TimelineRow(depth, None, one, None, 0.0)
    start = float(one.began - exchange.started_at)
    return TimelineRow(depth, None, one, start, float(one.ended - one.began))


def row_bar(entry: TimelineRow, whole: float, tone: str) -> Html:
    """Draw the extent of a row in an exchange of ``whole`` milliseconds.

    A row outside the exchange has no bar.
    """
    inside: Html | None = None
    if entry.start is not None and whole > 0 and entry.start <= whole + _SLACK:
        extent = TimeRange(0.0, whole).extent(entry.start, entry.start + entry.length)
        inside = span_bar(extent, tone, height=10, rx=2)
    return tag(
        "svg",
        inside,
        viewBox=f"0 0 {SVG_WIDTH} 10",
        preserveAspectRatio="none",
        aria_hidden="true",
        class_="bar",
    )


def span_bar(extent: Extent, tone: str, *, height: int, y: int = 0, rx: int | None = None) -> Html:
    """Return a rectangle in an SVG that is :data:`SVG_WIDTH` wide."""
    return tag(
        "rect",
        x=f"{extent.offset * SVG_WIDTH:.1f}",
        y=y,
        width=f"{extent.length * SVG_WIDTH:.1f}",
        height=height,
        rx=rx,
        class_=tone,
    )


class PayloadStep(msgspec.Struct, frozen=True):
    """The documents before and after a processor."""

    before: Any
    after: Any


def payload_steps(exchange: Exchange) -> dict[int, PayloadStep]:
    """Return the documents around each processor that changed the payload, by its seq.

    Stops at the first change that cannot be applied.
    """
    around = {one.parent_seq for one in exchange.processors}
    found: dict[int, PayloadStep] = {}
    try:
        document = to_document(exchange.start)
        for one in exchange.processors:
            if one.changes and one.seq not in around:
                after = apply_patch(document, [_op(change) for change in one.changes])
                found[one.seq] = PayloadStep(document, after)
                document = after
    except ReenactError:
        return found
    return found


def _op(change: Change) -> Op:
    if change.op == "remove":
        return Op(op="remove", path=change.path)
    return Op(op=change.op, path=change.path, value=change.after)
