"""Traces that come in over OTLP, sent by OpenTelemetry's own exporter and by hand."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer

from reenact.interop.otel import Group, Span
from reenact.interop.otel_protobuf import write_protobuf
from reenact.server.runtime import Limits
from reenact.server.telemetry.otlp_receiver import settle
from tests.server.house import House, running

PROTOBUF, JSON = "application/x-protobuf", "application/json"
TRACE = "0af7651916cd43dd8448eb211c80319c"
ROOT, CHILD, LATE = "b7ad6b7169203331", "00f067aa0ba902b7", "00f067aa0ba902b8"
START, MS = 1_790_000_000_000_000_000, 1_000_000


@contextmanager
def tracer_to(house: House, key: str, compression: Compression) -> Iterator[Tracer]:
    exporter = OTLPSpanExporter(
        endpoint=f"{house.url}/v1/traces",
        headers={"Authorization": f"Bearer {key}"},
        compression=compression,
    )
    provider = TracerProvider(
        resource=Resource({"service.name": "shop", "service.version": "1.2"}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    try:
        yield provider.get_tracer("shop.http")
    finally:
        provider.shutdown()


def span(span_id: str, parent: str = "", **more: Any) -> Span:
    start = more.pop("start", START)
    return Span(
        **{
            "trace_id": TRACE,
            "span_id": span_id,
            "parent_span_id": parent,
            "name": f"span {span_id[-1]}",
            "kind": "internal",
            "start": start,
            "end": start + 5_000_000,
            **more,
        }
    )


def send(house: House, key: str, *spans: Span, resource: Any = None) -> httpx.Response:
    data = write_protobuf([Group(resource=resource or {}, spans=spans)])
    return house.client(key).post("/v1/traces", content=data, headers={"Content-Type": PROTOBUF})


def exchanges(house: House, tenant: str = "default") -> list[dict[str, Any]]:
    """All that there are once nothing more comes, the oldest first."""
    house.clock.move(6)
    house.run(settle(house.server))
    client = house.client(house.key("viewer", tenant=tenant))
    items = client.get("/api/v1/exchanges").json()["items"]
    found = [client.get(f"/api/v1/exchanges/{one['exchangeId']}").json() for one in items]
    return sorted(found, key=lambda one: (one["startedAt"], one["exchangeId"]))


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_a_trace_of_the_sdk_becomes_an_exchange(house: House, compression: Compression) -> None:
    secret = "-".join(["s3cr3t", "value"])
    with (
        tracer_to(house, house.agent_key("shop", "live"), compression) as tracer,
        tracer.start_as_current_span(
            "POST /orders/{id}",
            kind=SpanKind.SERVER,
            attributes={
                "http.request.method": "POST",
                "http.route": "/orders/{id}",
                "url.path": "/orders/7",
                "url.query": "a=1",
                "http.response.status_code": 500,
                "http.request.header.authorization": [f"Bearer {secret}"],
                "http.request.header.x-tag": ["one", "two"],
                "session.id": "business-7",
            },
        ) as root,
    ):
        with (
            tracer.start_as_current_span("price"),
            tracer.start_as_current_span(
                "chat gpt-5",
                kind=SpanKind.CLIENT,
                attributes={"gen_ai.system": "openai", "gen_ai.usage.prompt_tokens": 12},
            ),
        ):
            pass
        try:
            with tracer.start_as_current_span("book"):
                raise KeyError("stock")
        except KeyError as error:
            root.set_status(Status(StatusCode.ERROR, str(error)))
    (found,) = exchanges(house)
    trace = format(root.get_span_context().trace_id, "032x")
    own = format(root.get_span_context().span_id, "016x")
    assert found["exchangeId"] == f"otel:{trace}:{own}"
    assert (found["app"], found["environment"]) == ("shop", "live")
    assert (found["routeId"], found["kind"]) == ("POST /orders/{id}", "http")
    assert (found["status"], found["codeVersion"]) == ("failed", "1.2")
    assert found["notReplayable"] == "it was traced, not recorded"
    assert found["trace"] == {"traceId": trace, "spanId": own, "parentSpanId": "", "state": ""}
    assert found["correlationId"] == "business-7"
    assert found["result"]["properties"] == {"http.status": 500}
    assert found["start"]["headers"][1:] == [["x-tag", "one"], ["x-tag", "two"]]
    start = found["start"]["properties"]
    assert (start["http.method"], start["http.path"]) == ("POST", "/orders/7")
    assert start["otel"]["resource"]["service.name"] == "shop"
    seen = [(one["processorId"], one.get("parentSeq", 0)) for one in found["processors"]]
    assert seen == [("price", 0), ("chat gpt-5", 1), ("book", 0)]
    price, chat, book = found["processors"]
    assert price["error"] is None
    assert chat["input"]["attributes"] == {
        "gen_ai.provider.name": "openai",
        "gen_ai.usage.input_tokens": 12,
    }
    assert book["error"] == {"type": "KeyError", "message": "'stock'"}
    assert secret not in msgspec.json.encode(found).decode()


def test_parts_of_a_trace_may_come_in_any_order_and_twice(house: House) -> None:
    key = house.agent_key()
    assert send(house, key, span(CHILD, ROOT, start=START + MS)).status_code == 200
    house.clock.move(3)
    assert house.run(settle(house.server)) == 0
    assert send(house, key, span(ROOT), span(CHILD, ROOT, start=START + MS)).content == b""
    (found,) = exchanges(house)
    assert [one["processorId"] for one in found["processors"]] == ["span 7"]
    assert send(house, key, span(ROOT), span(CHILD, ROOT, start=START + MS)).status_code == 200
    assert exchanges(house) == [found]


def test_what_comes_late_is_an_exchange_beside_it(house: House) -> None:
    key = house.agent_key()
    send(house, key, span(ROOT))
    exchanges(house)
    send(house, key, span(LATE, ROOT, start=START + MS))
    first, second = exchanges(house)
    trace = {"traceId": TRACE, "spanId": LATE, "parentSpanId": ROOT, "state": ""}
    assert second["trace"] == trace
    graph = (
        house.client(house.key("viewer"))
        .get(f"/api/v1/exchanges/{first['exchangeId']}/correlation")
        .json()
    )
    assert [(one["kind"], one["source"], one["target"]) for one in graph["edges"]] == [
        ("parent", first["exchangeId"], second["exchangeId"])
    ]


def test_a_trace_that_goes_on_and_on_is_cut(house: House) -> None:
    key = house.agent_key()
    ids = [f"{number:016x}" for number in range(1, 25)]
    made = 0
    for number, one in enumerate(ids):
        send(house, key, span(one, start=START + number * MS))
        house.clock.move(3)
        made += house.run(settle(house.server))
    assert 0 < made < len(ids)


def test_a_span_that_serves_is_an_exchange_of_its_own(house: House) -> None:
    key = house.agent_key()
    caller, served = span(ROOT, kind="consumer"), span(CHILD, ROOT, kind="server", start=START + MS)
    send(house, key, caller, served, span(LATE, CHILD, start=START + 2 * MS))
    first, second = exchanges(house)
    assert (first["kind"], first["trace"]["spanId"]) == ("task", ROOT)
    assert first["processors"] == []
    assert second["trace"]["parentSpanId"] == ROOT
    assert len(second["processors"]) == 1


def test_spans_below_each_other_in_a_circle_do_no_harm(house: House) -> None:
    send(house, house.agent_key(), span(ROOT, CHILD), span(CHILD, ROOT))
    assert [one["trace"]["spanId"] for one in exchanges(house)] == [CHILD, ROOT]


def test_tenants_do_not_see_each_others_traces(house: House) -> None:
    other = house.tenant("other")
    send(house, house.agent_key(), span(ROOT))
    send(house, house.agent_key(tenant=other), span(ROOT), span(CHILD, ROOT))
    (mine,), (theirs,) = exchanges(house), exchanges(house, other)
    assert mine["exchangeId"] == theirs["exchangeId"]
    assert (len(mine["processors"]), len(theirs["processors"])) == (0, 1)


def test_refused_spans_are_counted_and_the_others_kept(house: House) -> None:
    bad = span("0" * 16)
    answer = send(house, house.agent_key(), span(ROOT), bad, bad)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == PROTOBUF
    assert b"a span has no id" in answer.content
    assert len(exchanges(house)) == 1


def test_json_is_answered_in_json(house: House) -> None:
    spans = [{"traceId": TRACE, "spanId": ROOT, "name": "good"}, {"traceId": "x"}]
    body = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    client = house.client(house.agent_key(), **{"Content-Type": JSON})
    answer = client.post("/v1/traces", content=msgspec.json.encode(body))
    assert answer.json() == {
        "partialSuccess": {"rejectedSpans": "1", "errorMessage": "a span has no trace id"}
    }
    assert [one["routeId"] for one in exchanges(house)] == ["good"]


def test_what_this_server_sent_is_not_taken_in_again(house: House) -> None:
    own = {"rr.deployment": house.server.deployment}
    assert send(house, house.agent_key(), span(ROOT), resource=own).status_code == 200
    assert exchanges(house) == []
    send(house, house.agent_key(), span(ROOT), resource={"rr.deployment": "another"})
    assert len(exchanges(house)) == 1


@pytest.mark.parametrize(
    "headers, content, status",
    [
        ({"Content-Type": "text/plain"}, b"", 415),
        ({"Content-Type": PROTOBUF}, b"\x0a\xff\xff", 400),
        ({"Content-Type": JSON}, b"[]", 400),
        ({"Content-Type": JSON}, b'{"resourceSpans": [{"schemaUrl": "\\ud800"}]}', 400),
        ({"Content-Type": JSON, "Content-Encoding": "br"}, b"{}", 415),
        ({"Content-Type": JSON, "Content-Encoding": "gzip"}, b"{}", 400),
        (
            {"Content-Type": JSON, "Content-Encoding": "gzip"},
            gzip.compress(b"{}", mtime=0)[:-3],
            400,
        ),
        ({"Content-Type": f"{JSON}; charset=utf-8"}, b"{}", 200),
    ],
)
def test_what_cannot_be_read_is_refused(
    house: House, headers: dict[str, str], content: bytes, status: int
) -> None:
    answer = house.client(house.agent_key()).post("/v1/traces", content=content, headers=headers)
    assert answer.status_code == status


def test_a_small_request_does_not_become_a_large_one(tmp_path: Path) -> None:
    with running(tmp_path / "data", limits=Limits(batch=10_000)) as house:
        client = house.client(house.agent_key(), **{"Content-Type": JSON})
        large = b'{"resourceSpans":[],"x":"' + b" " * 50_000 + b'"}'
        zipped = client.post(
            "/v1/traces", content=gzip.compress(large), headers={"Content-Encoding": "gzip"}
        )
        assert (zipped.status_code, zipped.json()["error"]["code"]) == (413, "too_large")
        assert client.post("/v1/traces", content=large).status_code == 413


def test_only_agents_send_traces(house: House) -> None:
    key = house.key("tenant admin", "replayer", "viewer")
    assert send(house, key, span(ROOT)).status_code == 403
    assert house.client().post("/v1/traces").status_code == 401
