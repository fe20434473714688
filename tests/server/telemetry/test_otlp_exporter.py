"""Exchanges that go out as traces, to a real place that takes OTLP."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

import reenact
from reenact.errors import UsageError
from reenact.exchange.model import ErrorFacts, Processor, Trace
from reenact.interop.otel import NAMES, SCHEMA_URL, Group, Span
from reenact.interop.otel_protobuf import write_protobuf
from reenact.server.runtime import Timings
from reenact.server.storage.tables import EXPORTS
from reenact.server.telemetry.otlp_exporter import export
from reenact.server.telemetry.otlp_receiver import settle
from reenact.server.telemetry.targets import ExportTarget, read_targets, target_of
from tests.integration.exchange.apps import Upstream
from tests.server.house import START, House, running
from tests.server.telemetry.collector import Collector, collecting
from tests.server.traffic.puppet import Puppet, ask_for, exchange, named, packed

TRACE = Trace(trace_id="0af7651916cd43dd8448eb211c80319c", span_id="b7ad6b7169203331")
SECRET = "-".join(["for", "the", "collector"])
QUESTION = {"model": "gpt-5", "messages": [{"role": "user", "content": "how are you"}]}
ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-5-2026",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "fine, thanks"},
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
}
NEVER = Timings(sweep=100_000)
"""What happens by itself happens when a test says so."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture
def house(tmp_path: Path, collector: Collector) -> Iterator[House]:
    target = ExportTarget(f"{collector.url}/v1/traces", (("Authorization", SECRET),))
    with running(tmp_path / "data", timings=NEVER, exports={"default": target}) as house:
        house.environment("staging")
        yield house


@pytest.fixture
def agent(house: House) -> Puppet:
    agent = Puppet(house)
    assert agent.register().status_code == 200
    return agent


def send(house: House) -> int:
    return house.run(export(house.server))


def test_an_exchange_is_a_root_span_with_one_below_it_for_each_processor(
    house: House, agent: Puppet, collector: Collector
) -> None:
    failed = ErrorFacts(type="KeyError", message="stock")
    agent.ingest(
        exchange(
            kind="http",
            route_id="POST /orders",
            code_version="1.2",
            trace=TRACE,
            correlation_id="business-7",
            status="failed",
            error=failed,
            processors=(
                Processor(processor_id="price", seq=1, started_at=START, duration=1.0, input=[1]),
                Processor(
                    processor_id="book",
                    seq=2,
                    parent_seq=1,
                    started_at=START,
                    duration=0.5,
                    status="failed",
                    error=failed,
                ),
            ),
        )
    )
    assert send(house) == 1
    ((path, headers, (group,)),) = collector.requests
    assert (path, headers["authorization"]) == ("/v1/traces", SECRET)
    assert headers["content-type"] == "application/x-protobuf"
    assert group.schema_url == SCHEMA_URL
    assert group.resource == {
        "service.name": "shop",
        "service.version": "1.2",
        "deployment.environment.name": "staging",
        "rr.tenant": "default",
        "rr.deployment": "test.example",
    }
    root, price, book = group.spans
    assert (root.trace_id, root.span_id, root.kind) == (TRACE.trace_id, TRACE.span_id, "server")
    assert (root.name, root.status) == ("POST /orders", "error")
    assert (root.start, root.end) == (START * 1_000_000, START * 1_000_000 + 1_500_000)
    assert root.events[0].attributes == {
        "exception.type": "KeyError",
        "exception.message": "stock",
    }
    said = root.attributes
    assert said["rr.exchange.id"] == "ex-1"
    assert said["rr.route.id"] == "POST /orders"
    assert said["rr.route.revision"] == "r1"
    assert said["rr.correlation.id"] == "business-7"
    assert (said["http.request.method"], said["http.route"]) == ("POST", "/orders")
    assert said["http.response.status_code"] == 200
    assert price.parent_span_id == root.span_id
    assert book.parent_span_id == price.span_id
    assert price.attributes["rr.processor.id"] == "price"
    assert price.attributes["rr.in.digest"].startswith("sha256:")
    assert (price.status, book.status) == ("unset", "error")
    assert {one.trace_id for one in group.spans} == {TRACE.trace_id}
    text = msgspec.json.encode(group)
    assert b"amount" not in text, "bodies stay here"


