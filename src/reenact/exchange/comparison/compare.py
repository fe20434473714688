"""Original and replay side by side: payloads, processors, calls, timing, and a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from reenact.errors import UsageError
from reenact.exchange.comparison.calls import Answer, Call, align_calls, as_asked, said_by
from reenact.exchange.comparison.differences import Changed, compare_documents, compare_pair
from reenact.exchange.comparison.result import (
    LISTED,
    CallChange,
    Comparison,
    Counts,
    Durations,
    HttpStatuses,
    ProcessorChange,
    Sides,
    ending_of,
    first_difference,
    http_status_of,
    verdict_of,
)
from reenact.exchange.comparison.steps import align_processors, compare_processors, content_of
from reenact.exchange.model import Body, Exchange, Payload
from reenact.exchange.payload import to_document
from reenact.policy.noise import NoiseFilter, NoiseRule

__all__ = ["compare"]


def compare(
    original: Exchange,
    replay: Exchange,
    calls_before: Sequence[Call] = (),
    calls_after: Sequence[Call] = (),
    rules: Iterable[NoiseRule] = (),
) -> Comparison:
    """Compare two exchanges; ``replay`` is usually a replay of ``original``.

    Takes linear time, and n log n for alignment.
    """
    noise = NoiseFilter(rules)
    start = compare_documents(("start",), _document(original.start), _document(replay.start), noise)
    result = compare_documents(("result",), _result(original), _result(replay), noise)
    pairs = align_processors(original.processors, replay.processors, content_of)
    processors = [compare_processors(pair, noise) for pair in pairs]
    asked = as_asked(calls_after, replay.replay)
    made = as_asked(calls_before, original.replay).calls
    calls = [_call(*pair, noise) for pair in align_calls(made, asked.calls, noise)]
    divergences = _divergences(replay, asked.answers)
    counts = _counted([*start, *result], [*processors, *calls])
    inner = _counted(result, [*processors, *calls])
    first = first_difference(original, replay, start, result, processors, calls, divergences)
    return Comparison(
        verdict=verdict_of(
            original,
            replay,
            # Calls that were made otherwise are among the calls, where noise rules hold.
            differs=bool(inner.changed or inner.added or inner.removed or "" in asked.answers),
            noise=bool(start or counts.noise),
        ),
        first=first.words,
        cause=first.cause,
        status=Sides(before=original.status, after=replay.status),
        ending=Sides(before=ending_of(original), after=ending_of(replay)),
        http_status=HttpStatuses(before=http_status_of(original), after=http_status_of(replay)),
        start=tuple(start[:LISTED]),
        result=tuple(result[:LISTED]),
        processors=tuple(map(_clipped, processors)),
        calls=tuple(map(_clipped, calls)),
        divergences=divergences,
        revision=Sides(before=original.revision, after=replay.revision),
        duration=Durations(before=original.duration, after=replay.duration),
        counts=counts,
    )


def _document(payload: Payload | None) -> dict[str, Any]:
    if payload is None:
        return {}
    if payload.body.clipped is not None:
        bare = to_document(msgspec.structs.replace(payload, body=Body()))
        return {**bare, "body": {"$clipped": payload.body.clipped}}
    try:
        return to_document(payload)
    except UsageError:  # invalid for its type, so it is compared as text
        text = Body(type="text", text=payload.body.text or payload.body.base64)
        return to_document(msgspec.structs.replace(payload, body=text))


def _result(exchange: Exchange) -> dict[str, Any]:
    error = {} if exchange.error is None else {"error": msgspec.to_builtins(exchange.error)}
    return {**_document(exchange.result), **error}


def _divergences(replay: Exchange, answers: Sequence[Answer]) -> tuple[dict[str, Any], ...]:
    told = replay.replay.divergences if replay.replay is not None else ()
    return tuple(
        {**one, "answer": answer} if answer else one
        for one, answer in zip(told, answers, strict=True)
    )


def _call(before: Call | None, after: Call | None, noise: NoiseFilter) -> CallChange:
    one = after or before
    assert one is not None
    root = ("calls", one.operation)
    found = compare_pair(
        root,
        before,
        after,
        noise,
        lambda: compare_documents(root, *_said(before, after), noise) if before and after else [],
    )
    return CallChange(
        state=found.state,
        operation=one.operation,
        type=one.type,
        lane=one.lane,
        before=_seq(before),
        after=_seq(after),
        changes=found.changes,
        answer=_answer(after),
        noise=found.noise,
    )


def _seq(call: Call | None) -> int | None:
    return None if call is None or call.refused is True else call.seq


def _said(before: Call, after: Call) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the comparable content. A refused call has no response to compare."""
    said = said_by(before), said_by(after)
    if before.refused is True or after.refused is True:
        first, second = ({"request": one.get("request")} for one in said)
        return first, second
    return said


def _answer(after: Call | None) -> Answer:
    if after is None:
        return ""
    if after.refused is True:
        return "refused"
    return "" if after.asked is msgspec.UNSET else "recorded"


T = TypeVar("T", ProcessorChange, CallChange)


def _clipped(thing: T) -> T:
    if len(thing.changes) <= LISTED:
        return thing
    return msgspec.structs.replace(thing, changes=thing.changes[:LISTED])


def _counted(places: list[Changed], things: list[ProcessorChange | CallChange]) -> Counts:
    changes = [*places, *(change for thing in things for change in thing.changes)]
    noise = sum(change.noise for change in changes)
    found = {"added": 0, "removed": 0}
    for thing in things:
        if thing.state in found:
            noise += thing.noise
            found[thing.state] += not thing.noise
    changed = sum(not change.noise for change in changes)
    return Counts(changed=changed, noise=noise, **found)
