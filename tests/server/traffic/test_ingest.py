"""What agents send: kept once, never overwritten, and nothing of what cannot be read."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from reenact.exchange.model import Body, ErrorFacts, Payload, ReplayOf, Trace
from reenact.server.runtime import Limits
from tests.server.house import House, running
from tests.server.traffic.puppet import (
    Puppet,
    ask_for,
    code_of,
    exchange,
    lines,
    named,
    result,
    start,
)


def _kept(client: httpx.Client) -> list[str]:
    return [one["exchangeId"] for one in client.get("/api/v1/exchanges").json()["items"]]


def test_what_was_stored_is_never_overwritten(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    before = operator.get("/api/v1/exchanges/ex-1").json()
    assert agent.ingest(exchange()) == [{"exchangeId": "ex-1", "status": "duplicate"}]
    (other,) = agent.ingest(exchange(result=result(99)))
    assert (other["status"], other["code"]) == ("refused", "exchange_conflict")
    assert operator.get("/api/v1/exchanges/ex-1").json() == before


def test_the_same_id_twice_in_one_request(agent: Puppet) -> None:
    results = agent.ingest(exchange("ex-2"), exchange("ex-2"), exchange("ex-2", result=None))
    assert [one["status"] for one in results] == ["stored", "duplicate", "refused"]


def test_app_and_environment_are_those_of_the_key(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    other = Puppet(house, agent_id="agent-2", app="bank", environment="live")
    other.register()
    text = msgspec.to_builtins(exchange("ex-2", agent_id="agent-1"))
    lying = {**text, "app": "shop", "environment": "staging", "tenant": "default"}
    answer = other.post_lines(msgspec.json.encode({"exchange": lying}))
    assert answer.json()["results"][0]["status"] == "stored"
    shown = operator.get("/api/v1/exchanges/ex-2").json()
    assert (shown["app"], shown["environment"]) == ("bank", "live")
    (brief,) = operator.get("/api/v1/exchanges", params={"app": "bank"}).json()["items"]
    assert brief["agentId"] == ""  # that agent is not of this app


def test_a_replay_that_nobody_asked_for_is_refused(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    made_up = ReplayOf(replay_id="rpl_none", source_exchange_id="ex-1")
    (answer,) = agent.ingest(exchange("ex-2", replay=made_up))
    assert answer["code"] == "replay_unknown"
    replay_id = ask_for(operator).json()["replayId"]
    early = ReplayOf(replay_id=replay_id, source_exchange_id="ex-1")
    (answer,) = agent.ingest(exchange("ex-2", replay=early))
    assert answer["code"] == "replay_unknown"  # its command has not left yet
    assert _kept(operator) == ["ex-1"]
    assert house.records("replay.finished") == []


def test_only_the_agent_that_was_told_completes_a_replay(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    other = Puppet(house, agent_id="agent-2")
    with agent.stream() as stream:
        ask_for(operator, target={"agentId": "agent-1"})
        made = agent.outcome(agent.read_command(stream.next()["data"]))
        other.register()
        assert made.replay is not None
        deeper = msgspec.structs.replace(made.replay, depth=2)
        elsewhere = msgspec.structs.replace(made.replay, source_exchange_id="ex-9")
        lies = [
            msgspec.structs.replace(made, replay=deeper),
            msgspec.structs.replace(made, replay=elsewhere),
            msgspec.structs.replace(made, route_id="other"),
            msgspec.structs.replace(made, agent_id="agent-2"),
        ]
        assert [one["code"] for one in other.ingest(made)] == ["replay_unknown"]
        assert [one["code"] for one in agent.ingest(*lies)] == ["replay_unknown"] * 4
        assert [one["status"] for one in agent.ingest(made)] == ["stored"]


def test_a_recording_has_to_be_there_and_may_come_in_a_request_before(agent: Puppet) -> None:
    data = b"packed"
    (answer,) = agent.ingest(exchange("ex-2", recording=named(data)))
    assert answer["code"] == "recording_missing"
    assert agent.ingest(blobs=(data,)) == []
    (answer,) = agent.ingest(exchange("ex-2", recording=named(data)))
    assert answer["status"] == "stored"
    wrong = msgspec.structs.replace(named(data), size=1)
    (answer,) = agent.ingest(exchange("ex-3", recording=wrong))
    assert answer["code"] == "exchange_invalid"


def test_a_recording_that_is_none_is_damaged_and_nothing_breaks(
    agent: Puppet, operator: httpx.Client
) -> None:
    agent.ingest(exchange("ex-2", recording=named(b"none")), blobs=(b"none",))
    assert code_of(operator.get("/api/v1/exchanges/ex-2/calls")) == (500, "damaged")
    with agent.stream() as stream:
        replay_id = ask_for(operator, "ex-2").json()["replayId"]
        agent.run(agent.read_command(stream.next()["data"]))
    replay = operator.get(f"/api/v1/replays/{replay_id}").json()
    assert (replay["state"], replay["verdict"]) == ("completed", "diverged")


GOOD = lines(exchange("ex-2"))


@pytest.mark.parametrize(
    "data, status",
    [
        (GOOD + b"\n{", 400),
        (GOOD + b"\nnull", 400),
        (GOOD + b"\n{}", 400),
        (GOOD + b'\n{"exchange": {}}', 400),
        (GOOD + b'\n{"exchange": {"exchangeId": "../etc"}}', 400),
        (GOOD + b'\n{"exchange": ' + b"[" * 100_000, 400),
        (GOOD + b'\n{"blob": {"digest": "sha256:' + b"0" * 64 + b'", "base64": "AA=="}}', 400),
        (GOOD + b'\n{"blob": {"digest": "x", "base64": "!"}}', 400),
        (GOOD + b"\n\xff\xfe", 400),
        (GOOD + b'\n{"exchange": {"exchangeId": "\\ud800"}}', 400),
        (GOOD + b"\n" * 10_001, 413),
    ],
    ids=range(11),
)
def test_of_a_request_that_cannot_be_read_nothing_is_stored(
    agent: Puppet, operator: httpx.Client, data: bytes, status: int
) -> None:
    answer = agent.post_lines(data)
    assert answer.status_code == status, answer.text
    assert set(answer.json()["error"]) == {"code", "message", "hint", "details", "requestId"}
    assert _kept(operator) == ["ex-1"]


@pytest.mark.parametrize(
    "data, coding, status",
    [
        (gzip.compress(GOOD)[:-5], "gzip", 400),
        (gzip.compress(GOOD) + b"more", "gzip", 400),
        (GOOD, "gzip", 400),
        (GOOD, "br", 415),
        (gzip.compress(bytes(65 << 20)), "gzip", 413),
    ],
    ids=["cut", "more", "none", "other", "bomb"],
)
def test_codings_that_do_not_hold(
    agent: Puppet, operator: httpx.Client, data: bytes, coding: str, status: int
) -> None:
    assert agent.post_lines(data, coding).status_code == status
    assert _kept(operator) == ["ex-1"]


def test_other_content_and_too_much_of_it(tmp_path: Path) -> None:
    with running(tmp_path / "data", limits=Limits(batch=10_000, payload=100)) as house:
        agent = Puppet(house)
        agent.register()
        other = agent.http.post("/api/v1/ingest", content=b"", headers={"Content-Type": "text/csv"})
        assert code_of(other) == (415, "unsupported")
        assert code_of(agent.post_lines(b" " * 10_001)) == (413, "too_large")
        assert code_of(agent.post_lines(gzip.compress(b" " * 40_001), "gzip")) == (413, "too_large")
        big = Payload(body=Body(type="text", text="x" * 101))
        results = agent.ingest(exchange("ex-1", start=big), exchange("ex-2", result=big))
        assert [one["code"] for one in results] == ["exchange_invalid"] * 2


BAD: list[dict[str, Any]] = [
    {"startDigest": "sha256:" + "0" * 64},
    {"startedAt": -1},
    {"startedAt": "now"},
    {"status": "done"},
    {"start": {"headers": [["a\r\nb", "c"]]}},
    {"start": {"body": {"type": "json", "text": "{"}}},
    {"start": {"body": {"type": "text", "clipped": 5}}},
    {"start": {"properties": {"n": msgspec.Raw(b"[" * 300 + b"]" * 300)}}},
    {"trace": {"traceId": "x", "spanId": "y"}},
    {"correlationId": "x" * 5_000},
]


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_an_exchange_that_is_none_is_set_aside_and_the_others_are_stored(
    agent: Puppet, operator: httpx.Client, bad: dict[str, Any]
) -> None:
    text = {**msgspec.to_builtins(exchange("ex-bad")), "startDigest": "", **bad}
    data = b"\n".join([msgspec.json.encode({"exchange": text}), GOOD])
    answer = agent.post_lines(data)
    assert answer.status_code == 200, answer.text
    bad_one, good_one = answer.json()["results"]
    assert (bad_one["exchangeId"], bad_one["status"]) == ("ex-bad", "refused")
    assert bad_one["code"] == "exchange_invalid"
    assert good_one["status"] == "stored"


def test_history_is_filtered_and_goes_on(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    made = [
        exchange(f"ex-a{number}", started_at=1_000 + number, correlation_id=f"order-{number % 2}")
        for number in range(5)
    ]
    trace = Trace(trace_id="a" * 32, span_id="b" * 16)
    below = Trace(trace_id="a" * 32, span_id="c" * 16, parent_span_id="b" * 16)
    made += [exchange("ex-b", trace=trace, status="failed"), exchange("ex-c", trace=below)]
    agent.ingest(*made)

    def ids(**filters: Any) -> list[str]:
        answer = operator.get("/api/v1/exchanges", params=filters)
        return [one["exchangeId"] for one in answer.json()["items"]]

    assert ids(correlationId="order-1") == ["ex-a3", "ex-a1"]
    assert ids(status="failed") == ["ex-b"]
    assert ids(since=1_002, until=1_004) == ["ex-a3", "ex-a2"]
    assert ids(traceId="a" * 32) == ["ex-c", "ex-b"]
    assert ids(text="ex-a", replay="false", replayable="true", limit=2) == ["ex-a4", "ex-a3"]
    assert ids(text="%") == []
    assert operator.get("/api/v1/exchanges", params={"replay": "maybe"}).status_code == 422
    assert operator.get("/api/v1/exchanges", params={"cursor": "?"}).status_code == 422
    seen: list[str] = []
    cursor = ""
    while True:
        page = operator.get("/api/v1/exchanges", params={"limit": 3, "cursor": cursor}).json()
        seen += [one["exchangeId"] for one in page["items"]]
        cursor = page["next"]
        if not cursor:
            break
    assert len(seen) == len(set(seen)) == 8
    graph = operator.get("/api/v1/exchanges/ex-b/correlation").json()
    assert {(one["kind"], one["source"], one["target"]) for one in graph["edges"]} == {
        ("parent", "ex-b", "ex-c")
    }


def test_two_exchanges_side_by_side(agent: Puppet, operator: httpx.Client) -> None:
    agent.ingest(exchange("ex-2", start=start(9)))
    diff = operator.get("/api/v1/exchanges/ex-1/diff/ex-2").json()
    assert diff["verdict"] == "equivalent"
    assert [one["path"] for one in diff["start"]] == ["/body/amount"]
    assert code_of(operator.get("/api/v1/exchanges/ex-1/diff/ex-9")) == (404, "not_found")


def _incompressible(length: int) -> str:
    """Characters of four bytes, which no database can make smaller."""
    chance = random.Random(length)
    return "".join(chr(chance.randrange(0x10000, 0x30000)) for _ in range(length))


@pytest.mark.both_databases
def test_texts_as_long_as_they_may_be_do_not_hold_up_what_is_sent_with_them(
    agent: Puppet, operator: httpx.Client
) -> None:
    """PostgreSQL has no room for a long key of an index, and refused the whole request, which the
    agent then sent again and again."""
    long = _incompressible(4_096)
    largest = exchange(
        "e" * 128,
        route_id=long[:512],
        revision=long,
        correlation_id=long,
        error=ErrorFacts(type=long, message=long),
        status="failed",
    )
    sent = agent.ingest(exchange("ex-2"), largest, exchange("ex-3"))
    assert [one["status"] for one in sent] == ["stored"] * 3
    for params in ({"correlationId": long}, {"route": long[:512]}, {"text": long[-40:]}):
        (found,) = operator.get("/api/v1/exchanges", params=params).json()["items"]
        assert found["exchangeId"] == "e" * 128
    assert (
        operator.get("/api/v1/exchanges", params={"correlationId": long[:-1]}).json()["items"] == []
    )