def test_a_replay_is_a_trace_of_its_own_with_a_link(
    house: House, agent: Puppet, collector: Collector
) -> None:
    agent.ingest(exchange(trace=TRACE))
    operator = house.client(house.key("replayer"))
    with agent.stream() as stream:
        replay = ask_for(operator, "ex-1").json()
        agent.run(agent.read_command(stream.next()["data"]))
    send(house)
    _, (root,) = (one.spans for one in collector.groups)
    assert root.trace_id != TRACE.trace_id
    (link,) = root.links
    assert (link.trace_id, link.span_id) == (TRACE.trace_id, TRACE.span_id)
    assert link.attributes == {"rr.link.type": "replay_of", "rr.exchange.id": "ex-1"}
    assert root.attributes["rr.replay.id"] == replay["replayId"]
    assert root.attributes["rr.replay.source_exchange_id"] == "ex-1"
    assert root.attributes["rr.replay.actor"] == replay["requestedBy"]


def test_the_calls_of_a_recording_are_spans_with_the_names_of_the_conventions(
    house: House, agent: Puppet, collector: Collector, tmp_path: Path
) -> None:
    upstream = Upstream()
    upstream.answer = ANSWER
    try:
        with (
            reenact.session(capture=tmp_path / "run", mode="record"),
            httpx.Client(trust_env=False) as client,
        ):
            client.get(f"{upstream.url}/price?token={SECRET}")
            client.post(f"{upstream.url}/v1/chat/completions", json=QUESTION)
    finally:
        upstream.stop()
    data = packed(tmp_path / "run")
    step = Processor(processor_id="price", seq=1, lane="0", first_call=0, end_call=1)
    agent.ingest(exchange(recording=named(data), processors=(step,)), blobs=(data,))
    send(house)
    ((root, price, get, chat),) = (group.spans for group in collector.groups)
    assert (get.kind, get.name, get.parent_span_id) == ("client", "GET", price.span_id)
    assert get.attributes["http.request.method"] == "GET"
    assert get.attributes["http.response.status_code"] == 200
    assert get.attributes["server.address"] == "127.0.0.1"
    assert SECRET not in get.attributes["url.full"]
    assert (chat.kind, chat.name, chat.parent_span_id) == ("client", "chat gpt-5", root.span_id)
    told = {name: value for name, value in chat.attributes.items() if name.startswith("gen_ai.")}
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai-compatible",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.model": "gpt-5-2026",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 4,
    }
    assert chat.start <= chat.end
    assert {name for name in told if name not in NAMES} == set()
    text = msgspec.json.encode(collector.groups)
    assert b"how are you" not in text
    assert b"fine, thanks" not in text


def test_a_recording_that_cannot_be_read_does_not_keep_the_rest_back(
    house: House, agent: Puppet, collector: Collector
) -> None:
    agent.ingest(exchange(recording=named(b"none")), blobs=(b"none",))
    assert send(house) == 1
    ((root,),) = (group.spans for group in collector.groups)
    assert root.attributes["rr.exchange.id"] == "ex-1"


def test_what_was_sent_is_not_sent_again(house: House, agent: Puppet, collector: Collector) -> None:
    agent.ingest(exchange("ex-1"), exchange("ex-2"))
    assert (send(house), send(house)) == (2, 0)
    assert len(collector.requests) == 1


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_was_refused_for_now_is_sent_again_the_same(
    house: House, agent: Puppet, collector: Collector, status: int
) -> None:
    collector.answers.put((status, {"Retry-After": "7"}))
    agent.ingest(exchange())
    assert send(house) == 0
    assert send(house) == 0, "it waits as long as it was told"
    house.clock.move(7)
    assert send(house) == 1
    one, other = collector.groups
    assert one == other


