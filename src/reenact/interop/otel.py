"""OpenTelemetry traces as plain values, independent of their encoding (pure).

The attribute names are in one versioned table. The conventions for models left the main repository
with version 1.42 and are still being renamed, so older and newer names are read and the names of
:data:`SCHEMA_URL` are written.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import msgspec

from reenact.errors import UsageError

__all__ = [
    "KINDS",
    "NAMES",
    "PROVIDERS",
    "SCHEMA_URL",
    "SCHEMA_VERSION",
    "STATUSES",
    "Group",
    "Link",
    "Received",
    "Span",
    "SpanEvent",
    "SpanKind",
    "SpanStatus",
    "check_span",
    "plain_bytes",
    "plain_number",
    "to_current",
]

SpanKind = Literal["unspecified", "internal", "server", "client", "producer", "consumer"]
KINDS: Final[tuple[SpanKind, ...]] = get_args(SpanKind)
"""In the order of their numbers."""
SpanStatus = Literal["unset", "ok", "error"]
STATUSES: Final[tuple[SpanStatus, ...]] = get_args(SpanStatus)

_TRACE: Final = re.compile(r"(?!0{32})[0-9a-f]{32}")
_SPAN: Final = re.compile(r"(?!0{16})[0-9a-f]{16}")
_LAST: Final = 2**63 - 1
_WHOLE: Final = 2**53 - 1


class Value(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value that may be kept as JSON."""


class SpanEvent(Value, frozen=True, kw_only=True):
    """Something that happened at one moment of a span."""

    name: str
    at: int = 0
    attributes: dict[str, Any] = {}


class Link(Value, frozen=True, kw_only=True):
    """A span of another trace that this one has to do with."""

    trace_id: str
    span_id: str
    attributes: dict[str, Any] = {}


class Span(Value, frozen=True, kw_only=True):
    """One span, complete."""

    trace_id: str
    span_id: str
    parent_span_id: str = ""
    state: str = ""
    name: str = ""
    kind: SpanKind = "unspecified"
    start: int = 0
    end: int = 0
    attributes: dict[str, Any] = {}
    events: tuple[SpanEvent, ...] = ()
    links: tuple[Link, ...] = ()
    status: SpanStatus = "unset"
    message: str = ""
    """Return the text of the status."""


class Group(Value, frozen=True, kw_only=True):
    """Spans of one instrumentation scope of one resource.

    ``schema_url`` identifies the attribute names.
    """

    resource: dict[str, Any] = {}
    scope: str = ""
    scope_version: str = ""
    schema_url: str = ""
    spans: tuple[Span, ...] = ()


class Received(Value, frozen=True, kw_only=True):
    """Content of an export request. ``refused`` has a reason for each invalid span."""

    groups: tuple[Group, ...] = ()
    refused: tuple[str, ...] = ()


def check_span(span: Span) -> None:
    """Raises :class:`UsageError` for what cannot be a span."""
    if not _TRACE.fullmatch(span.trace_id):
        raise UsageError("a span has no trace id")
    if not _SPAN.fullmatch(span.span_id):
        raise UsageError("a span has no id")
    if span.parent_span_id and not _SPAN.fullmatch(span.parent_span_id):
        raise UsageError("the parent of a span has no id")
    if span.parent_span_id == span.span_id:
        raise UsageError("a span is its own parent")
    if not 0 <= span.start <= _LAST or not 0 <= span.end <= _LAST:
        raise UsageError("a span is not in time")


def plain_number(value: float) -> float | int | str:
    """``value`` as JSON can hold it everywhere."""
    if isinstance(value, int):
        return value if abs(value) <= _WHOLE else str(value)
    return value if math.isfinite(value) else str(value)


def plain_bytes(data: bytes) -> dict[str, str]:
    """``data`` as JSON can hold it: base64 under ``$bytes``."""
    return {"$bytes": b64encode(data).decode()}


SCHEMA_VERSION: Final = "1.41.0"
SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/{SCHEMA_VERSION}"

NAMES: Final[dict[str, tuple[str, ...]]] = {
    # Models
    "gen_ai.operation.name": (),
    "gen_ai.provider.name": ("gen_ai.system",),
    "gen_ai.request.model": (),
    "gen_ai.request.max_tokens": (),
    "gen_ai.request.temperature": (),
    "gen_ai.request.top_p": (),
    "gen_ai.request.top_k": (),
    "gen_ai.request.seed": ("gen_ai.openai.request.seed",),
    "gen_ai.request.choice.count": (),
    "gen_ai.request.stop_sequences": (),
    "gen_ai.request.stream": (),
    "gen_ai.response.id": (),
    "gen_ai.response.model": (),
    "gen_ai.response.finish_reasons": (),
    "gen_ai.output.type": ("gen_ai.openai.request.response_format",),
    "gen_ai.usage.input_tokens": ("gen_ai.usage.prompt_tokens",),
    "gen_ai.usage.output_tokens": ("gen_ai.usage.completion_tokens",),
    "gen_ai.usage.cache_read.input_tokens": (),
    "gen_ai.usage.cache_creation.input_tokens": ("gen_ai.usage.cache_write.input_tokens",),
    "gen_ai.usage.reasoning.output_tokens": (),
    "gen_ai.conversation.id": (),
    "gen_ai.agent.name": (),
    "gen_ai.tool.name": (),
    "gen_ai.tool.call.id": (),
    "gen_ai.tool.call.arguments": (),
    "gen_ai.tool.call.result": (),
    "gen_ai.input.messages": ("gen_ai.prompt",),
    "gen_ai.output.messages": ("gen_ai.completion",),
    # HTTP
    "http.request.method": ("http.method",),
    "http.response.status_code": ("http.status_code",),
    "http.route": (),
    "url.full": ("http.url",),
    "url.scheme": ("http.scheme",),
    "url.path": (),
    "url.query": (),
    "server.address": ("net.peer.name", "net.host.name", "http.host"),
    "server.port": ("net.peer.port", "net.host.port"),
    "client.address": ("http.client_ip",),
    "user_agent.original": ("http.user_agent",),
    # Resources
    "deployment.environment.name": ("deployment.environment",),
}
"""Each name that we use, with the ones that it has had before or has got since; the first that is
there counts."""

PROVIDERS: Final = {
    "az.ai.inference": "azure.ai.inference",
    "az.ai.openai": "azure.ai.openai",
    "gemini": "gcp.gemini",
    "vertex_ai": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Values of ``gen_ai.system`` that have another name as ``gen_ai.provider.name``."""

_TARGET: Final = "http.target"


def to_current(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``attributes`` under the names of this version.

    If an attribute has both names, the newer one is used. Other attributes are unchanged.
    """
    found = dict(attributes)
    for name, others in NAMES.items():
        for other in others:
            if other in found:
                value = found.pop(other)
                found.setdefault(name, value)
    provider = found.get("gen_ai.provider.name")
    if isinstance(provider, str):
        found["gen_ai.provider.name"] = PROVIDERS.get(provider, provider)
    target = found.pop(_TARGET, None)
    if isinstance(target, str):
        path, _, query = target.partition("?")
        found.setdefault("url.path", path)
        if query:
            found.setdefault("url.query", query)
    return found
