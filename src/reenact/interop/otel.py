"""OpenTelemetry traces as plain values, and their encoding as JSON.

The attribute names are in one versioned table. The conventions for models left the main repository
with version 1.42 and are still being renamed, so older and newer names are read and the names of
:data:`SCHEMA_URL` are written. OTLP as JSON has ids in hexadecimal, 64-bit numbers as texts or
numbers, and enumerations as numbers; :mod:`reenact.interop.otel_protobuf` has the other encoding.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, get_args

import msgspec

from reenact.errors import UsageError

__all__ = [
    "KINDS",
    "NAMES",
    "PROVIDERS",
    "SCHEMA_URL",
    "SCHEMA_VERSION",
    "STATUSES",
    "Encoding",
    "Group",
    "Link",
    "Received",
    "Span",
    "SpanEvent",
    "SpanKind",
    "SpanStatus",
    "answer_json",
    "read_groups",
    "read_json",
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


_DEEPEST: Final = 32


def _same(value: Any) -> Any:
    return value


class Encoding(NamedTuple):
    """Functions for the differences between the encodings of OTLP, whose field names are the same.

    ``which`` returns the name of the field that a value has, empty for an empty value. The others
    convert ids to hexadecimal text, and numbers and bytes to Python's.
    """

    which: Callable[[Any], str]
    identifier: Callable[[Any], str]
    whole: Callable[[Any], int] = _same
    fraction: Callable[[Any], float] = _same
    content: Callable[[Any], bytes] = _same


def read_groups(resource_spans: Iterable[Any], encoding: Encoding) -> Received:
    """Return the content of a decoded export request. Invalid spans are refused one by one."""
    groups: list[Group] = []
    refused: list[str] = []
    for several in resource_spans:
        resource = _attributes(several.resource.attributes, encoding)
        for scoped in several.scope_spans:
            group = Group(
                resource=resource,
                scope=scoped.scope.name,
                scope_version=scoped.scope.version,
                schema_url=scoped.schema_url or several.schema_url,
                spans=tuple(_spans(scoped.spans, encoding, refused)),
            )
            groups.append(group)
    return Received(groups=tuple(groups), refused=tuple(refused))


def _spans(spans: Iterable[Any], encoding: Encoding, refused: list[str]) -> Iterator[Span]:
    for one in spans:
        try:
            span = _span(one, encoding)
            _check_span(span)
        except UsageError as error:
            refused.append(error.message)
        else:
            yield span


def _span(one: Any, encoding: Encoding) -> Span:
    identifier, whole = encoding.identifier, encoding.whole
    return Span(
        trace_id=identifier(one.trace_id),
        span_id=identifier(one.span_id),
        parent_span_id=identifier(one.parent_span_id),
        state=one.trace_state,
        name=one.name,
        kind=KINDS[one.kind] if 0 <= one.kind < len(KINDS) else "unspecified",
        start=whole(one.start_time_unix_nano),
        end=whole(one.end_time_unix_nano),
        attributes=_attributes(one.attributes, encoding),
        events=tuple(
            SpanEvent(
                name=event.name,
                at=whole(event.time_unix_nano),
                attributes=_attributes(event.attributes, encoding),
            )
            for event in one.events
        ),
        links=tuple(
            Link(
                trace_id=identifier(link.trace_id),
                span_id=identifier(link.span_id),
                attributes=_attributes(link.attributes, encoding),
            )
            for link in one.links
        ),
        status=STATUSES[one.status.code] if 0 <= one.status.code < len(STATUSES) else "unset",
        message=one.status.message,
    )


def _attributes(pairs: Iterable[Any], encoding: Encoding, depth: int = 0) -> dict[str, Any]:
    return {pair.key: _plain(pair.value, encoding, depth) for pair in pairs}


def _plain(value: Any, encoding: Encoding, depth: int) -> Any:
    if depth > _DEEPEST:
        raise UsageError(f"an attribute is nested more than {_DEEPEST} deep")
    which = encoding.which(value)
    found: Any = getattr(value, which) if which else None
    match which:
        case "array_value":
            return [_plain(item, encoding, depth + 1) for item in found.values]
        case "kvlist_value":
            return _attributes(found.values, encoding, depth + 1)
        case "bytes_value":
            return _plain_bytes(encoding.content(found))
        case "int_value":
            return _plain_number(encoding.whole(found))
        case "double_value":
            return _plain_number(encoding.fraction(found))
        case _:
            return found


def _check_span(span: Span) -> None:
    """Raise :class:`UsageError` for what cannot be a span."""
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


def _plain_number(value: float) -> float | int | str:
    """``value`` as JSON can hold it everywhere."""
    if isinstance(value, int):
        return value if abs(value) <= _WHOLE else str(value)
    return value if math.isfinite(value) else str(value)


def _plain_bytes(data: bytes) -> dict[str, str]:
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


class _Value(msgspec.Struct, frozen=True, rename="camel"):
    """One of these is there; none is a value that is empty."""

    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    bytes_value: str | None = None
    array_value: _Array | None = None
    kvlist_value: _Pairs | None = None


class _Array(msgspec.Struct, frozen=True):
    values: tuple[_Value, ...] = ()


class _Pair(msgspec.Struct, frozen=True):
    key: str = ""
    value: _Value = _Value()


class _Pairs(msgspec.Struct, frozen=True):
    values: tuple[_Pair, ...] = ()


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    time_unix_nano: int | str = 0
    name: str = ""
    attributes: tuple[_Pair, ...] = ()


class _Link(msgspec.Struct, frozen=True, rename="camel"):
    trace_id: str = ""
    span_id: str = ""
    attributes: tuple[_Pair, ...] = ()


class _Status(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


class _Span(msgspec.Struct, frozen=True, rename="camel"):
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    trace_state: str = ""
    name: str = ""
    kind: int = 0
    start_time_unix_nano: int | str = 0
    end_time_unix_nano: int | str = 0
    attributes: tuple[_Pair, ...] = ()
    events: tuple[_Event, ...] = ()
    links: tuple[_Link, ...] = ()
    status: _Status = _Status()


class _Scope(msgspec.Struct, frozen=True):
    name: str = ""
    version: str = ""


class _ScopeSpans(msgspec.Struct, frozen=True, rename="camel"):
    scope: _Scope = _Scope()
    spans: tuple[_Span, ...] = ()
    schema_url: str = ""


class _Resource(msgspec.Struct, frozen=True):
    attributes: tuple[_Pair, ...] = ()


class _ResourceSpans(msgspec.Struct, frozen=True, rename="camel"):
    resource: _Resource = _Resource()
    scope_spans: tuple[_ScopeSpans, ...] = ()
    schema_url: str = ""


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    resource_spans: tuple[_ResourceSpans, ...] = ()


def read_json(data: bytes) -> Received:
    """Return the content of an export request. Raises :class:`UsageError` for any other document."""
    try:
        request = msgspec.json.decode(data, type=_Request)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"this is not OTLP as JSON: {error}") from None
    return read_groups(request.resource_spans, _JSON)


def answer_json(refused: int, why: str) -> bytes:
    """Return the response to an export request. It is empty if no span was refused."""
    partial = {"rejectedSpans": str(refused), "errorMessage": why}
    return msgspec.json.encode({"partialSuccess": partial} if refused else {})


def _which(value: _Value) -> str:
    return next((name for name in _ORDER if getattr(value, name) is not None), "")


def _whole(value: int | str) -> int:
    try:
        return int(value) if len(str(value)) < 24 else -1
    except ValueError:
        raise UsageError("a number of a span is none") from None


def _fraction(value: float | str) -> float:
    try:
        return float(value)
    except ValueError:
        raise UsageError("a number of a span is none") from None


def _content(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise UsageError("an attribute of a span is not base64") from None


_ORDER: Final = (
    *("array_value", "kvlist_value", "bytes_value", "int_value", "double_value"),
    *("string_value", "bool_value"),
)
_JSON: Final = Encoding(_which, str.lower, _whole, _fraction, _content)
