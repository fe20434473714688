"""``reenact.llm``: functions that ask a model, recorded as model calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from reenact import DivergenceError, UsageError
from reenact.engine.session.context import attempt
from reenact.format.event_fields import read
from reenact.testing import memory_session
from reenact.tools.llm import llm, read_answer
from tests.unit.tools.stage import WORLD, events, record, replay

TOOLS = [{"name": "search", "parameters": {"type": "object"}}]


def _answer(model: str) -> dict[str, Any]:
    return {
        "id": f"msg_{WORLD.next()}",
        "model": model,
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 5},
    }


@llm(provider="house")
def function(messages: list[Any], model: str = "small", tools: Any = None) -> dict[str, Any]:
    return _answer(model)


@llm(provider="house")
async def coroutine(messages: list[Any], model: str = "small", tools: Any = None) -> Any:
    await asyncio.sleep(0)
    return _answer(model)


@llm(provider="house")
def generator(messages: list[Any], model: str = "small", tools: Any = None) -> Iterator[Any]:
    yield {"delta": f"{WORLD.next()}"}
    yield {"delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": 3, "output_tokens": 5}}


@llm(provider="house")
async def async_generator(
    messages: list[Any], model: str = "small", tools: Any = None
) -> AsyncIterator[Any]:
    yield {"delta": f"{WORLD.next()}"}
    await asyncio.sleep(0)
    yield {"delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": 3, "output_tokens": 5}}


async def _collected(**given: Any) -> list[Any]:
    return [item async for item in async_generator(**given)]


KINDS: dict[str, Callable[..., Any]] = {
    "function": function,
    "coroutine": lambda **given: asyncio.run(coroutine(**given)),
    "generator": lambda **given: list(generator(**given)),
    "async_generator": lambda **given: asyncio.run(_collected(**given)),
}
kinds = pytest.mark.parametrize("kind", sorted(KINDS))


@kinds
def test_a_model_call_of_any_kind_is_recorded_with_its_meaning(kind: str) -> None:
    def body() -> Any:
        ask = KINDS[kind]
        return [ask(messages=["hi"]), ask(messages=["hi"], model="large", tools=TOOLS)]

    made, source = record(body)
    first, second = events(source, "llm_request")
    assert (first["provider"], first["model"], first["call"]) == ("house", "small", 0)
    assert (second["model"], second["call"], second["attempt"]) == ("large", 1, 0)
    assert first["inputHash"] != second["inputHash"]
    assert "toolSchemaHash" not in first
    assert second["toolSchemaHash"].startswith("sha256:")
    answers = events(source, "llm_response")
    assert [one["stopReason"] for one in answers] == ["end_turn"] * 2
    assert answers[0]["usage"] == {"input_tokens": 3, "output_tokens": 5}
    assert [(one["model"], one["call"]) for one in answers] == [("small", 0), ("large", 1)]
    assert replay(source, body) == made


@kinds
def test_every_event_of_it_is_whole(kind: str) -> None:
    _, source = record(lambda: KINDS[kind](messages=["hi"]))
    typed = [read(event) for event in source if event.type.startswith("llm")]
    assert len(typed) == 2
    assert None not in typed


@kinds
def test_other_words_are_a_divergence_at_their_place(kind: str) -> None:
    _, source = record(lambda: KINDS[kind](messages=["hi"]))
    with pytest.raises(DivergenceError) as caught, memory_session(source):
        KINDS[kind](messages=["ho"])
    assert caught.value.to_json()["jsonPath"] == "$['request']['messages'][0]"


@kinds
def test_without_a_session_it_is_the_function(kind: str) -> None:
    before = WORLD.number
    KINDS[kind](messages=["hi"])
    assert WORLD.number == before + 1


def test_attempts_are_counted_by_who_makes_them() -> None:
    def body() -> None:
        function(["hi"])
        with attempt(1):
            function(["hi"])

    _, source = record(body)
    assert [one["attempt"] for one in events(source, "llm_request")] == [0, 1]
    assert [one["attempt"] for one in events(source, "llm_response")] == [0, 1]


class Overloaded(Exception):
    pass


def test_a_failure_comes_again_as_its_own_type() -> None:
    @llm
    def busy(prompt: str) -> str:
        raise Overloaded(prompt)

    def body() -> None:
        with pytest.raises(Overloaded, match="hi"):
            busy("hi")

    _, source = record(body)
    (answer,) = events(source, "llm_response")
    assert (answer["provider"], answer["model"], answer["stopReason"]) == ("custom", "busy", None)
    replay(source, body)


def test_a_stream_that_is_left_early() -> None:
    def body() -> Any:
        pieces = generator(["hi"])
        first = next(pieces)
        pieces.close()  # type: ignore[attr-defined]
        return first

    made, source = record(body)
    (answer,) = events(source, "llm_response")
    assert (answer["ended"], answer["response"]) == ("abandoned", {"chunks": [made]})
    assert replay(source, body) == made


def test_what_reads_an_answer_can_be_given() -> None:
    @llm(model="m", read=lambda answer: (answer[:2], {"letters": len(answer)}))
    def say(prompt: str) -> str:
        return prompt * 2

    _, source = record(lambda: say("abc"))
    (answer,) = events(source, "llm_response")
    assert (answer["stopReason"], answer["usage"]) == ("ab", {"letters": 6})


def test_an_answer_that_cannot_be_read_is_an_answer_all_the_same() -> None:
    @llm(read=lambda answer: answer["nothing"])
    def say(prompt: str) -> str:
        return prompt * 2

    with memory_session() as session:
        assert say("abc") == "abcabc"
    (answer,) = events(session.recorded(), "llm_response")
    assert (answer["stopReason"], answer["usage"]) == (None, None)
    assert session.warnings == ["how a model's answer ended could not be read: TypeError"]


def test_what_cannot_be_called_cannot_be_asked() -> None:
    with pytest.raises(UsageError, match="a str cannot be used as a model"):
        llm("gpt")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "answer, stop, usage",
    [
        ({"choices": [{"finish_reason": "stop"}], "usage": {"n": 1}}, "stop", {"n": 1}),
        ({"stop_reason": "tool_use", "usage": {"n": 1}}, "tool_use", {"n": 1}),
        (
            {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"n": 1}},
            "STOP",
            {"n": 1},
        ),
        ({"stopReason": "end_turn", "usage": {"n": 1}}, "end_turn", {"n": 1}),
        ({"done_reason": "length"}, "length", None),
        (
            {"response_metadata": {"finish_reason": "stop", "token_usage": {"n": 1}}},
            "stop",
            {"n": 1},
        ),
        (
            [
                {"choices": [{"delta": {}, "finish_reason": None}]},
                {"choices": [{"finish_reason": "stop"}]},
                {"choices": [], "usage": {"n": 1}},
            ],
            "stop",
            {"n": 1},
        ),
        ([{"message": {"usage": {"n": 0}}}, {"delta": {"stop_reason": "x"}}], "x", {"n": 0}),
        ("text", None, None),
        (None, None, None),
        ({"usage": 3, "stop_reason": 4, "choices": "x"}, None, None),
    ],
)
def test_well_known_shapes_are_read(answer: Any, stop: Any, usage: Any) -> None:
    assert read_answer(answer) == (stop, usage)
