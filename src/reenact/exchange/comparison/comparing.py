"""Original and replay side by side: payloads, processors, calls, timing, and a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from reenact.errors import UsageError
from reenact.exchange.comparison.aligning import align_processors
from reenact.exchange.comparison.calls import Call, align_calls, said_by
from reenact.exchange.comparison.changes import Changed, compare_documents
from reenact.exchange.comparison.noise import Noise
from reenact.exchange.comparison.processors import compare_pair, content_of
from reenact.exchange.comparison.result import (
    LISTED,
    CallChange,
    Comparison,
    Counts,
    Durations,
    ProcessorChange,
    Sides,
    State,
)
from reenact.exchange.comparison.rules import NoiseRule
from reenact.exchange.comparison.verdicts import first_difference, verdict_of
from reenact.exchange.document import to_document
from reenact.exchange.model import Body, Exchange, Payload

__all__ = ["compare"]


def compare(
    original: Exchange,
    replay: Exchange,
    calls_before: Sequence[Call] = (),
    calls_after: Sequence[Call] = (),
    rules: Iterable[NoiseRule] = (),
) -> Comparison:
    """What differs between two exchanges, of which ``replay`` is usually a replay of ``original``.

    Takes time in proportion to their sizes, and for alignment n log n.
    """
    noise = Noise(rules)
    start = compare_documents(("start",), _document(original.start), _document(replay.start), noise)
    result = compare_documents(("result",), _result(original), _result(replay), noise)
    pairs = align_processors(original.processors, replay.processors, content_of)
    processors = [compare_pair(pair, noise) for pair in pairs]
    calls = [_call(*pair, noise) for pair in align_calls(calls_before, calls_after, noise)]
    divergences = replay.replay.divergences if replay.replay is not None else ()
    counts = _counted([*start, *result], [*processors, *calls])
    inner = _counted(result, [*processors, *calls])
    return Comparison(
        verdict=verdict_of(
            original,
            replay,
            differs=bool(inner.changed or inner.added or inner.removed or divergences),
            noise=bool(start or counts.noise),
        ),
        first=first_difference(original, replay, start, result, processors, calls),
        status=Sides(before=original.status, after=replay.status),
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
    except UsageError:  # not what its type says: then it is compared as a text
        text = Body(type="text", text=payload.body.text or payload.body.base64)
        return to_document(msgspec.structs.replace(payload, body=text))


def _result(exchange: Exchange) -> dict[str, Any]:
    error = {} if exchange.error is None else {"error": msgspec.to_builtins(exchange.error)}
    return {**_document(exchange.result), **error}


def _call(before: Call | None, after: Call | None, noise: Noise) -> CallChange:
    one = after or before
    assert one is not None
    root = ("calls", one.operation)
    changes: list[Changed] = []
    if before is None or after is None:
        state: State = "added" if before is None else "removed"
        only_noise = noise.about(root, msgspec.UNSET, msgspec.UNSET)
    else:
        changes = compare_documents(root, said_by(before), said_by(after), noise)
        state = "changed" if changes else "same"
        only_noise = bool(changes) and all(change.noise for change in changes)
    return CallChange(
        state=state,
        operation=one.operation,
        type=one.type,
        lane=one.lane,
        before=before.seq if before else None,
        after=after.seq if after else None,
        changes=tuple(changes),
        noise=only_noise,
    )


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
