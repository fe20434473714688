"""Conversion of an exchange to spans: one for it, one per processor, one per call (pure).

Bodies are not exported, only their digests. Span ids are derived from the exchange, so an exchange that
is sent twice has the same spans.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from reenact._version import __version__
from reenact.errors import ReenactError
from reenact.exchange.comparison.calls import read_calls
from reenact.exchange.model import ErrorFacts, Exchange, Payload, Processor
from reenact.format.canonical import digest
from reenact.interop.otel import SCHEMA_URL, Group, Link, Span, SpanEvent, SpanKind
from reenact.lenses.model import Answered
from reenact.server.exchanges.service import recording_of
from reenact.server.problems import Problem
from reenact.server.runtime import Server
from reenact.server.telemetry.otlp_receiver import DEPLOYMENT
from reenact.store.pack import unpack
from reenact.store.payload_decoder import ReadLimits
from reenact.store.reader import open_recording
from reenact.views.content import meaning_of
from reenact.views.recorded_calls import RecordedCall, read_run

__all__ = [
    "OutCall",
    "Surroundings",
    "out_calls",
    "root_link",
    "to_group",
]

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
    """Facts from outside the exchange.

    ``actor`` requested the replay, ``source`` is the root span of the replayed exchange.
    """

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
    """Return a link from the root span of a replay to the root of ``source``."""
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
        attributes=_said(
            {**_about(exchange), **_exchange_http(exchange), **_replay(exchange, around)}
        ),
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


def _exchange_http(exchange: Exchange) -> dict[str, Any]:
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
    """Return the attributes without empty values."""
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


_LARGEST: Final = 8 << 20
"""Maximum size of a recording that is read for its calls."""
_LOOSER: Final = 16
_PROVIDERS: Final = {"google": "gcp.gen_ai", "bedrock": "aws.bedrock"}
_USAGE: Final = {
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cacheRead": "gen_ai.usage.cache_read.input_tokens",
    "cacheWrite": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning": "gen_ai.usage.reasoning.output_tokens",
}


class OutCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call. Times are milliseconds; ``processor_seq`` is who made it, 0 for none."""

    seq: int
    name: str
    kind: SpanKind
    began: int
    ended: int
    attributes: dict[str, Any]
    failed: bool = False
    processor_seq: int = 0


async def out_calls(server: Server, tenant: str, exchange: Exchange) -> tuple[OutCall, ...]:
    """Return the calls of ``exchange``; none without a readable recording."""
    if exchange.recording is None or exchange.recording.size > _LARGEST:
        return ()
    try:
        data = await recording_of(server, tenant, exchange)
        return await asyncio.to_thread(_read, data, exchange.processors, server.limits.read)
    except (Problem, ReenactError):
        return ()  # a trace without its calls is better than none


def _read(data: bytes, processors: Sequence[Processor], limits: ReadLimits) -> tuple[OutCall, ...]:
    with tempfile.TemporaryDirectory(prefix="reenact-") as folder:
        packed, capture = Path(folder, "packed"), Path(folder, "capture")
        packed.write_bytes(data)
        unpack(packed, capture, most=_LOOSER * _LARGEST, limits=limits)
        with open_recording(capture, limits=limits) as source:
            owners = {call.seq: call.processor_seq for call in read_calls(source, processors)}
        with open_recording(capture, limits=limits) as source:
            lanes = read_run(source).lanes.values()
            steps = sorted((step for lane in lanes for step in lane), key=lambda one: one.seq)
            return tuple(_told(steps, owners))


def _told(steps: Sequence[RecordedCall], owners: dict[int, int]) -> Iterator[OutCall]:
    for step in steps:
        say = _SAYING.get(step.kind)
        if say is not None:
            name, kind, attributes = say(step)
            yield OutCall(
                seq=step.seq,
                name=name,
                kind=kind,
                began=step.began,
                ended=step.ended,
                attributes=attributes,
                failed=step.answered.get("error") is not None,
                processor_seq=owners.get(step.seq, 0),
            )
        step.let_go()


Said = tuple[str, SpanKind, dict[str, Any]]


def _model(step: RecordedCall) -> Said:
    provider, model = (str(step.asked.get(name) or "") for name in ("provider", "model"))
    answer = meaning_of(step)
    found = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": model,
        **_http(step),
        **(_answer(answer) if answer is not None else {}),
    }
    return f"chat {model}".strip(), "client", found


def _answer(answer: Answered) -> dict[str, Any]:
    found: dict[str, Any] = {
        "gen_ai.response.id": answer.id,
        "gen_ai.response.model": answer.model,
    }
    if answer.stop_reason:
        found["gen_ai.response.finish_reasons"] = [answer.stop_reason]
    usage = answer.usage or {}
    found.update({_USAGE[name]: count for name, count in usage.items() if name in _USAGE})
    return found


def _tool(step: RecordedCall) -> Said:
    name = str(step.asked.get("name") or step.name)
    found = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    return f"execute_tool {name}", "internal", found


def _network(step: RecordedCall) -> Said:
    found = _http(step)
    return str(found.get("http.request.method") or step.name), "client", found


def _http(step: RecordedCall) -> dict[str, Any]:
    request, response = step.asked.get("request"), step.answered.get("response")
    if not isinstance(request, dict):
        return {}
    url = request.get("url")
    found = {"http.request.method": request.get("method"), "url.full": url}
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        found |= (
            {} if parts is None else {"server.address": parts.hostname, "server.port": parts.port}
        )
    except ValueError:
        found.pop("url.full")
    if isinstance(response, dict):
        found["http.response.status_code"] = response.get("status")
    return found


_SAYING: Final = {"llm": _model, "tool": _tool, "network": _network}
