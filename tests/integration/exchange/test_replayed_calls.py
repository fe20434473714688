"""What a comparison says of the calls of real replays that ask for something else."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI, Request

from reenact.exchange.comparison.calls import read_calls
from reenact.exchange.comparison.compare import compare
from reenact.exchange.comparison.route_noise import learn
from reenact.policy.noise import NoiseRule
from reenact.store.reader import open_recording
from tests.integration.exchange.apps import only, replay

A, B, C = ["POST", "/a", {"n": 1}], ["POST", "/b", {"n": 2}], ["GET", "/c", None]


@pytest.fixture
def app(agent, upstream):
    """Makes the calls that its order lists; those that are refused it does without."""
    app = FastAPI()
    app.add_middleware(agent.asgi)

    @app.post("/orders")
    async def post_order(request: Request):
        order = await request.json()
        async with httpx.AsyncClient(base_url=upstream.url) as client:
            for method, path, body in order["calls"]:
                try:
                    await client.request(method, path, json=body)
                except BaseException as error:
                    if type(error).__name__ != "DivergenceError" or order.get("strict"):
                        raise
        return "done"

    return app


@pytest.fixture
def compared(app, agent, tmp_path):
    """Records ``calls``, replays with others, and compares."""

    def record(calls, **more):
        async def main():
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
                await client.post("/orders", json={"calls": calls, **more})

        asyncio.run(main())
        return only(agent)

    def run(calls, *others, rules=(), **more):
        """With one replay, or two of them with each other."""
        source = record(calls, strict=bool(more.get("strict")))
        sides = [(source, agent.kept.capture_of(source.exchange_id))]
        for number, other in enumerate(others):
            settings = [f"body.calls={json.dumps(other)}"]
            done = replay(agent, source, tmp_path / str(number), settings, **more)
            sides.append((done.exchange, done.capture))
        (one, mine), (two, yours) = sides[-2:]
        return compare(one, two, _calls(mine, one), _calls(yours, two), rules)

    return run


def _calls(capture: Path, exchange):
    with open_recording(capture) as source:
        return read_calls(source, exchange.processors)


def _told(found):
    """State, method and path, and what the call got."""
    return [
        (one.state, f"{one.operation.split()[0]} /{one.operation.rpartition('/')[2]}", one.answer)
        for one in found.calls
    ]


def _places(found):
    return [
        (change.path, change.before, change.after) for one in found.calls for change in one.changes
    ]


def test_another_request_is_a_changed_call_with_the_recorded_answer(compared):
    found = compared([A, B], [["POST", "/a", {"n": 5}], B])
    assert _told(found) == [("changed", "POST /a", "recorded"), ("same", "POST /b", "")]
    assert _places(found) == [("/request/body/n", 1, 5)]
    assert found.verdict == "diverged"
    assert found.first.endswith(
        "/a: /request/body/n is 5, and was 1; the recorded answer was given"
    )
    assert [one["answer"] for one in found.divergences] == ["recorded"]


def test_of_two_calls_that_are_the_same_the_one_that_was_changed(compared):
    found = compared([A, A, A], [A, ["POST", "/a", {"n": 5}], A])
    assert [one.state for one in found.calls] == ["same", "changed", "same"]


def test_another_address(compared):
    found = compared([A, B], [["POST", "/z", {"n": 1}], B])
    assert _told(found) == [("changed", "POST /a", "recorded"), ("same", "POST /b", "")]
    ((path, before, after),) = _places(found)
    assert path == "/request/url"
    assert (before[-2:], after[-2:]) == ("/a", "/z")


def test_a_call_that_was_never_recorded_is_added_and_refused(compared):
    found = compared([A], [A, B])
    assert _told(found) == [("same", "POST /a", ""), ("added", "POST /b", "refused")]
    assert found.first.endswith("/b was made, and was not before; it was refused")
    assert found.counts.added == 1


def test_another_method_finds_no_recorded_answer(compared):
    found = compared([A, B], [["DELETE", "/a", None], A, B])
    assert _told(found) == [
        ("added", "DELETE /a", "refused"),
        ("same", "POST /a", ""),
        ("same", "POST /b", ""),
    ]


def test_another_method_may_get_the_answer_of_a_later_call(compared):
    found = compared([C, A], [["POST", "/z", {"n": 9}]])
    assert ("removed", "GET /c", "") in _told(found)
    assert ("changed", "POST /a", "recorded") in _told(found)


def test_a_call_that_is_not_made_is_removed(compared):
    found = compared([A, B], [A])
    assert _told(found) == [("same", "POST /a", ""), ("removed", "POST /b", "")]
    assert [one["code"] for one in found.divergences] == ["event_missing"]
    assert found.verdict == "diverged"


def test_calls_in_another_order_are_not_changed(compared):
    found = compared([A, B], [B, A])
    assert "changed" not in [one.state for one in found.calls]
    assert {one.answer for one in found.calls} == {""}
    assert found.verdict == "diverged"


def test_a_strict_replay_refuses_what_is_not_recorded(compared):
    found = compared([A, A], [A, ["POST", "/a", {"n": 5}]], strict=True)
    assert _told(found) == [("same", "POST /a", ""), ("changed", "POST /a", "refused")]
    assert _places(found) == [("/request/body/n", 1, 5)]
    assert found.verdict == "regressed"


def test_items_of_lists_that_come_and_go(compared):
    def listing(*items):
        return ["POST", "/a", {"items": list(items), "k": 1}]

    found = compared([listing(1, 2, 3)], [listing(2, 3, 4)])
    assert [one.state for one in found.calls] == ["changed"]
    assert all(path.startswith("/request/body/items") for path, _, _ in _places(found))


def test_requests_too_large_to_be_told_whole(compared):
    large = {f"field-{n}": "x" * 100 for n in range(300)}
    other = {**large, "field-7": "y"}
    found = compared([["POST", "/a", large]], [["POST", "/a", other]])
    assert _places(found) == [("/request/body/field-7", "x" * 100, "y")]


def test_noise_of_calls_excuses_what_was_asked(compared):
    rule = NoiseRule("/calls/*/request/body/n")
    found = compared([A], [["POST", "/a", {"n": 5}]], rules=[rule])
    assert found.verdict == "equivalent"
    assert [one.noise for one in found.calls] == [True]
    assert found.first.startswith("the start payload: ")


def test_two_replays_differ_in_what_they_asked_and_that_can_be_learnt(compared):
    found = compared([A, B], [["POST", "/a", {"n": 5}], B], [["POST", "/a", {"n": 6}], B])
    assert _places(found) == [("/request/body/n", 5, 6)]
    (rule,) = [rule for rule in learn(found) if rule.path.startswith("/calls/")]
    assert rule.path.endswith("~1a/request/body/n")


def test_two_replays_that_diverge_alike_are_the_same(compared):
    other = [["POST", "/a", {"n": 5}], B]
    found = compared([A, B], other, other)
    assert (found.verdict, found.first) == ("identical", "")
    assert len(found.divergences) == 1