def test_what_was_refused_for_good_is_let_go(
    house: House, agent: Puppet, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.answers.put((400, {}))
    agent.ingest(exchange())
    with caplog.at_level(logging.WARNING, "reenact.server"):
        assert send(house) == 1
    assert "refused for good with 400" in caplog.text
    assert SECRET not in caplog.text
    house.clock.move(1_000)
    assert send(house) == 0


def test_redirects_are_not_followed(house: House, agent: Puppet, collector: Collector) -> None:
    collector.answers.put((307, {"Location": f"{collector.url}/elsewhere"}))
    agent.ingest(exchange())
    send(house)
    assert [path for path, _, _ in collector.requests] == ["/v1/traces"]


def test_a_place_that_is_away_is_tried_again_for_a_day(tmp_path: Path) -> None:
    with collecting() as gone:
        url = gone.url
    exports = {"": ExportTarget(f"{url}/v1/traces")}
    with running(tmp_path / "data", timings=NEVER, exports=exports) as house:
        agent = Puppet(house)
        agent.ingest(exchange())
        assert send(house) == 0
        house.clock.move(23 * 3600)
        assert waiting(house) == 1
        assert send(house) == 0
        house.clock.move(2 * 3600)
        send(house)
        assert waiting(house) == 0


def waiting(house: House) -> int:
    async def count() -> int:
        async with house.server.database.reading("default") as scope:
            return len(await scope.all(scope.select(EXPORTS)))

    return house.run(count())


def test_a_tenant_without_a_place_keeps_its_traces(house: House, collector: Collector) -> None:
    house.tenant("other")
    Puppet(house, tenant="other").ingest(exchange())
    assert send(house) == 0
    assert collector.requests == []


def test_traces_that_came_in_do_not_go_out(house: House, collector: Collector) -> None:
    span = Span(trace_id=TRACE.trace_id, span_id=TRACE.span_id, name="traced")
    answer = house.client(house.agent_key()).post(
        "/v1/traces",
        content=write_protobuf([Group(spans=(span,))]),
        headers={"Content-Type": "application/x-protobuf"},
    )
    assert answer.status_code == 200
    house.clock.move(10)
    assert house.run(settle(house.server)) == 1
    assert send(house) == 0


def test_it_goes_out_by_itself(tmp_path: Path) -> None:
    with collecting() as collector:
        exports = {"": ExportTarget(f"{collector.url}/v1/traces")}
        timings = Timings(sweep=0.01)
        with running(tmp_path / "data", timings=timings, exports=exports) as house:
            Puppet(house).ingest(exchange())
            assert collector.arrived.wait(60)
    assert collector.groups[0].spans[0].attributes["rr.exchange.id"] == "ex-1"


def test_places_are_read_from_the_command_line(tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text(f"Authorization: {SECRET}\n\nX-Scope: a b \n", "utf-8")
    found = read_targets(
        ["https://collector.example", "acme=https://acme.example/otlp/v1/traces"],
        [f"acme={headers}"],
    )
    assert target_of(found, "default") == ExportTarget("https://collector.example/v1/traces")
    assert target_of(found, "acme") == ExportTarget(
        "https://acme.example/otlp/v1/traces", (("Authorization", SECRET), ("X-Scope", "a b"))
    )
    assert SECRET not in repr(found)
    assert read_targets([], []) == {}
    assert target_of({}, "default") is None
    assert target_of(found, "tnt_1", "acme") == target_of(found, "acme")
    (named,) = read_targets(["acme corp=https://acme.example"], ())
    assert named == "acme corp"


@pytest.mark.parametrize(
    "endpoints, lines, why",
    [
        (["collector.example"], "", "is not a valid address"),
        (["http://collector.example"], "", "plain HTTP is allowed only for this machine"),
        (["https://a:b@collector.example"], "", "a name, a password"),
        (["https://one.example", "https://two.example"], "", "twice"),
        (["acme=https://one.example"], "X: y", "no endpoint"),
        (["https://one.example"], "no header", "line 1"),
        (["https://one.example"], "Host: other", "line 1"),
    ],
)
def test_what_is_no_place_is_refused(
    endpoints: list[str], lines: str, why: str, tmp_path: Path
) -> None:
    headers = tmp_path / "headers"
    headers.write_text(lines, "utf-8")
    with pytest.raises(UsageError, match=why) as caught:
        read_targets(endpoints, [str(headers)] if lines else [])
    assert caught.value.hint
