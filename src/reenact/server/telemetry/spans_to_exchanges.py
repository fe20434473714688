"""Spans of a trace as exchanges (pure).

A span whose parent is not here, and one that serves or consumes, is an exchange of its own; the
spans below it are its processors. It was traced and not recorded, and so it is never replayable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from reenact.exchange.model import ErrorFacts, Exchange, Header, Kind, Payload, Processor, Trace
from reenact.exchange.payload import payload_digest
from reenact.interop.otel import Span

__all__ = ["MOST_PROCESSORS", "TRACED", "Kept", "exchange_id_of", "to_exchanges"]

TRACED: Final = "it was traced, not recorded"
MOST_PROCESSORS: Final = 2_000
_ROOT_KINDS: Final = ("server", "consumer")
_REQUEST_HEADER: Final = "http.request.header."
_RESPONSE_HEADER: Final = "http.response.header."
_CORRELATION: Final = (
    "rr.correlation.id",
    "messaging.message.conversation_id",
    "gen_ai.conversation.id",
    "session.id",
)
_START: Final = {
    "http.method": "http.request.method",
    "http.path": "url.path",
    "http.query": "url.query",
    "http.scheme": "url.scheme",
    "http.host": "server.address",
    "http.client": "client.address",
}
_LONG: Final = 4_000
_NAME: Final = 512


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """A span as it waits for the others of its trace, with what it was sent with. Its attributes are
    redacted, and have the names of our version."""

    span: Span
    resource: dict[str, Any] = {}
    scope: str = ""


def exchange_id_of(span: Span) -> str:
    """Return the exchange id of a span.

    It is deterministic, so a repeated span creates no second exchange.
    """
    return f"otel:{span.trace_id}:{span.span_id}"


def to_exchanges(spans: Sequence[Kept]) -> list[Exchange]:
    """The exchanges of one trace, as far as it is here."""
    by_id = {one.span.span_id: one for one in spans}
    below: dict[str, list[Kept]] = {}
    roots: list[Kept] = []
    for one in sorted(by_id.values(), key=lambda one: (one.span.start, one.span.span_id)):
        if _is_root(one.span, by_id):
            roots.append(one)
        else:
            below.setdefault(one.span.parent_span_id, []).append(one)
    return [_exchange(root, _in_order(root, below)) for root in _with_circles(roots, below)]


def _is_root(span: Span, by_id: dict[str, Kept]) -> bool:
    return span.kind in _ROOT_KINDS or span.parent_span_id not in by_id


def _with_circles(roots: list[Kept], below: dict[str, list[Kept]]) -> list[Kept]:
    """Spans that are below each other in a circle hang nowhere: each is a root of its own."""
    reached = {one.span.span_id for root in roots for one in (root, *_in_order(root, below))}
    lost = [one for those in below.values() for one in those if one.span.span_id not in reached]
    for one in lost:
        below[one.span.parent_span_id] = [
            other for other in below[one.span.parent_span_id] if other is not one
        ]
    return [*roots, *lost]


def _in_order(root: Kept, below: dict[str, list[Kept]]) -> list[Kept]:
    """Everything below ``root``, in the order of starting."""
    found: list[Kept] = []
    waiting = [root]
    while waiting:
        here = below.get(waiting.pop().span.span_id, [])
        found += here
        waiting += here
    return sorted(found, key=lambda one: (one.span.start, one.span.span_id))


def _exchange(root: Kept, below: list[Kept]) -> Exchange:
    span, said = root.span, root.span.attributes
    start = Payload(headers=_headers(said, _REQUEST_HEADER), properties=_start_of(root, len(below)))
    return Exchange(
        exchange_id=exchange_id_of(span),
        route_id=_route_of(span),
        code_version=str(root.resource.get("service.version", ""))[:_LONG],
        kind=_kind_of(span),
        started_at=_milliseconds(span.start),
        duration=_duration(span),
        status="failed" if span.status == "error" else "completed",
        error=_error_of(span),
        start=start,
        start_digest=payload_digest(start),
        not_replayable=TRACED,
        result=_result_of(said),
        processors=_processors(root, below[:MOST_PROCESSORS]),
        trace=Trace(
            trace_id=span.trace_id,
            span_id=span.span_id,
            parent_span_id=span.parent_span_id,
            state=span.state if len(span.state) <= _NAME else "",
        ),
        correlation_id=_correlation_of(said),
    )


def _kind_of(span: Span) -> Kind:
    if span.kind == "consumer":
        return "task"
    return "http" if "http.request.method" in span.attributes else "route"


def _route_of(span: Span) -> str:
    """``GET /orders/{id}``, as an agent would call it, or the name of the span."""
    method, route = (span.attributes.get(one) for one in ("http.request.method", "http.route"))
    named = f"{method} {route}" if isinstance(method, str) and isinstance(route, str) else span.name
    return named[:_NAME] or "unnamed"


def _start_of(root: Kept, below: int) -> dict[str, Any]:
    said = root.span.attributes
    found = {name: said[other] for name, other in _START.items() if other in said}
    used = (*_START.values(), "http.response.status_code")
    rest = {
        name: value
        for name, value in said.items()
        if name not in used and not name.startswith((_REQUEST_HEADER, _RESPONSE_HEADER))
    }
    about = {
        "name": root.span.name,
        "kind": root.span.kind,
        "scope": root.scope,
        "attributes": rest,
        "resource": root.resource,
        "links": msgspec.to_builtins(root.span.links),
        "leftOut": max(0, below - MOST_PROCESSORS),
    }
    return {**found, "otel": {name: value for name, value in about.items() if value}}


def _result_of(said: dict[str, Any]) -> Payload | None:
    status = said.get("http.response.status_code")
    headers = _headers(said, _RESPONSE_HEADER)
    if status is None and not headers:
        return None
    return Payload(headers=headers, properties={} if status is None else {"http.status": status})


def _headers(said: dict[str, Any], prefix: str) -> tuple[Header, ...]:
    return tuple(
        (name.removeprefix(prefix), str(one))
        for name, value in said.items()
        if name.startswith(prefix)
        for one in (value if isinstance(value, list) else [value])
    )


def _correlation_of(said: dict[str, Any]) -> str:
    found = (said[name] for name in _CORRELATION if isinstance(said.get(name), str))
    return next(found, "")[:_NAME]


def _error_of(span: Span) -> ErrorFacts | None:
    if span.status != "error":
        return None
    raised = _last_exception(span)
    kind = raised.get("exception.type") or span.attributes.get("error.type") or "error"
    message = raised.get("exception.message") or span.message
    return ErrorFacts(type=str(kind)[:_LONG], message=str(message)[:_LONG])


def _last_exception(span: Span) -> dict[str, Any]:
    events = (one.attributes for one in reversed(span.events) if one.name == "exception")
    return next(events, {})


def _processors(root: Kept, below: Iterable[Kept]) -> tuple[Processor, ...]:
    numbers = {root.span.span_id: 0}
    found = []
    for seq, one in enumerate(below, 1):
        numbers[one.span.span_id] = seq
        found.append((seq, one))
    return tuple(
        _processor(seq, numbers.get(one.span.parent_span_id, 0), one) for seq, one in found
    )


def _processor(seq: int, parent: int, one: Kept) -> Processor:
    span = one.span
    about = {
        "spanId": span.span_id,
        "kind": span.kind,
        "scope": one.scope,
        "attributes": span.attributes,
        "events": [
            {"name": event.name, "attributes": event.attributes}
            for event in span.events
            if event.name != "exception"
        ],
    }
    return Processor(
        processor_id=span.name[:_NAME] or "unnamed",
        seq=seq,
        parent_seq=parent,
        started_at=_milliseconds(span.start),
        duration=_duration(span),
        status="failed" if span.status == "error" else "completed",
        error=_error_of(span),
        input={name: value for name, value in about.items() if value},
    )


def _milliseconds(at: int) -> int:
    return at // 1_000_000


def _duration(span: Span) -> float:
    return max(0, span.end - span.start) / 1e6
