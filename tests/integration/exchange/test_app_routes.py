"""Routes that an app calls itself: nesting, handlers, sampling, limits, and what cannot be recorded."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

import reenact
from reenact.errors import UsageError
from reenact.exchange import Agent, Message, correlation, is_replay, loop, split, step
from reenact.exchange.client.interface import ReplayCancelled
from tests.integration.exchange.apps import DECLARED, check, only, replay


def fetch(upstream, path):
    return httpx.get(f"{upstream.url}/{path}", headers=correlation()).json()["n"]


@pytest.fixture
def orders(agent, upstream):
    @step("enrich")
    def enrich(message):
        message.body["price"] = fetch(upstream, message.body["sku"])
        message.headers["x-enriched"] = "yes"

    @agent.route("orders")
    def handle(message):
        enrich(message)

    return handle


def test_a_route_gives_the_body_of_its_message(orders, agent):
    assert orders({"sku": "a"}, headers={"X-From": "queue"}, properties={"attempt": 1}) == {
        "sku": "a",
        "price": 1,
    }
    found = only(agent)
    assert (found.route_id, found.kind) == ("orders", "route")
    assert json.loads(found.start.body.text) == {"sku": "a"}
    assert found.start.headers == (("X-From", "queue"),)
    assert found.start.properties == {"attempt": 1}
    assert [change.path for change in found.processors[0].changes] == [
        "/body/price",
        "/headers/x-enriched",
    ]
    assert found.result is not None
    assert json.loads(found.result.body.text) == {"sku": "a", "price": 1}


def test_an_edited_replay_of_a_route(orders, agent, upstream, tmp_path):
    orders({"sku": "a"})
    upstream.asked.clear()
    found = replay(agent, only(agent), tmp_path / "again", ["body.note=hi"]).exchange
    assert upstream.asked == []
    assert found.result is not None
    assert json.loads(found.result.body.text) == {"sku": "a", "note": "hi", "price": 1}


@pytest.mark.parametrize("body", ["a text", b"\x00\xff", None, [1], 5, {"a": None}])
def test_a_body_comes_back_as_what_it_was(agent, body, tmp_path):
    seen = []

    @agent.route("keep")
    def keep(message):
        seen.append(message.body)
        return "done"

    keep(body)
    replay(agent, only(agent), tmp_path / "again")
    assert seen == [body, body]
    assert type(seen[0]) is type(seen[1])


def test_an_asynchronous_route_in_its_own_loop(agent, tmp_path):
    loops = []

    @agent.route("later")
    async def later(message):
        loops.append(asyncio.get_running_loop())
        return await asyncio.to_thread(lambda: is_replay())

    async def main():
        assert await later() is False
        source = only(agent)
        return await asyncio.to_thread(replay, agent, source, tmp_path / "again")

    found = asyncio.run(main()).exchange
    assert found.result is not None
    assert found.result.body.text == "true"
    assert loops[0] is loops[1]
    again = replay(agent, only(agent), tmp_path / "once more").exchange
    assert again.status == "completed"
    assert loops[2] is not loops[0]


def test_a_handler_of_the_route(agent):
    def rescue(error, message):
        return {"error": str(error), "of": message.body}

    @agent.route("fragile", on_error=rescue)
    def fragile(message):
        raise ValueError("no")

    assert fragile(5) == {"error": "no", "of": 5}
    found = only(agent)
    assert found.status == "completed"
    assert [(one.kind, one.status) for one in found.processors] == [("handler", "completed")]


def test_a_route_that_fails(agent, tmp_path):
    @agent.route("fragile")
    def fragile(message):
        raise KeyError(message.body)

    with pytest.raises(KeyError):
        fragile("x")
    source = only(agent)
    assert source.error is not None
    assert source.error.type == "KeyError"
    assert replay(agent, source, tmp_path / "again").exchange.error == source.error


def test_routes_that_call_routes(agent, upstream, tmp_path):
    @agent.route("inner")
    def inner(message):
        return fetch(upstream, "inner")

    @agent.route("outer")
    def outer(message):
        return inner(1) + fetch(upstream, "outer")

    assert outer(0) == 3
    by_route = {one.route_id: one for one in agent.kept.exchanges()}
    above, below = by_route["outer"], by_route["inner"]
    assert above.trace is not None
    assert below.trace is not None
    assert below.trace.trace_id == above.trace.trace_id
    assert below.trace.parent_span_id == above.trace.span_id
    assert above.exchange_id in below.not_replayable
    assert [one.processor_id for one in above.processors] == ["inner"]
    upstream.asked.clear()
    found = replay(agent, above, tmp_path / "again").exchange
    assert upstream.asked == []
    assert found.result is not None
    assert found.result.body.text == "3"
    assert len(agent.kept.exchanges()) == 2


def test_threads_with_routes_of_their_own(orders, agent):
    def order(n):
        return orders({"sku": f"s{n}"})["sku"]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(order, range(24))) == [f"s{n}" for n in range(24)]
    found = agent.kept.exchanges()
    assert len(found) == 24
    for one in found:
        assert one.result is not None
        assert json.loads(one.start.body.text)["sku"] == json.loads(one.result.body.text)["sku"]
        assert [change.path for change in one.processors[0].changes][:1] == ["/body/price"]


def test_a_split_in_threads_is_recorded_and_replayed(agent, upstream, tmp_path):
    @agent.route("many")
    def many(message):
        return split("skus", message.body, lambda sku: fetch(upstream, sku), at_once=3)

    recorded = many(["a", "b", "c"])
    upstream.asked.clear()
    found = replay(agent, only(agent), tmp_path / "again").exchange
    assert upstream.asked == []
    assert found.result is not None
    assert json.loads(found.result.body.text) == recorded
    assert {one.iteration for one in found.processors[1:]} == {0, 1, 2}
    assert len({one.lane for one in found.processors[1:]}) == 3


def test_unsampled_exchanges_run_and_leave_nothing(make_agent):
    agent = make_agent(sample=lambda route_id: 0.0 if route_id == "quiet" else 1.0)

    @agent.route("quiet", on_error=lambda error, message: message.body)
    def quiet(message):
        assert correlation() == {}
        raise ValueError(message.body)

    @agent.route("loud")
    def loud(message):
        return 1

    assert quiet(7) == 7
    loud()
    found = only(agent)
    assert (found.route_id, found.not_replayable) == ("loud", "")
    assert agent.kept.capture_of(found.exchange_id) is not None


def test_an_exchange_inside_a_sampled_one_is_sampled(make_agent):
    agent = make_agent(sample=lambda route_id: 1.0 if route_id == "outer" else 0.0)

    @agent.route("inner")
    def inner(message):
        return 1

    @agent.route("outer")
    def outer(message):
        return inner()

    inner()
    outer()
    assert sorted(one.route_id for one in agent.kept.exchanges()) == ["inner", "outer"]


def test_a_trace_is_sampled_as_a_whole(make_agent):
    agent = make_agent(sample=0.5)

    @agent.route("r")
    def route(message):
        return 1

    for last in ("00000000000001", "ffffffffffffff"):
        route(headers={"traceparent": f"00-{'a' * 18}{last}-{'b' * 16}-01"})
    trace = only(agent).trace
    assert trace is not None
    assert trace.trace_id.endswith("00000000000001")


def test_calls_that_take_too_much_room(make_agent, upstream):
    agent = make_agent(max_recording=10)

    @agent.route("r")
    def route(message):
        return fetch(upstream, "a")

    route()
    found = only(agent)
    assert "no more than 10 are kept" in found.not_replayable
    assert agent.kept.capture_of(found.exchange_id) is None


def test_a_body_that_is_too_large(make_agent):
    agent = make_agent(max_body=10)

    @agent.route("r")
    def route(message):
        return "é" * 20

    assert route("x" * 11) == "é" * 20
    found = only(agent)
    assert found.start.body.clipped == 11
    assert "11 bytes" in found.not_replayable
    assert found.result is not None
    assert found.result.body.clipped == 40


def test_what_json_cannot_hold_is_not_replayed(agent):
    @agent.route("r")
    def route(message):
        return message.body

    given = object()
    assert route({"a": given}) == {"a": given}
    assert "JSON cannot hold" in only(agent).not_replayable


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "data").write_text("in the way", encoding="utf-8")
    said: list[str] = []
    with Agent(app="a", environment="t", data=tmp_path / "data", warn=said.append) as agent:
        route = agent.route("r")(lambda message: 5)
        assert [route(), route()] == [5, 5]
    assert len(said) == 1
    assert "exchanges cannot be stored" in said[0]


def test_calls_that_cannot_be_recorded_are_made_all_the_same(tmp_path, upstream):
    (tmp_path / "captures").write_text("in the way", encoding="utf-8")
    said: list[str] = []
    with Agent(app="a", environment="t", data=tmp_path, warn=said.append) as agent:

        @agent.route("r")
        def route(message):
            return fetch(upstream, "a")

        assert route() == 1
        assert "could not be recorded" in only(agent).not_replayable
    assert len(said) == 1


def test_a_session_that_is_open_already_goes_on(orders, agent, upstream, tmp_path):
    with reenact.session(capture=tmp_path / "mine", mode="record", seal=False) as session:
        orders({"sku": "a"})
    assert session.report().live == 1
    assert "open already" in only(agent).not_replayable
    upstream.asked.clear()
    with reenact.session(capture=tmp_path / "mine", mode="replay", strict=True):
        assert orders({"sku": "a"})["price"] == 1
    assert upstream.asked == []


def test_a_replay_of_a_route_is_cancelled_at_its_next_step(agent, tmp_path):
    began, cancelled = threading.Event(), threading.Event()
    seen = []

    @step("first")
    def first():
        if is_replay():
            began.set()
            cancelled.wait(30)

    @step("second")
    def second():
        seen.append(is_replay())

    @agent.route("r")
    def route(message):
        first()
        second()

    route()
    watching = threading.Thread(target=lambda: cancelled.set() if began.wait(30) else None)
    watching.start()
    with pytest.raises(ReplayCancelled):
        replay(agent, only(agent), tmp_path / "again", cancelled=cancelled)
    watching.join()
    assert seen == [False]


def test_refusals_with_their_codes(orders, agent, make_agent):
    orders(
        {"sku": "a"}, headers={"Authorization": "Bearer " + "abc" * 9, "Cookie": "sid=" + "q9" * 9}
    )
    source = only(agent)
    refused = {
        "route_unknown": check(agent, source, route_id="other"),
        "revision_mismatch": check(agent, source, revision="sha256:0"),
        "depth": check(agent, source, depth=6),
        "not_replayable": check(agent, source),
    }
    for code, refusal in refused.items():
        assert refusal is not None
        assert refusal.code == code
    missing = refused["not_replayable"]
    assert missing is not None
    assert "/headers/authorization" in missing.message
    assert "/headers/cookie" in missing.message
    assert (
        check(
            agent,
            source,
            revision=source.revision,
            settings=["headers.cookie=", "headers.authorization=x"],
        )
        is None
    )


def test_credentials_are_put_in_and_stored_nowhere(make_agent, upstream, tmp_path):
    given = "-".join(["given", "by", "the", "app"])
    agent = make_agent(
        credentials={"/headers/authorization": given, "/body/password": "1234567"}.get
    )
    seen = []

    @agent.route("r")
    def route(message):
        seen.append((message.headers["authorization"], message.body["password"]))
        httpx.post(upstream.url, json={"auth": message.headers["authorization"]})
        return {"echo": message.headers["authorization"]}

    first = "Bearer " + "z8" * 12
    route({"password": "7654321"}, headers={"Authorization": first})
    done = replay(agent, only(agent), tmp_path / "again", boundaries="live")
    assert seen == [(first, "7654321"), (given, "1234567")]
    assert done.exchange.redacted == ("/headers/authorization", "/body/password")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for path in files:
        content = path.read_bytes()
        assert given.encode() not in content, path
        assert b"z8z8z8" not in content, path
    assert given not in str(done.exchange)


def test_credentials_that_fail_are_missing(tmp_path, upstream):
    said: list[str] = []

    def credentials(path):
        raise RuntimeError("vault is closed")

    how = {
        "app": "a",
        "environment": "t",
        "data": tmp_path,
        "warn": said.append,
        "drivers": DECLARED,
    }
    with Agent(credentials=credentials, **how) as agent:
        agent.route("r")(lambda message: 1)(headers={"Authorization": "Bearer " + "abc" * 9})
        refusal = check(agent, only(agent))
    assert refusal is not None
    assert "/headers/authorization" in refusal.message
    assert said == ["credentials('/headers/authorization') raised RuntimeError"]


def test_ids_are_given_once(agent):
    agent.route("r")(lambda message: 1)
    with pytest.raises(UsageError, match="there already"):
        agent.route("r")(lambda message: 2)


def test_a_generator_is_no_route(agent):
    def numbers(message):
        yield 1

    with pytest.raises(UsageError, match="cannot be a route"):
        agent.route("r")(numbers)


def test_a_server_needs_a_key():
    with pytest.raises(UsageError, match="a server and a key"):
        Agent("http://127.0.0.1:1", app="a", environment="t")


def test_a_message_that_was_changed_is_no_longer_what_began(agent, tmp_path):
    @agent.route("r")
    def route(message: Message):
        message.body["n"] += 1
        for _ in loop("twice", range(2)):
            message.body["n"] *= 2

    assert route({"n": 1}) == {"n": 8}
    assert json.loads(only(agent).start.body.text) == {"n": 1}
    assert replay(agent, only(agent), tmp_path / "again").exchange.result == only(agent).result
