"""The loop of a run, as a transcript: what it wants, and what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reenact.agents.compaction import Compaction, Decided
from reenact.agents.loop import (
    Abort,
    AskModel,
    Compact,
    Effect,
    Ended,
    Loop,
    Outcome,
    Plan,
    RunTools,
    Wait,
)
from reenact.agents.messages import Message, ModelReply, ModelRequest, ToolRequest, Usage
from reenact.agents.model_failures import Backoff, classify


class Refused(Exception):
    """As clients raise it."""

    def __init__(self, status: int, message: str = "no") -> None:
        super().__init__(message)
        self.status_code = status


class Flag:
    """A signal that is set from the ``after``-th question on."""

    def __init__(self, after: int) -> None:
        self._left = after

    def is_set(self) -> bool:
        self._left -= 1
        return self._left < 0


def first(request: ModelRequest) -> ModelReply:
    return ModelReply(text="first")


def second(request: ModelRequest) -> ModelReply:
    return ModelReply(text="second")


def plan(**given: Any) -> Plan:
    said: dict[str, Any] = {
        "models": (first,),
        "tools": (),
        "instructions": "be brief",
        "params": {},
        "max_turns": 5,
        "backoff": Backoff(retries=1, delay=0.5),
        "compaction": Compaction(keep=1),
        "classify": classify,
        "aborted": Abort(given.pop("signal", None)),
    }
    return Plan(**{**said, **given})


CALL = ToolRequest(id="c1", name="add", arguments={"a": 1})
LONG = Refused(400, "this model's maximum context length is 8 tokens")


def play(
    plan: Plan, answers: Sequence[Any], messages: Sequence[Message] = ()
) -> tuple[Loop, list[Effect], Ended, list[Any]]:
    """Drive a loop with ``answers``; exceptions are raised at what was asked for."""
    told: list[Any] = []
    talk = [*messages, Message(role="user", text="hello")]
    loop = Loop(plan, talk, lambda stream, data: told.append((stream, data["phase"])))
    steps, wanted = loop.steps(), list[Effect]()
    answer: Any = None
    left = list(answers)
    while True:
        try:
            failed = isinstance(answer, Exception)
            effect = steps.throw(answer) if failed else steps.send(answer)
        except StopIteration as stop:
            assert left == []
            return loop, wanted, stop.value, told
        wanted.append(effect)
        answer = left.pop(0)


def names(wanted: list[Effect]) -> list[str]:
    return [type(one).__name__ for one in wanted]


def test_a_model_that_is_done_ends_the_run() -> None:
    reply = ModelReply(text="hi", stop_reason="stop", usage=Usage(input=3, output=1))
    loop, wanted, ended, _ = play(plan(), [reply])
    assert (ended.status, ended.output, ended.stop_reason) == ("ok", "hi", "stop")
    assert (loop.usage, loop.last_usage) == (Usage(input=3, output=1), Usage(input=3, output=1))
    (ask,) = wanted
    assert isinstance(ask, AskModel)
    assert (ask.model, ask.attempt, ask.request.instructions) == (first, 0, "be brief")


def test_tools_are_run_and_told() -> None:
    answers = [
        ModelReply(tool_calls=(CALL, CALL), usage=Usage(input=1)),
        [Outcome("2"), Outcome("TypeError: b", is_error=True)],
        ModelReply(text="two", usage=Usage(input=5)),
    ]
    loop, wanted, ended, _ = play(plan(), answers)
    assert names(wanted) == ["AskModel", "RunTools", "AskModel"]
    assert wanted[1] == RunTools((CALL, CALL))
    assert ended.output == "two"
    assert loop.usage == Usage(input=6)
    assert [(one.role, one.text, one.call_id, one.is_error) for one in loop.messages] == [
        ("user", "hello", "", False),
        ("assistant", "", "", False),
        ("tool", "2", "c1", False),
        ("tool", "TypeError: b", "c1", True),
        ("assistant", "two", "", False),
    ]


def test_what_may_work_later_is_tried_again_later() -> None:
    loop, wanted, ended, _ = play(plan(), [Refused(429), None, ModelReply(text="hi")])
    assert wanted[1] == Wait(0.5)
    assert [one.attempt for one in wanted if isinstance(one, AskModel)] == [0, 1]
    assert [(one.number, one.ended_by) for one in loop.attempts] == [(0, "retriable"), (1, "")]
    assert ended.output == "hi"


def test_then_another_model_is_asked() -> None:
    answers = [Refused(503), None, Refused(503), Refused(401), ModelReply(text="hi")]
    loop, wanted, ended, told = play(plan(models=(first, first, second)), answers)
    asked = [one for one in wanted if isinstance(one, AskModel)]
    assert [(one.model, one.attempt) for one in asked] == [
        (first, 0),
        (first, 1),
        (first, 2),
        (second, 3),
    ]
    assert told == [("lifecycle", "fallback")] * 2
    assert [one.model for one in loop.attempts] == ["first", "first", "first", "second"]
    assert ended.status == "ok"


def test_what_nothing_cures_ends_the_run() -> None:
    for error, kind in ((Refused(500), "retry_limit"), (ValueError("x"), "model_error")):
        given = [error, None, error] if kind == "retry_limit" else [error]
        loop, _, ended, _ = play(plan(), given)
        assert ended.error is not None
        assert (ended.status, ended.error.kind, ended.error.exception) == ("error", kind, error)
        assert loop.attempts[-1].ended_by == kind


def test_a_conversation_that_is_too_long_is_made_shorter() -> None:
    old = [Message(role="user", text="a"), Message(role="assistant", text="b")]
    decided = Decided(1, "they met", Usage(input=9))
    loop, wanted, ended, told = play(plan(), [LONG, decided, ModelReply(text="hi")], old)
    compact = wanted[1]
    assert isinstance(compact, Compact)
    assert (compact.reason, compact.keep, len(compact.messages)) == ("context_overflow", 1, 3)
    assert compact.ask.request.messages[0].text.endswith("user: a\nassistant: b")
    assert [one.text for one in loop.messages] == [
        "Summary of the conversation so far:\nthey met",
        "hello",
        "hi",
    ]
    assert told == [("compaction", "start"), ("compaction", "end")]
    assert (ended.status, loop.usage) == ("ok", Usage(input=9))
    assert [one.attempt for one in wanted if isinstance(one, AskModel)] == [0, 1]


def test_a_summary_is_tried_with_less_and_less() -> None:
    old = [Message(role="user", text="a" * 5000), Message(role="assistant", text="b")]
    answers = [LONG, LONG, Refused(429), None, Decided(1, "s"), ModelReply(text="hi")]
    _, wanted, ended, _ = play(plan(), answers, old)
    asked = [one.ask.request.messages[0].text for one in wanted if isinstance(one, Compact)]
    assert [len(text) > 4000 for text in asked] == [True, False, False]
    assert ended.status == "ok"


def test_a_summary_that_cannot_be_had_ends_the_run() -> None:
    old = [Message(role="user", text="a"), Message(role="assistant", text="b")]
    _, _, ended, told = play(plan(), [LONG, Refused(400)], old)
    assert ended.error is not None
    assert ended.error.kind == "compaction_failure"
    assert told == [("compaction", "start"), ("compaction", "end")]


def test_where_nothing_can_be_left_out_the_run_ends() -> None:
    for given in ({}, {"compaction": None}):
        _, _, ended, _ = play(plan(**given), [LONG])
        assert ended.error is not None
        assert ended.error.kind == "context_overflow"


def test_a_limit_of_its_own_makes_it_shorter_before_the_next_call() -> None:
    answers = [
        ModelReply(tool_calls=(CALL,), usage=Usage(input=100)),
        [Outcome("2")],
        Decided(0, "s"),
        ModelReply(text="hi", usage=Usage(input=10)),
    ]
    _, wanted, ended, _ = play(plan(compaction=Compaction(keep=0, limit=50)), answers)
    assert names(wanted) == ["AskModel", "RunTools", "Compact", "AskModel"]
    assert ended.status == "ok"


def test_it_stops_when_it_is_told_to() -> None:
    for after, expected in ((0, []), (1, ["AskModel"]), (2, ["AskModel", "RunTools"])):
        given = [ModelReply(text="wait", tool_calls=(CALL,)), [Outcome("2")]][: len(expected)]
        _, wanted, ended, _ = play(plan(signal=Flag(after)), given)
        assert names(wanted) == expected
        assert (ended.status, ended.stop_reason) == ("aborted", "aborted")


def test_too_many_turns_are_an_error() -> None:
    turn = [ModelReply(tool_calls=(CALL,)), [Outcome("2")]]
    _, _, ended, _ = play(plan(max_turns=2), turn * 2)
    assert ended.error is not None
    assert (ended.error.kind, ended.error.message) == (
        "max_turns",
        "the model wants more than 2 turns",
    )
