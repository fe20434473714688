"""What happened to an exchange, row by row (pure): each step and call in its time, with what it was given
and gave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from reenact.server.exchanges.shapes import ExchangeView
from reenact.server.pages.calls import spoken
from reenact.server.pages.conversation import called
from reenact.server.pages.documents import Passage, passages
from reenact.server.pages.gaps import changes
from reenact.server.pages.lines import side_by_side
from reenact.server.pages.lists import Part
from reenact.server.pages.markup import Child, Html, fragment, tag
from reenact.server.pages.saying import badge, count, duration
from reenact.server.pages.timeline import Entry, bar, entries
from reenact.server.pages.told import Told
from reenact.server.pages.values import folded, value, wrong

__all__ = ["happening"]


def happening(found: ExchangeView, told: Sequence[Told], part: Part) -> tuple[Html, list[Told]]:
    """Return a part of the timeline, and the calls in it."""
    rows = [*entries(found, told)]
    if not rows:
        return tag("p", "It has no steps, and made no calls.", class_="dim"), []
    shown, drawn = part.of(rows, partial(_row, found=found, documents=passages(found)))
    timeline = fragment(
        tag("p", _counted(found, told), class_="dim"),
        tag("div", *drawn, class_="timeline", id=part.name) if drawn else None,
        part.links(len(drawn), len(rows), "row"),
    )
    return timeline, [one.told for one in shown if one.told is not None]


def _counted(found: ExchangeView, told: Sequence[Told]) -> str:
    counts = ((len(found.processors), "step"), (len(told), "outbound call"))
    return ", ".join(count(number, noun) for number, noun in counts if number)


def _row(entry: Entry, found: ExchangeView, documents: dict[int, Passage]) -> Html:
    if entry.processor is not None:
        one = entry.processor
        name = fragment(tag("b", one.processor_id), " ", tag("span", _kind(one), class_="dim"))
        state = badge(one.status) if one.status != "completed" else None
        inside, tone = [*_step(entry, documents)], str(one.status)
    else:
        assert entry.told is not None  # a row is one or the other
        call = entry.told.call
        name = fragment(tag("span", call.type, class_="dim"), " ", called(entry.told))
        state = _state(entry.told)
        inside, tone = [*_call(entry.told)], f"call {_known(call.type)}"
    head = fragment(
        tag("span", name, " ", state, class_="name"),
        bar(entry, found.duration, tone),
        tag("span", _length(entry), class_="number"),
    )
    return folded(head, *inside, class_=f"row depth-{entry.depth}")


def _state(told: Told) -> Html | None:
    call = told.call
    if call.refused is True:
        return badge("refused")
    if call.error:
        return badge("failed")
    return badge("asked otherwise", tone="warn") if call.asked is not msgspec.UNSET else None


def _length(entry: Entry) -> str:
    """Calls are timed in whole milliseconds, processors more closely."""
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


def _step(entry: Entry, documents: dict[int, Passage]) -> Iterator[Child]:
    one = entry.processor
    if one is None:
        return
    yield wrong(one.error)
    if one.changes:
        yield _label(f"Changed {count(len(one.changes), 'place')}")
        yield changes(one.changes)
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


def _call(told: Told) -> Iterator[Child]:
    call = told.call
    otherwise = call.asked is not msgspec.UNSET
    if call.refused is True:
        yield tag("p", "It is not in the recording, and got no answer.", class_="wrong")
    elif told.served:
        yield tag("p", _from_recording(told), class_="dim")
    if otherwise:
        yield _label("Asked in this replay")
        yield spoken(call.asked)
    request = "Recorded request that was answered" if otherwise else "Request"
    for name, item in ((request, call.request), ("Answer", call.response), ("Error", call.error)):
        if item is not None:
            yield _label(name)
            yield spoken(item)


def _from_recording(told: Told) -> str:
    by = told.call.answered_by
    which = f", of event {by}" if by is not msgspec.UNSET else ""
    took = duration(told.ended - told.began)
    return f"It was served from the recording{which}; there it took {took}."
