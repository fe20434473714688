"""OTLP read and written, as protobuf and as JSON."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from reenact.errors import UsageError
from reenact.interop.otel import Group, Link, Received, Span, SpanEvent, answer_json, read_json
from reenact.interop.otel_protobuf import answer_protobuf, read_protobuf, write_protobuf

TRACE, ONE, TWO = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"


def whole_span() -> Span:
    return Span(
        trace_id=TRACE,
        span_id=ONE,
        parent_span_id=TWO,
        state="rr=r:rpl_1",
        name="POST /orders",
        kind="server",
        start=1_790_000_000_000_000_001,
        end=1_790_000_000_250_000_000,
        attributes={
            "text": "ä",
            "yes": True,
            "whole": -3,
            "fraction": 0.5,
            "list": ["a", 1, [True]],
            "object": {"inner": {"deep": 1}},
            "bytes": {"$bytes": "AP8="},
            "nothing": None,
        },
        events=(SpanEvent(name="exception", at=7, attributes={"exception.type": "KeyError"}),),
        links=(Link(trace_id=TRACE, span_id=TWO, attributes={"rr.link.type": "replay_of"}),),
        status="error",
        message="no",
    )


def group(*spans: Span) -> Group:
    return Group(
        resource={"service.name": "shop"},
        scope="scope",
        scope_version="1",
        schema_url="https://opentelemetry.io/schemas/1.41.0",
        spans=spans,
    )


def as_json(*spans: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


def only_span(found: Received) -> Span:
    ((span,),) = (one.spans for one in found.groups)
    return span


def test_protobuf_comes_back_as_it_went() -> None:
    sent = group(whole_span())
    assert read_protobuf(write_protobuf([sent])) == Received(groups=(sent,))


def test_json_is_read_as_protobuf_is() -> None:
    span = {
        "traceId": TRACE.upper(),
        "spanId": ONE,
        "parentSpanId": TWO,
        "traceState": "rr=r:rpl_1",
        "name": "POST /orders",
        "kind": 2,
        "startTimeUnixNano": "1790000000000000001",
        "endTimeUnixNano": 1_790_000_000_250_000_000,
        "attributes": [
            {"key": "text", "value": {"stringValue": "ä"}},
            {"key": "yes", "value": {"boolValue": True}},
            {"key": "whole", "value": {"intValue": "-3"}},
            {"key": "fraction", "value": {"doubleValue": 0.5}},
            {
                "key": "list",
                "value": {
                    "arrayValue": {
                        "values": [
                            {"stringValue": "a"},
                            {"intValue": 1},
                            {"arrayValue": {"values": [{"boolValue": True}]}},
                        ]
                    }
                },
            },
            {
                "key": "object",
                "value": {
                    "kvlistValue": {
                        "values": [
                            {
                                "key": "inner",
                                "value": {
                                    "kvlistValue": {
                                        "values": [{"key": "deep", "value": {"intValue": "1"}}]
                                    }
                                },
                            }
                        ]
                    }
                },
            },
            {"key": "bytes", "value": {"bytesValue": "AP8="}},
            {"key": "nothing", "value": {}},
        ],
        "events": [
            {
                "name": "exception",
                "timeUnixNano": "7",
                "attributes": [{"key": "exception.type", "value": {"stringValue": "KeyError"}}],
            }
        ],
        "links": [
            {
                "traceId": TRACE,
                "spanId": TWO,
                "attributes": [{"key": "rr.link.type", "value": {"stringValue": "replay_of"}}],
            }
        ],
        "status": {"code": 2, "message": "no"},
        "flags": 257,
        "somethingNew": [1],
    }
    assert only_span(read_json(as_json(span))) == whole_span()


@pytest.mark.parametrize(
    "change, why",
    [
        ({"traceId": "0" * 32}, "no trace id"),
        ({"traceId": "abc"}, "no trace id"),
        ({"traceId": TRACE + "\n"}, "no trace id"),
        ({"spanId": ""}, "no id"),
        ({"spanId": "0" * 16}, "no id"),
        ({"parentSpanId": "zz"}, "parent"),
        ({"parentSpanId": TWO}, "its own parent"),
        ({"startTimeUnixNano": "-1"}, "not in time"),
        ({"endTimeUnixNano": "9" * 40}, "not in time"),
        ({"startTimeUnixNano": "soon"}, "is none"),
        ({"attributes": [{"key": "a", "value": {"bytesValue": "%"}}]}, "base64"),
        ({"attributes": [{"key": "a", "value": {"doubleValue": "much"}}]}, "is none"),
    ],
)
def test_a_span_that_is_none_is_refused_alone(change: dict[str, Any], why: str) -> None:
    good = {"traceId": TRACE, "spanId": ONE, "name": "good"}
    found = read_json(as_json({"traceId": TRACE, "spanId": TWO, **change}, good))
    assert only_span(found).name == "good"
    (said,) = found.refused
    assert why in said


def test_spans_without_ids_are_refused_in_protobuf_too() -> None:
    bad = msgspec.structs.replace(whole_span(), trace_id="00" * 16)
    found = read_protobuf(write_protobuf([group(bad, whole_span())]))
    assert only_span(found) == whole_span()
    assert len(found.refused) == 1


def test_kinds_and_states_from_the_future_are_none() -> None:
    span = {"traceId": TRACE, "spanId": ONE, "kind": 9, "status": {"code": 9}}
    found = only_span(read_json(as_json(span)))
    assert (found.kind, found.status) == ("unspecified", "unset")


@pytest.mark.parametrize(
    "value, kept",
    [(math.nan, "nan"), (math.inf, "inf"), (2**60, str(2**60)), (2**53 - 1, 2**53 - 1)],
)
def test_numbers_that_json_lacks_are_texts(value: float, kept: Any) -> None:
    span = msgspec.structs.replace(whole_span(), attributes={"n": value})
    assert only_span(read_protobuf(write_protobuf([group(span)]))).attributes == {"n": kept}


def test_json_has_words_for_such_numbers() -> None:
    value = [{"key": "n", "value": {"doubleValue": "NaN"}}]
    found = only_span(read_json(as_json({"traceId": TRACE, "spanId": ONE, "attributes": value})))
    assert found.attributes == {"n": "nan"}


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"resourceSpans": 1}', b"\xff"])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match="not OTLP as JSON"):
        read_json(data)


def test_what_is_no_protobuf_is_refused() -> None:
    with pytest.raises(UsageError, match="not OTLP as protobuf"):
        read_protobuf(b"\x0a\xff\xff")


@pytest.mark.parametrize("depth", [40, 100_000])
def test_values_that_are_nested_too_deep_are_refused(depth: int) -> None:
    inner = '{"arrayValue":{"values":[' * depth + "{}" + "]}}" * depth
    span = f'{{"traceId":"{TRACE}","spanId":"{ONE}","attributes":[{{"key":"a","value":{inner}}}]}}'
    text = f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{span}]}}]}}]}}'
    try:
        assert "deep" in read_json(text.encode()).refused[0]
    except UsageError as error:
        assert "not OTLP" in error.message  # noqa: PT017 - the decoder may see it first


def test_deep_protobuf_is_refused() -> None:
    value: Any = 1
    for _ in range(40):
        value = [value]
    span = msgspec.structs.replace(whole_span(), attributes={"a": value})
    (said,) = read_protobuf(write_protobuf([group(span)])).refused
    assert "deep" in said


def test_answers_say_how_many_were_refused() -> None:
    assert answer_json(0, "") == b"{}"
    assert msgspec.json.decode(answer_json(2, "why")) == {
        "partialSuccess": {"rejectedSpans": "2", "errorMessage": "why"}
    }
    assert answer_protobuf(0, "") == b""
    assert b"why" in answer_protobuf(2, "why")
