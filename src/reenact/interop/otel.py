"""Traces as OpenTelemetry has them: plain values, whichever encoding they came in (pure).

Ids are hexadecimal, times nanoseconds since the epoch. Values of attributes are JSON: bytes are
``{"$bytes": "<base64>"}``, and numbers that JSON does not have are texts.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from typing import Any, Final, Literal, get_args

import msgspec

from reenact.errors import UsageError

__all__ = [
    "KINDS",
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
    """What the status says."""


class Group(Value, frozen=True, kw_only=True):
    """Spans of one instrumentation of one resource. ``schema_url`` says which names they use."""

    resource: dict[str, Any] = {}
    scope: str = ""
    scope_version: str = ""
    schema_url: str = ""
    spans: tuple[Span, ...] = ()


class Received(Value, frozen=True, kw_only=True):
    """What a request held: ``refused`` says why, for each span that is none."""

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
