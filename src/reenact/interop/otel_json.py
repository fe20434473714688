"""OTLP as JSON: ids in hexadecimal, 64-bit numbers as texts or numbers, enumerations as numbers."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from reenact.errors import UsageError
from reenact.interop.otel import (
    KINDS,
    STATUSES,
    Group,
    Link,
    Received,
    Span,
    SpanEvent,
    check_span,
    plain_bytes,
    plain_number,
)

__all__ = ["answer_json", "read_json"]

_DEEPEST: Final = 32


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
    groups: list[Group] = []
    refused: list[str] = []
    for several in request.resource_spans:
        resource = _attributes(several.resource.attributes)
        for scoped in several.scope_spans:
            group = Group(
                resource=resource,
                scope=scoped.scope.name,
                scope_version=scoped.scope.version,
                schema_url=scoped.schema_url or several.schema_url,
                spans=tuple(_spans(scoped.spans, refused)),
            )
            groups.append(group)
    return Received(groups=tuple(groups), refused=tuple(refused))


def answer_json(refused: int, why: str) -> bytes:
    """Return the response to an export request. It is empty if no span was refused."""
    partial = {"rejectedSpans": str(refused), "errorMessage": why}
    return msgspec.json.encode({"partialSuccess": partial} if refused else {})


def _spans(spans: Iterable[_Span], refused: list[str]) -> Iterable[Span]:
    for one in spans:
        try:
            span = _span(one)
            check_span(span)
        except UsageError as error:
            refused.append(error.message)
        else:
            yield span


def _span(one: _Span) -> Span:
    return Span(
        trace_id=one.trace_id.lower(),
        span_id=one.span_id.lower(),
        parent_span_id=one.parent_span_id.lower(),
        state=one.trace_state,
        name=one.name,
        kind=KINDS[one.kind] if 0 <= one.kind < len(KINDS) else "unspecified",
        start=_whole(one.start_time_unix_nano),
        end=_whole(one.end_time_unix_nano),
        attributes=_attributes(one.attributes),
        events=tuple(
            SpanEvent(
                name=event.name,
                at=_whole(event.time_unix_nano),
                attributes=_attributes(event.attributes),
            )
            for event in one.events
        ),
        links=tuple(
            Link(
                trace_id=link.trace_id.lower(),
                span_id=link.span_id.lower(),
                attributes=_attributes(link.attributes),
            )
            for link in one.links
        ),
        status=STATUSES[one.status.code] if 0 <= one.status.code < len(STATUSES) else "unset",
        message=one.status.message,
    )


def _attributes(pairs: Iterable[_Pair], depth: int = 0) -> dict[str, Any]:
    return {pair.key: _plain(pair.value, depth) for pair in pairs}


def _plain(value: _Value, depth: int) -> Any:
    if depth > _DEEPEST:
        raise UsageError(f"an attribute is nested more than {_DEEPEST} deep")
    if value.array_value is not None:
        return [_plain(item, depth + 1) for item in value.array_value.values]
    if value.kvlist_value is not None:
        return _attributes(value.kvlist_value.values, depth + 1)
    if value.bytes_value is not None:
        return _bytes(value.bytes_value)
    if value.int_value is not None:
        return plain_number(_whole(value.int_value))
    if value.double_value is not None:
        return _fraction(value.double_value)
    return value.string_value if value.string_value is not None else value.bool_value


def _whole(value: int | str) -> int:
    try:
        return int(value) if len(str(value)) < 24 else -1
    except ValueError:
        raise UsageError("a number of a span is none") from None


def _fraction(value: float | str) -> Any:
    try:
        return plain_number(float(value))
    except ValueError:
        raise UsageError("a number of a span is none") from None


def _bytes(text: str) -> dict[str, str]:
    try:
        return plain_bytes(b64decode(text, validate=True))
    except (Base64Error, ValueError):
        raise UsageError("an attribute of a span is not base64") from None
