"""Search for the recorded calls that are most similar to an unmatched call."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from reenact.diff.terminal_text import common_start
from reenact.diff.values import Difference, differences
from reenact.engine.divergence.model import MAX_NEAREST
from reenact.engine.request import ObservedRequest, operation_of, request_of
from reenact.format.canonical import canonical
from reenact.format.event import Event, parse
from reenact.policy.matching import Comparer

__all__ = ["MAX_COMPARED", "MAX_RANKED", "SimilarCall", "find_nearest_calls"]

MAX_RANKED = 10_000
MAX_COMPARED = 50
_ALIKE = 0.5
"""A call of another operation is worth showing from here on."""


class SimilarCall(msgspec.Struct, frozen=True):
    """A recorded call and its similarity. ``score`` is 1 exactly when its key is the same."""

    event: Event
    used: bool
    operation: str
    same_operation: bool
    score: float
    differing: list[Difference]


class _Brief(msgspec.Struct, gc=False):
    """Fields of an event that determine its operation. They can have any type."""

    source: Any = ""
    op: Any = ""
    name: Any = ""
    provider: Any = ""
    model: Any = ""
    type: Any = ""
    key: Any = ""


_brief = msgspec.json.Decoder(_Brief)


def find_nearest_calls(
    ask: ObservedRequest,
    comparer: Comparer,
    candidates: Iterable[tuple[Event, bool]],
    *,
    but: int | None = None,
) -> list[SimilarCall]:
    """The best of ``candidates`` (event, already used), the best first; never event ``but``.

    Only calls of the same type count, and of these the first 10,000. They are ranked by what is
    cheap to see (the recorded key, the operation, the size), the best 50 are read and compared
    whole, and the best three of these are returned: the same operation before others, then by how
    much is alike, then those not used yet. So the time is bounded: a second or so for 10,000
    candidates of 10 KB, most of it for reading them from the recording.
    """
    wanted = comparer.normal(ask.request)
    size = len(canonical(wanted))
    operation = operation_of(ask.type, ask.request) or ask.operation
    same_type = (one for one in candidates if one[0].type == ask.type and one[0].seq != but)
    ranked = _ranked(islice(same_type, MAX_RANKED), ask.key, operation, size)
    best = heapq.nsmallest(MAX_COMPARED, ranked, key=lambda one: one[:2])
    found = [_compare(event, used, operation, wanted, comparer) for _, _, event, used in best]
    found = [one for one in found if one.same_operation or one.score >= _ALIKE]
    return sorted(found, key=_order)[:MAX_NEAREST]


def _ranked(
    candidates: Iterable[tuple[Event, bool]], key: str, operation: str, size: int
) -> Iterator[tuple[tuple[bool, bool, int], int, Event, bool]]:
    for event, used in candidates:
        payload = event.payload
        brief = _look(payload)
        if brief is None:
            continue
        other = operation_of(event.type, msgspec.structs.asdict(brief)) != operation
        yield (brief.key != key, other, abs(len(payload) - size)), event.seq, event, used


def _look(payload: bytes) -> _Brief | None:
    try:
        return _brief.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return None  # its data is not an object, so there is nothing to compare


def _compare(
    event: Event, used: bool, operation: str, wanted: Any, comparer: Comparer
) -> SimilarCall:
    # Not event.data, which the event would keep for as long as it lives.
    data = parse(event.payload)
    request = request_of(event.type, data)
    normal = comparer.normal(request)
    differing = differences(normal, wanted)
    theirs = operation_of(event.type, data)
    score = _alike(differing, max(len(canonical(normal)), len(canonical(wanted))))
    return SimilarCall(event, used, theirs, theirs == operation, score, differing)


def _order(found: SimilarCall) -> tuple[bool, float, bool, int]:
    return not found.same_operation, -found.score, found.used, found.event.seq


def _alike(differing: list[Difference], size: int) -> float:
    """Return the equal share of ``size`` bytes, 1 only if nothing differs."""
    if not differing:
        return 1.0
    unlike = sum(map(_weight, differing))
    return min(0.999, max(0.0, round(1 - unlike / size, 3)))


def _weight(one: Difference) -> int:
    if isinstance(one.expected, str) and isinstance(one.observed, str):
        return _unlike_text(one.expected, one.observed)
    return max(len(canonical(one.expected)), len(canonical(one.observed)))


def _unlike_text(one: str, other: str) -> int:
    """Return the length without the common beginning and end."""
    start = common_start(one, other)
    end = common_start(one[start:][::-1], other[start:][::-1])
    return max(len(one), len(other)) - start - end
