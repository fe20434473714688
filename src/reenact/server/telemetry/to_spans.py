"""An exchange as spans (pure): one for it, one for each processor, one for each call it made.

Bodies stay here: of what went in and came out there are digests. The ids of spans follow from the
exchange, so that one which is sent twice is the same one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from reenact._version import __version__
from reenact.exchange.model import ErrorFacts, Exchange, Payload, Processor
from reenact.format.canonical import digest
from reenact.interop.otel import SCHEMA_URL, Group, Link, Span, SpanEvent, SpanKind
from reenact.server.telemetry.calling import OutCall
from reenact.server.telemetry.taking import DEPLOYMENT

__all__ = ["Surroundings", "root_link", "to_group"]

_NS: Final = 1_000_000
_SERVED: Final[dict[str, SpanKind]] = {"http": "server", "task": "consumer", "route": "consumer"}
_FROM_START: Final = {
    "http.method": "http.request.method",
    "http.path": "url.path",
    "http.query": "url.query",
    "http.scheme": "url.scheme",
    "http.host": "server.address",
    "http.client": "client.address",
}


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What an exchange does not say itself. ``actor`` asked for the replay that it is, ``source`` is
    the root of what was replayed."""

    deployment: str
    tenant: str
    app: str
    environment: str
    actor: str = ""
    source: Link | None = None


def to_group(exchange: Exchange, around: Surroundings, calls: Sequence[OutCall] = ()) -> Group:
    """All spans of one exchange."""
    resource = {
        "service.name": around.app,
        "service.version": exchange.code_version,
        "deployment.environment.name": around.environment,
        "rr.tenant": around.tenant,
        DEPLOYMENT: around.deployment,
    }
    spans = (
        _root(exchange, around),
        *(_processor(exchange, one) for one in exchange.processors),
        *(_call(exchange, one) for one in calls),
    )
    return Group(
        resource=_said(resource),
        scope="reenact",
        scope_version=__version__,
        schema_url=SCHEMA_URL,
        spans=spans,
    )


def root_link(source: Exchange) -> Link:
    """To the root of ``source``, from that of its replay."""
    return Link(
        trace_id=_trace_id(source),
        span_id=_root_id(source),
        attributes={"rr.link.type": "replay_of", "rr.exchange.id": source.exchange_id},
    )


def _root(exchange: Exchange, around: Surroundings) -> Span:
    trace = exchange.trace
    return Span(
        trace_id=_trace_id(exchange),
        span_id=_root_id(exchange),
        parent_span_id=trace.parent_span_id if trace else "",
        state=trace.state if trace else "",
        name=exchange.route_id,
        kind=_SERVED[exchange.kind],
        **_times(exchange.started_at, exchange.duration),
        attributes=_said({**_about(exchange), **_http(exchange), **_replay(exchange, around)}),
        events=_events(exchange.error, exchange.started_at, exchange.duration),
        links=() if around.source is None else (around.source,),
        status="error" if exchange.status == "failed" else "unset",
    )


def _about(exchange: Exchange) -> dict[str, Any]:
    return {
        "rr.exchange.id": exchange.exchange_id,
        "rr.route.id": exchange.route_id,
        "rr.route.revision": exchange.revision,
        "rr.correlation.id": exchange.correlation_id,
        "rr.not_replayable": exchange.not_replayable,
        "rr.in.digest": exchange.start_digest,
        "rr.out.digest": "" if exchange.result is None else _digest(exchange.result),
        "error.type": exchange.error.type if exchange.error else "",
    }


def _http(exchange: Exchange) -> dict[str, Any]:
    start = exchange.start.properties
    found = {other: start[name] for name, other in _FROM_START.items() if name in start}
    _, _, path = exchange.route_id.partition(" ")
    if exchange.kind == "http" and path.startswith("/"):
        found["http.route"] = path
    if exchange.result is not None:
        found["http.response.status_code"] = exchange.result.properties.get("http.status")
    return found


def _replay(exchange: Exchange, around: Surroundings) -> dict[str, Any]:
    replay = exchange.replay
    if replay is None:
        return {}
    return {
        "rr.replay.id": replay.replay_id,
        "rr.replay.source_exchange_id": replay.source_exchange_id,
        "rr.replay.actor": around.actor,
        "rr.replay.depth": replay.depth,
        "rr.replay.boundaries": replay.boundaries,
        "rr.replay.divergences": len(replay.divergences),
    }


def _processor(exchange: Exchange, one: Processor) -> Span:
    about = {
        "rr.exchange.id": exchange.exchange_id,
        "rr.processor.id": one.processor_id,
        "rr.processor.kind": one.kind,
        "rr.step.seq": one.seq,
        "rr.step.iteration": one.iteration,
        "rr.step.branch": one.branch,
        "rr.step.changes": len(one.changes),
        "rr.in.digest": "" if one.input is msgspec.UNSET else _digest(one.input),
        "rr.out.digest": "" if one.output is msgspec.UNSET else _digest(one.output),
        "error.type": one.error.type if one.error and one.status == "failed" else "",
    }
    return Span(
        trace_id=_trace_id(exchange),
        span_id=_step_id(exchange, one.seq),
        parent_span_id=_step_id(exchange, one.parent_seq),
        name=one.processor_id,
        kind="internal",
        **_times(one.started_at, one.duration),
        attributes=_said(about),
        events=_events(one.error, one.started_at, one.duration),
        status="error" if one.status == "failed" else "unset",
    )


def _call(exchange: Exchange, one: OutCall) -> Span:
    about = {"rr.exchange.id": exchange.exchange_id, "rr.call.seq": one.seq, **one.attributes}
    return Span(
        trace_id=_trace_id(exchange),
        span_id=_made(exchange, f"call {one.seq}", 8),
        parent_span_id=_step_id(exchange, one.processor_seq),
        name=one.name,
        kind=one.kind,
        start=one.began * _NS,
        end=max(one.began, one.ended) * _NS,
        attributes=_said(about),
        status="error" if one.failed else "unset",
    )


def _times(started_at: int, duration: float) -> dict[str, Any]:
    start = started_at * _NS
    return {"start": start, "end": start + max(0, round(duration * _NS))}


def _events(error: ErrorFacts | None, started_at: int, duration: float) -> tuple[SpanEvent, ...]:
    if error is None:
        return ()
    said = {"exception.type": error.type, "exception.message": error.message}
    at = _times(started_at, duration)["end"]
    return (SpanEvent(name="exception", at=at, attributes=_said(said)),)


def _said(attributes: dict[str, Any]) -> dict[str, Any]:
    """Without what says nothing."""
    return {name: value for name, value in attributes.items() if value not in (None, "")}


def _digest(value: Any) -> str:
    plain = msgspec.to_builtins(value) if isinstance(value, Payload) else value
    return digest(plain)


def _trace_id(exchange: Exchange) -> str:
    return exchange.trace.trace_id if exchange.trace else _made(exchange, "trace", 16)


def _root_id(exchange: Exchange) -> str:
    return exchange.trace.span_id if exchange.trace else _made(exchange, "span", 8)


def _step_id(exchange: Exchange, seq: int) -> str:
    return _made(exchange, f"step {seq}", 8) if seq else _root_id(exchange)


def _made(exchange: Exchange, what: str, size: int) -> str:
    return hashlib.sha256(f"{what} of {exchange.exchange_id}".encode()).digest()[:size].hex()
