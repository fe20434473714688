"""OTLP as protobuf, by way of ``opentelemetry-proto`` (the extra ``otel``)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Any, Final

from reenact.errors import ExtraMissing, UsageError
from reenact.interop.otel import KINDS, STATUSES, Encoding, Group, Received, Span, read_groups

try:
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service
    from opentelemetry.proto.common.v1 import common_pb2 as common
    from opentelemetry.proto.resource.v1 import resource_pb2 as resources
    from opentelemetry.proto.trace.v1 import trace_pb2 as traces
except ImportError:
    HERE: Final = False
else:
    HERE = True  # type: ignore[misc]

__all__ = ["HERE", "answer_protobuf", "need_protobuf", "read_protobuf", "write_protobuf"]

_INT64: Final = 2**63


def need_protobuf() -> None:
    """Raises :class:`ExtraMissing` where protobuf cannot be read or written."""
    if not HERE:
        raise ExtraMissing("OTLP as protobuf", "otel")


def read_protobuf(data: bytes) -> Received:
    """Return the content of an export request. Raises :class:`UsageError` for any other message."""
    need_protobuf()
    try:
        request = service.ExportTraceServiceRequest.FromString(data)
    except DecodeError:
        raise UsageError("this is not OTLP as protobuf") from None
    return read_groups(request.resource_spans, _PROTOBUF)


def _which(value: Any) -> str:
    return value.WhichOneof("value") or ""


_PROTOBUF: Final = Encoding(_which, bytes.hex)


def answer_protobuf(refused: int, why: str) -> bytes:
    """Return the response to an export request. It is empty if no span was refused."""
    need_protobuf()
    answer = service.ExportTraceServiceResponse()
    if refused:
        answer.partial_success.rejected_spans = refused
        answer.partial_success.error_message = why
    return bytes(answer.SerializeToString())


def write_protobuf(groups: Iterable[Group]) -> bytes:
    """An export request."""
    need_protobuf()
    request = service.ExportTraceServiceRequest(
        resource_spans=[
            traces.ResourceSpans(
                resource=resources.Resource(attributes=_pairs(group.resource)),
                schema_url=group.schema_url,
                scope_spans=[
                    traces.ScopeSpans(
                        scope=common.InstrumentationScope(
                            name=group.scope, version=group.scope_version
                        ),
                        schema_url=group.schema_url,
                        spans=map(_message, group.spans),
                    )
                ],
            )
            for group in groups
        ]
    )
    return bytes(request.SerializeToString())


def _message(span: Span) -> Any:
    kind: Any = KINDS.index(span.kind)  # its type has a name for type checkers only
    code: Any = STATUSES.index(span.status)
    return traces.Span(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=bytes.fromhex(span.span_id),
        parent_span_id=bytes.fromhex(span.parent_span_id),
        trace_state=span.state,
        name=span.name,
        kind=kind,
        start_time_unix_nano=span.start,
        end_time_unix_nano=span.end,
        attributes=_pairs(span.attributes),
        events=[
            traces.Span.Event(
                time_unix_nano=event.at, name=event.name, attributes=_pairs(event.attributes)
            )
            for event in span.events
        ],
        links=[
            traces.Span.Link(
                trace_id=bytes.fromhex(link.trace_id),
                span_id=bytes.fromhex(link.span_id),
                attributes=_pairs(link.attributes),
            )
            for link in span.links
        ],
        status=traces.Status(code=code, message=span.message),
    )


def _pairs(attributes: Mapping[str, Any]) -> list[Any]:
    return [common.KeyValue(key=key, value=_value(value)) for key, value in attributes.items()]


def _value(value: Any) -> Any:
    """Whole numbers that do not fit are texts, as they are on the way in."""
    if isinstance(value, bool):
        return common.AnyValue(bool_value=value)
    if isinstance(value, int):
        fits = -_INT64 <= value < _INT64
        return common.AnyValue(int_value=value) if fits else _value(str(value))
    if isinstance(value, float):
        return common.AnyValue(double_value=value)
    if isinstance(value, str):
        return common.AnyValue(string_value=value)
    if isinstance(value, dict) and set(value) == {"$bytes"}:
        return common.AnyValue(bytes_value=b64decode(value["$bytes"]))
    if isinstance(value, dict):
        return common.AnyValue(kvlist_value=common.KeyValueList(values=_pairs(value)))
    if isinstance(value, (list, tuple)):
        return common.AnyValue(array_value=common.ArrayValue(values=[_value(one) for one in value]))
    return common.AnyValue()
