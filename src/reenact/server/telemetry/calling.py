"""The calls of a recording, as far as traces have words for them: models, tools, HTTP."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from reenact.errors import ReenactError
from reenact.exchange.comparison.calls import read_calls
from reenact.exchange.model import Exchange, Processor
from reenact.interop.otel import SpanKind
from reenact.lenses.meaning import Answered
from reenact.server.exchanges.recordings import recording_of
from reenact.server.ports import Server
from reenact.server.problems import Problem
from reenact.store.pack import unpack
from reenact.store.payloads.decoder import ReadLimits
from reenact.store.reader import open_recording
from reenact.views.calls import Step, read_steps
from reenact.views.content import meaning_of

__all__ = ["OutCall", "out_calls"]

_LARGEST: Final = 8 << 20
"""Of a recording that is read for this; the calls of a larger one are not told."""
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
    """Those of ``exchange``; none where it has no recording, or one that cannot be read."""
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
            lanes = read_steps(source).lanes.values()
            steps = sorted((step for lane in lanes for step in lane), key=lambda one: one.seq)
            return tuple(_told(steps, owners))


def _told(steps: Sequence[Step], owners: dict[int, int]) -> Iterator[OutCall]:
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


def _model(step: Step) -> Said:
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


def _tool(step: Step) -> Said:
    name = str(step.asked.get("name") or step.name)
    found = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    return f"execute_tool {name}", "internal", found


def _network(step: Step) -> Said:
    found = _http(step)
    return str(found.get("http.request.method") or step.name), "client", found


def _http(step: Step) -> dict[str, Any]:
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
