"""``POST /v1/traces``: OTLP over HTTP, as protobuf or JSON.

Spans are stored before the response is sent, and become exchanges when no more spans of their trace
arrive. An invalid span is refused alone; the response counts the refused ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import msgspec
from sqlalchemy import Row
from starlette.responses import Response

from reenact.errors import ExtraMissing, UsageError, ValueRefused
from reenact.exchange.model import Exchange
from reenact.format.canonical import digest_bytes, jcs
from reenact.interop.otel import Group, Received, Span, answer_json, read_json, to_current
from reenact.interop.otel_protobuf import answer_protobuf, read_protobuf
from reenact.policy.redaction.redactor import Redactor
from reenact.server.context import RequestContext
from reenact.server.endpoint import api
from reenact.server.exchanges.ingest import columns_of
from reenact.server.exchanges.ingest_parser import inflate
from reenact.server.problems import Problem
from reenact.server.runtime import Limits, Server, repeat
from reenact.server.storage.exchanges import add_exchanges, digests_of, find_exchange, of_traces
from reenact.server.storage.rows import exchange_of, pack
from reenact.server.storage.telemetry import (
    WaitingTrace,
    add_spans,
    forget_spans,
    spans_of,
    waiting_traces,
)
from reenact.server.telemetry.spans_to_exchanges import Kept, exchange_id_of, to_exchanges

__all__ = [
    "DEPLOYMENT",
    "ENDPOINTS",
    "clean_span",
    "resource_of",
    "run",
    "settle",
]

DEPLOYMENT: Final = "rr.deployment"
"""Resource attribute with the sending server, so that a server does not receive its own exports."""
_LOOSER: Final = 4
_MOST: Final = 50_000
"""Spans of one request."""
_TOLD: Final = 500
"""Maximum characters of the message about refused spans."""


class _Coding(msgspec.Struct, frozen=True):
    read: Callable[[bytes], Received]
    answer: Callable[[int, str], bytes]


_CODINGS: Final = {
    "application/x-protobuf": _Coding(read_protobuf, answer_protobuf),
    "application/json": _Coding(read_json, answer_json),
}


class Taken(msgspec.Struct, frozen=True):
    """Accepted spans of a request, and the errors of the others."""

    spans: tuple[Kept, ...]
    refused: tuple[str, ...]


async def take_traces(context: RequestContext) -> Response:
    headers = context.request.headers
    content = headers.get("content-type", "").partition(";")[0].strip().lower()
    coding = _CODINGS.get(content)
    if coding is None:
        raise Problem("unsupported", "traces are application/x-protobuf or application/json")
    zipped = headers.get("content-encoding", "").strip().lower()
    server = context.server
    async with context.taken(server.limits.batch) as data:
        taken = await asyncio.to_thread(_read, server, coding, data, zipped)
        now = server.now()
        rows = [_span_row(context, one, now) for one in taken.spans]
        async with server.database.writing(context.tenant) as scope:
            await add_spans(scope, rows)
    why = "; ".join(dict.fromkeys(taken.refused))[:_TOLD]
    return Response(coding.answer(len(taken.refused), why), media_type=content)


def _read(server: Server, coding: _Coding, data: bytes, zipped: str) -> Taken:
    plain = _unzipped(data, zipped, server.limits)
    try:
        received = coding.read(plain)
    except ExtraMissing as error:
        raise Problem("unsupported", error.message, hint=error.hint) from None
    except UsageError as error:
        raise Problem("malformed", error.message[:_TOLD]) from None
    if sum(len(group.spans) for group in received.groups) > _MOST:
        raise Problem("too_large", f"a request has at most {_MOST} spans", limit=_MOST)
    kept: list[Kept] = []
    refused = list(received.refused)
    for group in received.groups:
        if group.resource.get(DEPLOYMENT) == server.deployment:
            continue  # it is here already, as it was recorded
        resource = resource_of(group)
        for span in group.spans:
            try:
                kept.append(clean_span(span, resource, group.scope))
            except UsageError as error:
                refused.append(error.message)
    return Taken(tuple(kept), tuple(refused))


def _unzipped(data: bytes, zipped: str, limits: Limits) -> bytes:
    if zipped == "gzip":
        return b"".join(inflate((data,), _LOOSER * limits.batch))
    if zipped not in ("", "identity"):
        raise Problem("unsupported", "Content-Encoding is gzip, or none")
    return data


def _span_row(context: RequestContext, kept: Kept, now: int) -> dict[str, Any]:
    """Return the row of a span. App and environment come from the key, not from the resource."""
    return {
        "app": context.principal.app,
        "environment": context.principal.environment,
        "trace_id": kept.span.trace_id,
        "span_id": kept.span.span_id,
        "received_at": now,
        "document": msgspec.json.encode(kept),
    }


ENDPOINTS: Final = (
    api(
        "POST",
        "/v1/traces",
        "agent:connect",
        take_traces,
        "Take in traces (OTLP)",
        takes=tuple(_CODINGS),
        media=tuple(_CODINGS),
        codes=("rate_limited", "unavailable"),
    ),
)


@cache
def _redactor() -> Redactor:
    # OpenTelemetry's ``session.id`` names a visit and gives no access. It connects exchanges.
    return Redactor(not_secret_names=("session.id",))


def resource_of(group: Group) -> dict[str, Any]:
    """The attributes of what sent them."""
    found: dict[str, Any] = _redactor().redact(to_current(group.resource)).value
    return found


def clean_span(span: Span, resource: dict[str, Any], scope: str) -> Kept:
    """``span`` to be kept. Raises :class:`UsageError` for one that cannot be."""
    kept = Kept(_redacted(span), resource, scope)
    try:
        jcs(msgspec.to_builtins(kept))
    except ValueRefused as error:
        raise UsageError(f"a span is not JSON: {error.message}") from None
    survivors = _redactor().survivors(msgspec.json.encode(kept))
    if survivors:
        raise UsageError(f"a secret in a span cannot be redacted ({survivors[0]})")
    return kept


def _redacted(span: Span) -> Span:
    redactor = _redactor()

    def clean(attributes: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = redactor.redact(to_current(attributes)).value
        return found

    return msgspec.structs.replace(
        span,
        name=redactor.text(span.name),
        message=redactor.text(span.message),
        state=redactor.text(span.state),
        attributes=clean(span.attributes),
        events=tuple(
            msgspec.structs.replace(one, attributes=clean(one.attributes)) for one in span.events
        ),
        links=tuple(
            msgspec.structs.replace(one, attributes=clean(one.attributes)) for one in span.links
        ),
    )


_LOG: Final = logging.getLogger("reenact.server")
_AT_ONCE: Final = 100
_MOST_SPANS: Final = 5_000
"""Of one trace at a time; the rest is an exchange of its own, with the same trace id."""
_MOST_KNOWN: Final = 100


async def run(server: Server, stop: asyncio.Event) -> None:
    """Make exchanges of complete traces until ``stop`` is set."""
    await repeat(
        stop, server.timings.sweep, lambda: settle(server), "traces could not be looked at"
    )


async def settle(server: Server) -> int:
    """Make exchanges of what is complete; gives how many."""
    now, timings = server.now(), server.timings
    async with server.database.platform() as platform:
        due = await waiting_traces(
            platform,
            now - int(timings.trace_quiet * 1000),
            now - int(timings.trace_longest * 1000),
            _AT_ONCE,
        )
    return sum([await _settle(server, trace) for trace in due])


async def _settle(server: Server, trace: WaitingTrace) -> int:
    async with server.database.reading(trace.tenant) as scope:
        rows = await spans_of(scope, trace, _MOST_SPANS)
        known = await of_traces(scope, [trace.trace_id], _MOST_KNOWN)
        here = [await find_exchange(scope, row.exchange_id) for row in known if _is_of(row, trace)]
    made = await asyncio.to_thread(_build, rows, [row for row in here if row is not None])
    async with server.database.writing(trace.tenant) as scope:
        there = await digests_of(scope, [exchange.exchange_id for exchange, _ in made])
        new = [one for one in made if one[0].exchange_id not in there]
        values = [_exchange_row(server, trace, exchange, digest) for exchange, digest in new]
        await add_exchanges(scope, values)
        await forget_spans(scope, trace, [row.span_id for row in rows])
    return len(new)


def _is_of(row: Row[Any], trace: WaitingTrace) -> bool:
    return (row.app, row.environment) == (trace.app, trace.environment)


def _build(rows: Sequence[Row[Any]], here: Sequence[Row[Any]]) -> list[tuple[Exchange, str]]:
    """Without the spans that are in an exchange already: they were sent twice."""
    seen = {span for row in here for span in _spans_in(exchange_of(row))}
    spans = [msgspec.json.decode(row.document, type=Kept) for row in rows]
    fresh = [
        one
        for one in spans
        if one.span.span_id not in seen and exchange_id_of(one.span) not in seen
    ]
    made = to_exchanges(fresh)
    return [(one, digest_bytes(jcs(msgspec.to_builtins(one)))) for one in made]


def _spans_in(exchange: Exchange) -> list[str]:
    said = (one.input for one in exchange.processors if isinstance(one.input, dict))
    return [exchange.exchange_id, *(str(one.get("spanId", "")) for one in said)]


def _exchange_row(
    server: Server, trace: WaitingTrace, exchange: Exchange, digest: str
) -> dict[str, Any]:
    return {
        **columns_of(exchange),
        "digest": digest,
        "document": pack(exchange),
        "app": trace.app,
        "environment": trace.environment,
        "agent_id": "",
        "received_at": server.now(),
    }
