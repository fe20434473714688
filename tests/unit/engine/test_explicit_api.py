"""Calls made by hand: the methods of the source document, and what they refuse."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from reenact import BudgetExceeded, DivergenceError, Policy, Session, UsageError, ValueRefused
from reenact.policy.model import Budgets
from reenact.store.sinks.memory import memory_source
from tests.unit.engine.stage import Stage

ASK = {"provider": "p", "model": "m", "inputHash": "h"}
ANSWER = {"provider": "p", "model": "m", "stopReason": "end", "usage": {"input": 3}}
CALL = {"name": "f", "args": {"a": 1}, "callId": "c1"}
RESULT = {"callId": "c1", "ok": True, "result": 5}


# call


def test_a_call_is_a_tool_call_unless_it_says_otherwise() -> None:
    stage = Stage()

    def body(session: Session) -> Any:
        return [
            session.call("add", {"a": 1}, lambda: 2),
            session.call("get", {"a": 1}, lambda: 3, capability="net.fetch"),
            session.call("ask", {"a": 1}, lambda: 4, capability="tool.call", source="weather"),
        ]

    assert stage.both(body) == [2, 3, 4]
    opening, closing, fetched, asked = stage.data()
    assert (opening["name"], opening["args"], opening["inner"]) == ("add", {"a": 1}, "0.1")
    assert closing == {"callId": opening["callId"], "name": "add", "ok": True, "result": 2}
    assert (fetched["source"], fetched["op"], fetched["request"]) == ("network", "get", {"a": 1})
    assert asked["source"] == "weather"


def test_a_recorded_call_needs_nothing_to_call() -> None:
    stage = Stage()
    stage.record(lambda session: session.call("add", {"a": 1}, lambda: 2))
    assert stage.replay(lambda session: session.call("add", {"a": 1})) == 2
    with stage.recording() as session, pytest.raises(UsageError, match="nothing to call for add"):
        session.call("add", {"a": 1})


def test_request_and_result_are_passed_by_value() -> None:
    stage = Stage()
    request, result = {"list": [1]}, {"tuple": (1, 2)}
    with stage.recording() as session:
        given = session.call("f", request, lambda: result)
        request["list"].append(2)
        given["tuple"].append(3)
    assert given == {"tuple": [1, 2, 3]}
    assert result == {"tuple": (1, 2)}
    opening, closing = stage.data()
    assert (opening["args"], closing["result"]) == ({"list": [1]}, {"tuple": [1, 2]})


VALUES: list[Any] = [
    None,
    True,
    0,
    -(2**70),
    1.5,
    "text ü\u2028",
    b"\x00\xff",
    [],
    {"$bytes": "not bytes", "$blob": {"size": 1}, "$delta": [1]},
    {"": {"a.b": [{"deep": [None]}]}},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_every_json_value_and_bytes_come_back_as_they_were(value: Any) -> None:
    stage = Stage()

    def body(session: Session) -> Any:
        return [
            session.call("f", {"x": value}, lambda: value),
            session.call("f", {"x": value}, lambda: value, capability="net.fetch"),
            list(session.stream("f", {"x": value}, lambda: iter([value]))),
        ]

    assert stage.both(body) == [value, value, [value]]


NOT_JSON: list[tuple[Any, str]] = [
    (object(), "$.x"),
    ({"a": [1, {2}]}, "$.x.a[1]"),
    ({1: 2}, "$.x"),
    (float("nan"), "$.x"),
    ("\ud800", "$.x"),
    (1 + 2j, "$.x"),
]


@pytest.mark.parametrize("value,path", NOT_JSON, ids=range(len(NOT_JSON)))
def test_what_json_cannot_hold_is_refused_with_its_place(value: Any, path: str) -> None:
    """As a request before anything happens; as a result the call has failed, and replays so."""
    stage = Stage()

    def body(session: Session) -> Any:
        with pytest.raises(ValueRefused) as request:
            session.call("f", {"x": value}, lambda: pytest.fail("it is not made"))
        with pytest.raises(ValueRefused) as result:
            session.call("f", {}, lambda: {"x": value})
        assert request.value.path.startswith(path)
        return request.value.path, str(result.value), session.call("then", {}, lambda: 1)

    assert stage.both(body)[2] == 1


# record_event


def _hand_made(session: Session) -> None:
    session.record_event("run_start", {"input": "question", "argv": ["prog"], "sessionKey": "k"})
    session.record_event("llm_request", {**ASK, "attempt": 0, "call": 1})
    session.record_event("llm_response", {**ANSWER, "response": {"text": "t"}})
    session.record_event("tool_call", CALL)
    session.record_event("tool_call", {**CALL, "callId": "c2"})
    session.record_event("tool_result", {**RESULT, "callId": "c2", "result": 6})
    session.record_event("tool_result", RESULT)
    session.record_event("state_mutation", {"type": "file_write", "details": {"path": "a"}})
    drawn = {"source": "clock", "key": "now", "valueHash": "h", "value": 3, "zone": "utc"}
    session.record_event("nondeterministic", drawn)
    fetched = {"source": "network", "key": "k", "valueHash": "h", "op": "GET"}
    answered = {**fetched, "request": {"url": "u"}, "response": {"status": 200}}
    session.record_event("nondeterministic", answered)
    session.record_event("run_end", {"status": "ok", "output": "answer"})


def test_every_event_can_be_recorded_by_hand_and_is_compared_in_a_replay() -> None:
    stage = Stage()
    stage.both(_hand_made)
    data = stage.data()
    assert len(data) == 11
    assert data[0] == {"input": "question", "argv": ["prog"], "sessionKey": "k"}
    assert data[1]["attempt"] == 0
    assert data[2] == {**ANSWER, "response": {"text": "t"}}
    assert data[3]["callId"] == "c1"
    assert data[5] == {**RESULT, "callId": "c2", "name": "f", "result": 6}
    assert data[7] == {"type": "file_write", "details": {"path": "a"}}
    assert (data[8]["value"], data[8]["valueHash"], data[8]["zone"]) == (3, "h", "utc")
    assert data[9]["response"] == {"status": 200}


def test_failed_calls_are_given_back_as_they_were_recorded() -> None:
    failure = {"class": "builtins.ValueError", "message": "no"}
    answered = {**ANSWER, "error": failure}
    failed = {"callId": "c1", "ok": False, "error": failure}

    def by_hand(session: Session) -> None:
        session.record_event("llm_request", ASK)
        session.record_event("llm_response", answered)
        session.record_event("tool_call", CALL)
        session.record_event("tool_result", failed)

    stage = Stage()
    stage.record(by_hand)
    with stage.replaying() as session:
        assert session.replay_llm_request(ASK) == answered
        assert session.replay_tool_call(CALL) == {**failed, "name": "f"}


CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "run_start": ("run_start", {"input": "another"}),
    "llm_request": ("llm_request", {**ASK, "inputHash": "other"}),
    "tool_call": ("tool_call", {**CALL, "args": {"a": 2}}),
    "state_mutation": ("state_mutation", {"type": "file_write", "details": {"path": "b"}}),
    "clock": ("nondeterministic", {"source": "clock", "key": "later", "valueHash": "h"}),
}
FIRST: dict[str, dict[str, Any]] = {
    "run_start": {"input": "question"},
    "llm_request": ASK,
    "tool_call": CALL,
    "state_mutation": {"type": "file_write", "details": {"path": "a"}},
    "clock": {"source": "clock", "key": "now", "valueHash": "h"},
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_event_by_hand_is_a_divergence(name: str) -> None:
    stage = Stage()
    kind, changed = CHANGES[name]
    stage.record(lambda session: session.record_event(kind, FIRST[name]))
    with pytest.raises(DivergenceError) as caught:
        stage.replay(lambda session: session.record_event(kind, changed))
    assert caught.value.to_json()["code"] == "event_payload_mismatch"
    assert stage.replay(lambda session: session.record_event(kind, FIRST[name])) is None


def test_a_result_by_hand_is_compared_too() -> None:
    stage = Stage()

    def body(result: int) -> Callable[[Session], None]:
        def record(session: Session) -> None:
            session.record_event("tool_call", CALL)
            session.record_event("tool_result", {**RESULT, "result": result})

        return record

    stage.record(body(1))
    with pytest.raises(DivergenceError) as caught:
        stage.replay(body(2))
    assert caught.value.to_json()["jsonPath"] == "$['result']"
    with stage.replaying(strict=False) as session:
        body(2)(session)
    assert [one.code for one in session.divergences()] == ["event_payload_mismatch"]


def test_the_index_of_an_attempt_does_not_count() -> None:
    stage = Stage()

    def body(attempt: int) -> Callable[[Session], None]:
        def record(session: Session) -> None:
            session.record_event("llm_request", {**ASK, "attempt": attempt, "call": 7})
            session.record_event("llm_response", ANSWER)

        return record

    stage.record(body(0))
    with stage.replaying(strict=True) as session:
        body(1)(session)
    assert session.divergences() == []


def test_an_opening_without_its_closing_is_unfinished() -> None:
    stage = Stage()
    stage.record(lambda session: session.record_event("tool_call", CALL))
    assert stage.data()[1] == {"callId": "c1", "name": "f", "ok": False, "unfinished": True}
    stage.replay(lambda session: session.record_event("tool_call", CALL))


WRONG: list[tuple[str, Any, type[Exception], str]] = [
    ("llm_requst", {}, UsageError, "did you mean llm_request"),
    ("llm_request", {"provider": "p"}, ValueRefused, ""),
    ("tool_result", RESULT, UsageError, "record the tool_call first"),
    ("llm_response", ANSWER, UsageError, "record the llm_request first"),
    ("state_mutation", {"type": "x", "details": {"y": {1}}}, ValueRefused, ""),
]


@pytest.mark.parametrize("kind,data,error,hint", WRONG)
def test_a_wrong_event_is_refused_and_nothing_is_written(
    kind: str, data: Any, error: type[Exception], hint: str
) -> None:
    stage = Stage()
    with stage.recording() as session, pytest.raises(error) as caught:
        session.record_event(kind, data)
    assert hint in getattr(caught.value, "hint", "")
    assert stage.data() == []


def test_a_closing_by_hand_has_a_budget() -> None:
    stage = Stage(Policy(id="p", budgets=Budgets(response_bytes=10)))

    def body(session: Session) -> None:
        session.record_event("tool_call", CALL)
        session.record_event("tool_result", {**RESULT, "result": "x" * 20})

    with pytest.raises(BudgetExceeded):
        stage.record(body)
    assert stage.data()[1]["error"]["kind"] == "budget"


# What a program draws


def test_recorded_draws_come_back_in_their_order() -> None:
    stage = Stage()

    def record(session: Session) -> None:
        session.record_nondeterministic("clock", "now", 1.5)
        session.record_nondeterministic("rng", "dice", [1, 2])
        session.record_nondeterministic("env", "HOME", None)

    def replay(session: Session) -> Any:
        return [
            session.next_nondeterministic("clock", "now"),
            session.replay_nondeterministic({"source": "rng", "key": "dice"})["value"],
            session.next_nondeterministic("env", "HOME"),
        ]

    stage.record(record)
    assert stage.replay(replay) == [1.5, [1, 2], None]
    stage.replay(record)  # said by hand: the places and the keys are compared


def test_the_hash_of_a_value_is_that_of_its_canonical_json() -> None:
    stage = Stage()
    stage.record(lambda session: session.record_nondeterministic("rng", "dice", [1, 2]))
    assert stage.data()[0]["valueHash"] == f"sha256:{hashlib.sha256(b'[1,2]').hexdigest()}"


@pytest.mark.parametrize(
    "source,key,code",
    [
        ("clock", "later", "event_payload_mismatch"),
        ("rng", "now", "event_type_mismatch"),
    ],
)
def test_another_draw_is_a_divergence(source: str, key: str, code: str) -> None:
    stage = Stage()
    stage.record(lambda session: session.record_nondeterministic("clock", "now", 1))
    with pytest.raises(DivergenceError) as caught:
        stage.replay(lambda session: session.next_nondeterministic(source, key))
    assert caught.value.to_json()["code"] == code


def test_more_draws_than_recorded_are_an_underflow() -> None:
    stage = Stage()
    stage.record(lambda session: session.record_nondeterministic("clock", "now", 1))

    def twice(session: Session) -> None:
        session.next_nondeterministic("clock", "now")
        session.next_nondeterministic("clock", "now")

    with pytest.raises(DivergenceError) as caught:
        stage.replay(twice)
    assert caught.value.to_json()["code"] == "nondeterministic_underflow"


def test_a_lenient_session_makes_draws_up_the_same_way_every_time() -> None:
    stage = Stage()
    stage.record(lambda session: session.record_nondeterministic("clock", "now", 1.5))

    def draw(session: Session) -> Any:
        return [
            session.next_nondeterministic("clock", "now"),
            session.next_nondeterministic("clock", "now"),
            session.next_nondeterministic("rng", "dice"),
        ]

    first = stage.replay(draw, strict=False)
    assert first[:2] == [1.5, 1.500001]
    assert 0 <= first[2] < 1
    assert stage.replay(draw, strict=False) == first


# The replay engine


def _source() -> Any:
    answer = {**ANSWER, "response": {"text": "t"}}
    return memory_source(
        ("llm_request", {**ASK, "attempt": 0}),
        ("llm_response", answer),
        ("tool_call", CALL),
        ("tool_call", {**CALL, "args": {"a": 2}, "callId": "c2"}),
        ("tool_result", {**RESULT, "callId": "c2", "result": 6}),
        ("tool_result", RESULT),
        ("nondeterministic", {"source": "clock", "key": "now", "valueHash": "h", "value": 3}),
    )


def test_recorded_answers_are_given_as_they_were_recorded() -> None:
    with Stage().replaying(_source()) as session:
        assert session.replay_llm_request(ASK)["response"] == {"text": "t"}
        assert session.replay_tool_call({"name": "f", "args": {"a": 1}}) == RESULT
        # The id of a call is opaque; and the two were open at the same time.
        second = {"name": "f", "args": {"a": 2}, "callId": "other"}
        assert session.replay_tool_call(second)["result"] == 6
        drawn = session.replay_nondeterministic({"source": "clock", "key": "now"})
        assert drawn["value"] == 3


def test_the_coroutines_give_the_same() -> None:
    async def replay(session: Session) -> Any:
        return [
            await session.aio.replay_llm_request(ASK),
            await session.aio.next_nondeterministic("clock", "now"),
        ]

    source = memory_source(
        ("llm_request", ASK),
        ("llm_response", ANSWER),
        ("nondeterministic", {"source": "clock", "key": "now", "valueHash": "h", "value": 3}),
    )
    with Stage().replaying(source) as session:
        assert asyncio.run(replay(session)) == [ANSWER, 3]


def test_everything_there_is_has_a_coroutine() -> None:
    stage = Stage()

    async def record(session: Session) -> Any:
        aio = session.aio
        await aio.record_event("run_start", {"input": 1})
        await aio.record_event("tool_call", CALL)
        await aio.record_event("tool_result", RESULT)
        await aio.record_nondeterministic("clock", "now", 3)

        async def live() -> int:
            return 4

        async def pieces() -> Any:
            yield 5

        called = await aio.call("g", {}, live, capability="net.fetch")
        return called, [piece async for piece in aio.stream("s", {}, pieces)]

    assert stage.both(lambda session: asyncio.run(record(session))) == (4, [5])

    async def replay(session: Session) -> Any:
        tool = await session.aio.replay_tool_call({"name": "f", "args": {"a": 1}})
        drawn = await session.aio.replay_nondeterministic({"source": "clock", "key": "now"})
        return tool["result"], drawn["value"]

    with pytest.raises(DivergenceError), stage.replaying() as session:  # the rest is left over
        assert asyncio.run(replay(session)) == (5, 3)


ASKING: dict[str, Callable[[Session], Any]] = {
    "replay_llm_request": lambda session: session.replay_llm_request(ASK),
    "replay_tool_call": lambda session: session.replay_tool_call(CALL),
    "replay_nondeterministic": lambda session: session.replay_nondeterministic(
        {"source": "clock", "key": "now"}
    ),
    "next_nondeterministic": lambda session: session.next_nondeterministic("clock", "now"),
}


@pytest.mark.parametrize("name", ASKING)
def test_only_a_session_that_reads_can_be_asked(name: str) -> None:
    with Stage().recording() as session, pytest.raises(UsageError, match=f"{name} needs a record"):
        ASKING[name](session)


@pytest.mark.parametrize(
    "ask",
    [
        lambda session: session.replay_tool_call({"name": "f"}),
        lambda session: session.replay_tool_call([]),
        lambda session: session.replay_llm_request({"model": "m"}),
        lambda session: session.replay_nondeterministic({"source": "clock"}),
    ],
)
def test_a_request_that_lacks_a_field_is_refused(ask: Callable[[Session], Any]) -> None:
    with Stage().replaying(memory_source()) as session, pytest.raises(UsageError, match="request"):
        ask(session)


def test_a_request_that_is_not_recorded_is_a_divergence() -> None:
    with pytest.raises(DivergenceError) as caught, Stage().replaying(_source()) as session:
        session.replay_llm_request({**ASK, "inputHash": "other"})
    assert caught.value.to_json()["code"] == "event_payload_mismatch"
    with (
        pytest.raises(DivergenceError) as unexpected,
        Stage().replaying(memory_source()) as session,
    ):
        session.replay_tool_call(CALL)
    assert unexpected.value.to_json()["code"] == "event_unexpected"
