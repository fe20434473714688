"""Agent runs with scripted models: sessions, stopping, observers, tools of all kinds, and sub-agents."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.agents import (
    AgentFailed,
    AgentResult,
    Backoff,
    Bus,
    BusEvent,
    Compaction,
    Delta,
    Message,
    ModelReply,
    ModelRequest,
    ReplayConfig,
    ToolRequest,
    Usage,
    emit,
    run_agent,
    run_agent_async,
)
from reenact.errors import CapabilityDenied, DivergenceError, UsageError, ValueRefused
from reenact.format.event_fields import StateMutation
from reenact.policy.model import CapabilityRule, Policy
from reenact.testing import memory_session
from reenact.tools.llm import llm
from reenact.tools.tool import tool
from tests.integration.agent_models import prose

PATIENCE = 60
"""Seconds after which a test gives up. No verdict depends on it."""


def calls(*cities: str, name: str = "look") -> ModelReply:
    made = (ToolRequest(id=f"c{n}", name=name, arguments={"city": c}) for n, c in enumerate(cities))
    return ModelReply(tool_calls=tuple(made), stop_reason="tool_use", usage=Usage(input=1))


class Script:
    """A model that gives its answers one after the other, and is recorded as a model is."""

    def __init__(self, *answers: ModelReply | Exception) -> None:
        self.asked: list[ModelRequest] = []
        self._answers = answers
        self.model = llm(self._answer, model="scripted")

    def _answer(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        answer = self._answers[len(self.asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


def kinds(session: Any) -> list[str]:
    return [event.type for event in session.recorded()]


class TooLong(Exception):
    code = "context_length_exceeded"


class Busy(Exception):
    status_code = 503


@tool
def look(city: str) -> str:
    """Look out of the window."""
    return f"{city} is grey"


# Sessions


def test_a_run_is_part_of_the_session_that_is_open() -> None:
    with memory_session() as session:
        run_agent(Script(calls("Oslo"), ModelReply(text="grey")).model, "hi", tools=[look]).check()
    assert kinds(session) == [
        "run_start",
        "llm_request",
        "llm_response",
        "tool_call",
        "tool_result",
        "llm_request",
        "llm_response",
        "run_end",
    ]
    script = Script()
    with memory_session(session.recorded()) as again:
        result = run_agent(script.model, "hi", tools=[look]).check()
        assert result.run_id == f"{again.run_id}-0-1"
    assert (result.output, script.asked) == ("grey", [])


def test_another_input_is_a_divergence() -> None:
    with memory_session() as session:
        run_agent(Script(ModelReply(text="x")).model, "hi").check()
    seen: list[BusEvent] = []
    with pytest.raises(DivergenceError) as caught, memory_session(session.recorded()):
        run_agent(Script().model, "hello", observers=[seen.append])
    assert caught.value.to_json()["jsonPath"] == "$['input']"
    assert [one.data["code"] for one in seen if one.stream == "error"] == ["event_payload_mismatch"]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["threads", "tasks"])
def test_a_divergence_in_tools_side_by_side_is_raised_as_it_is(asynchronous: bool) -> None:
    def run(model: Any, seen: list[BusEvent]) -> AgentResult:
        given: Any = {"tools": [look], "observers": [seen.append]}
        if asynchronous:
            return asyncio.run(run_agent_async(model, "hi", **given))
        return run_agent(model, "hi", **given)

    def another(request: ModelRequest) -> ModelReply:
        return calls("Oslo", "Bonn")

    seen: list[BusEvent] = []
    with memory_session() as session:
        run(
            lambda request: calls("Oslo", "Rome") if len(request.messages) == 1 else ModelReply(),
            [],
        )
    with pytest.raises(DivergenceError) as caught, memory_session(session.recorded()):
        run(another, seen)
    assert caught.value.to_json()["jsonPath"] == "$['args']['city']"
    assert (seen[-1].stream, seen[-1].data["error"]["kind"]) == ("lifecycle", "divergence")


def test_a_lenient_replay_with_nothing_to_serve_ends_with_a_result() -> None:
    with memory_session() as session:
        run_agent(Script(ModelReply(text="x")).model, "hi").check()
    seen: list[BusEvent] = []
    with memory_session(session.recorded(), strict=False, unused="allow") as lenient:
        result = run_agent(
            Script().model, "hi", messages=[Message(role="user", text="y")], observers=[seen.append]
        )
        more = run_agent(Script().model, "hi")
        assert lenient.mode == "replay"
    assert (result.status, len(result.divergences)) == ("ok", 2)
    assert (more.status, more.error and more.error.kind) == ("error", "divergence")
    assert [one.code for one in more.divergences] == ["event_unexpected"] * 3
    assert [one.data["code"] for one in seen if one.stream == "error"] == [
        one.code for one in result.divergences
    ]


def test_runs_side_by_side_have_ids_and_marks_of_their_own() -> None:
    async def one(number: int) -> AgentResult:
        @llm(model="scripted")
        async def answer(request: ModelRequest) -> ModelReply:
            await asyncio.sleep(0)
            return ModelReply(text=f"{number} {request.messages[-1].text}")

        return await run_agent_async(answer, f"in {number}")

    async def all_of_them() -> list[AgentResult]:
        return await asyncio.gather(*(one(number) for number in range(5)))

    with memory_session() as session:
        then = asyncio.run(all_of_them())
    with memory_session(session.recorded()):
        now = asyncio.run(all_of_them())
    assert [one.output for one in now] == [f"{number} in {number}" for number in range(5)]
    assert [one.run_id for one in now] == [one.run_id for one in then]
    assert len({one.run_id for one in now}) == 5


def test_an_agent_inside_a_tool_of_another() -> None:
    inner = Script(calls("Rome"), ModelReply(text="inner says grey"))

    @tool
    def delegate(city: str) -> str:
        return run_agent(inner.model, f"about {city}", tools=[look]).check().output

    def outer() -> AgentResult:
        script = Script(calls("Oslo", name="delegate"), ModelReply(text="done"))
        first = run_agent(script.model, "hi", tools=[delegate]).check()
        run_agent(Script(ModelReply(text="bye")).model, "and then?").check()
        return first

    with memory_session() as session:
        then = outer()
    assert kinds(session).count("run_start") == 3
    with memory_session(session.recorded()):
        now = outer()
    assert now.messages == then.messages
    assert len(inner.asked) == 2, "the replay asked the inner model"


def test_a_failed_run_makes_a_recording_that_says_so(tmp_path: Path) -> None:
    failing = Script(ValueError("broken"))
    config = ReplayConfig(mode="capture", capture_dir=tmp_path / "c")
    result = run_agent(failing.model, "hi", replay=config)
    with pytest.raises(ValueError, match="broken"):
        result.check()
    with reenact.open_recording(tmp_path / "c") as source:
        manifest = source.manifest()
        ends = [event.data for event in source if event.type == "run_end"]
    assert (manifest.status, manifest.error) == ("error", "ValueError")
    assert ends[0]["error"] == {
        "class": "ValueError",
        "message": "ValueError: broken",
        "kind": "model_error",
    }
    again = run_agent(
        Script().model,
        "hi",
        replay={"mode": "replay", "replayManifestPath": tmp_path / "c", "policy": "strict"},
    )
    assert again.error is not None
    assert (again.error.kind, str(again.error.exception)) == ("model_error", "broken")


def test_a_run_that_ends_without_an_exception_raises_its_own() -> None:
    result = run_agent(Script(calls("Oslo")).model, "hi", tools=[look], max_turns=1)
    with pytest.raises(AgentFailed, match="max_turns: the model wants more than 1 turns"):
        result.check()
    assert result.to_json()["error"]["kind"] == "max_turns"


def test_what_a_policy_forbids_is_not_the_models_fault() -> None:
    policy = Policy(id="p", capabilities={"tool.call": CapabilityRule()})
    with memory_session(policy=policy) as session, pytest.raises(CapabilityDenied, match="llm"):
        run_agent(Script(ModelReply(text="x")).model, "hi")
    assert kinds(session)[-1] == "run_end"


def test_a_tool_that_a_policy_forbids_is_an_error_for_the_model() -> None:
    policy = Policy(id="p", capabilities={"llm.call": CapabilityRule()})
    script = Script(calls("Oslo"), ModelReply(text="a pity"))
    with memory_session(policy=policy):
        result = run_agent(script.model, "hi", tools=[look]).check()
    assert result.messages[2].is_error
    assert "does not allow tool.call" in result.messages[2].text


# Streams


@llm(model="scripted")
def streamed(request: ModelRequest) -> Generator[Delta, None, ModelReply]:
    """A model that is not HTTP, and streams."""
    for word in ("one ", "two ", "three"):
        yield Delta(text=word)
    return ModelReply(text="one two three", stop_reason="stop")


@llm(model="scripted")
async def streamed_async(request: ModelRequest) -> AsyncIterator[Delta]:
    """The same, for tasks."""
    for word in ("one ", "two ", "three"):
        yield Delta(text=word, thinking="hm")
    yield Delta(reply=ModelReply(text="one two three"))


@pytest.mark.parametrize("asynchronous", [False, True], ids=["threads", "tasks"])
def test_a_streaming_model_of_the_programs_own(asynchronous: bool) -> None:
    def run(seen: list[BusEvent]) -> AgentResult:
        if asynchronous:
            return asyncio.run(run_agent_async(streamed_async, "hi", observers=[seen.append]))
        return run_agent(streamed, "hi", observers=[seen.append])

    then: list[BusEvent] = []
    now: list[BusEvent] = []
    with memory_session() as session:
        assert run(then).check().output == "one two three"
    with memory_session(session.recorded()):
        assert run(now).check().output == "one two three"
    told = [(one.seq, one.stream, one.data) for one in then]
    assert told == [(one.seq, one.stream, one.data) for one in now]
    deltas = [
        one.data["delta"] for one in then if one.stream == "assistant" and "delta" in one.data
    ]
    assert deltas == ["one ", "two ", "three"]


def test_what_is_no_reply_is_refused() -> None:
    with pytest.raises(UsageError, match="gave a str, not a ModelReply"):
        run_agent(lambda request: "hello", "hi")
    with pytest.raises(UsageError, match="gave a NoneType"):
        run_agent(lambda request: iter([Delta(text="x")]), "hi")
    with pytest.raises(UsageError, match="cannot be used as a model"):
        run_agent(None, "hi")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"messages\[0\] is not a message"):
        run_agent(streamed, "hi", messages=[{"role": "nobody"}])
    with pytest.raises(UsageError, match="two tools are called look"):
        run_agent(streamed, "hi", tools=[look, look])


def test_what_is_asynchronous_is_refused_in_threads() -> None:
    async def later(request: ModelRequest) -> ModelReply:
        return ModelReply()

    @tool(name="look")
    async def look_later(city: str) -> str:
        return city

    with pytest.raises(UsageError, match="the model is asynchronous"):
        run_agent(later, "hi")
    with pytest.raises(UsageError, match="the tool look is asynchronous"):
        run_agent(Script(calls("Oslo")).model, "hi", tools=[look_later])


# Stopping


def test_a_stream_is_stopped_in_the_middle_and_so_is_its_replay() -> None:
    def run(stop: threading.Event, *, sets: bool) -> tuple[AgentResult, list[Any]]:
        seen: list[Any] = []

        @llm(model="scripted")
        def talking(request: ModelRequest) -> Generator[Delta, None, ModelReply]:
            for number in range(10):
                if number == 4 and sets:
                    stop.set()
                yield Delta(text=str(number))
            return ModelReply(text="0123456789")

        def note(event: BusEvent) -> None:
            if event.stream == "assistant":
                seen.append(event.data["delta"])

        return run_agent(talking, "count", abort=stop, observers=[note]), seen

    with memory_session() as session:
        then, told = run(threading.Event(), sets=True)
    assert (then.status, then.aborted, told) == ("aborted", True, ["0", "1", "2", "3"])
    with memory_session(session.recorded()):
        now, again = run(threading.Event(), sets=False)
    assert (now.status, again) == ("aborted", told)


def test_an_event_of_asyncio_stops_what_is_under_way() -> None:
    async def run(seen: list[str]) -> AgentResult:
        stop = asyncio.Event()

        @llm(model="scripted")
        async def waiting(request: ModelRequest) -> ModelReply:
            asyncio.get_running_loop().call_soon(stop.set)
            await asyncio.Event().wait()
            return ModelReply(text="never")

        def note(event: BusEvent) -> None:
            seen.append(f"{event.stream} {event.data['phase']} {event.data.get('aborted')}")

        return await run_agent_async(waiting, "hi", abort=stop, observers=[note])

    seen: list[str] = []
    with memory_session() as session:
        result = asyncio.run(run(seen))
    assert (result.status, seen[-1]) == ("aborted", "lifecycle end True")
    assert [one.data["status"] for one in session.recorded() if one.type == "run_end"] == [
        "aborted"
    ]


def test_a_cancelled_task_ends_its_run_and_stays_cancelled() -> None:
    seen: list[BusEvent] = []

    async def main() -> bool:
        begun = asyncio.Event()

        async def waiting(request: ModelRequest) -> ModelReply:
            begun.set()
            await asyncio.Event().wait()
            return ModelReply()

        task = asyncio.create_task(run_agent_async(waiting, "hi", observers=[seen.append]))
        await begun.wait()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return True
        return False

    with memory_session() as session:
        assert asyncio.run(main())
    assert (seen[-1].stream, seen[-1].data["status"]) == ("lifecycle", "aborted")
    assert kinds(session) == ["run_start", "run_end"]


def test_a_cancelled_run_waits_for_its_tools() -> None:
    ended: list[str] = []

    async def main() -> None:
        begun = asyncio.Event()

        @tool(name="look")
        async def slowly(city: str) -> str:
            try:
                begun.set()
                await asyncio.Event().wait()
            finally:
                ended.append(city)
            return city

        run = run_agent_async(Script(calls("Oslo", "Rome")).model, "hi", tools=[slowly])
        task = asyncio.create_task(run)
        await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    asyncio.run(main())
    assert sorted(ended) == ["Oslo", "Rome"]


# Observers


def test_an_observer_that_hangs_does_not_hold_a_run_up() -> None:
    go_on, seen = threading.Event(), list[BusEvent]()

    def hang(event: BusEvent) -> None:
        go_on.wait(PATIENCE)

    script = Script(ModelReply(text="x"))
    result = run_agent(script.model, "hi", observers=[hang, seen.append], grace=0.05)
    assert (result.output, result.observed.pending, len(seen)) == ("x", 3, 3)
    go_on.set()


def test_failures_of_observers_are_in_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(event: BusEvent) -> None:
        raise LookupError(event.stream)

    result = run_agent(Script(ModelReply(text="x")).model, "hi", observers=[broken])
    assert (result.status, result.observed.failed) == ("ok", 3)
    assert result.observed.failures[0].endswith("LookupError: lifecycle")
    assert capsys.readouterr().err.count("broken failed") == 1


def test_a_bus_of_ones_own_serves_several_runs() -> None:
    bus, seen = Bus(), list[BusEvent]()
    bus.subscribe(seen.append)

    @tool(name="look")
    def telling(city: str) -> str:
        emit("progress", {"city": city})
        bus.emit("progress", {"again": city})
        return city

    def adapt(event: BusEvent) -> StateMutation:
        return StateMutation(kind="progress", details=event.data)

    with memory_session() as session:
        for number in range(2):
            script = Script(calls("Oslo"), ModelReply(text="x"))
            run_agent(
                script.model,
                "hi",
                tools=[telling],
                bus=bus,
                adapters={"progress": adapt},
                run_id=str(number),
            )
    bus.flush(PATIENCE)
    mine = [(one.run_id, one.data) for one in seen if one.stream == "progress"]
    assert mine == [
        (run, data) for run in ("0", "1") for data in ({"city": "Oslo"}, {"again": "Oslo"})
    ]
    assert kinds(session).count("state_mutation") == 4
    assert [one.seq for one in seen if one.run_id == "1"] == list(range(1, 8))


def test_warnings_of_the_session_are_on_the_bus_and_in_the_result(tmp_path: Path) -> None:
    seen: list[BusEvent] = []
    script = Script(calls("Oslo"), ModelReply(text="x"))

    @tool(name="look")
    def late(city: str) -> str:
        session = reenact.current()
        assert session is not None
        session.warn("the disk is nearly full")
        return city

    for config in (ReplayConfig(mode="capture", capture_dir=tmp_path / "c"), None):
        seen.clear()
        script = Script(calls("Oslo"), ModelReply(text="x"))
        with (
            reenact.session(mode="off")
            if config
            else reenact.session(capture=tmp_path / "d", mode="record", warn=lambda text: None)
        ):
            result = run_agent(
                script.model, "hi", tools=[late], replay=config, observers=[seen.append]
            )
        assert result.warnings == ("the disk is nearly full",)
        assert [one.data for one in seen if one.stream == "error"] == [
            {"phase": "warning", "message": "the disk is nearly full"}
        ]


# Tools


def test_tools_of_all_kinds_and_their_updates() -> None:
    def counting(city: str) -> Iterator[int]:
        yield from range(3)

    async def counting_later(city: str) -> AsyncIterator[int]:
        for number in range(3):
            yield number

    for asynchronous, function in ((False, counting), (True, counting_later)):
        seen: list[BusEvent] = []
        script = Script(calls("Oslo"), ModelReply(text="x"))
        given: Any = {"tools": [tool(function, name="look")], "observers": [seen.append]}
        with memory_session():
            if asynchronous:
                result = asyncio.run(run_agent_async(script.model, "hi", **given))
            else:
                result = run_agent(script.model, "hi", **given)
        assert result.messages[2].text == "[0, 1, 2]"
        phases = [one.data["phase"] for one in seen if one.stream == "tool"]
        assert phases == ["start", "update", "update", "update", "result"]


def test_a_long_result_is_whole_for_the_model_and_short_on_the_bus() -> None:
    seen: list[BusEvent] = []
    script = Script(calls("Oslo"), ModelReply(text="x"))
    long = tool(lambda city: prose(1, 3000), name="look")
    result = run_agent(script.model, "hi", tools=[long], observers=[seen.append])
    (told,) = [one.data["result"] for one in seen if one.data.get("phase") == "result"]
    assert (len(result.messages[2].text) > 20_000, len(told)) == (True, 8_013)


def test_arguments_that_are_no_object_and_tools_that_are_not_there() -> None:
    broken = ToolRequest(id="c1", name="look", arguments=None, written="{oops")
    absent = ToolRequest(id="c2", name="lok", arguments={})
    script = Script(ModelReply(tool_calls=(broken, absent)), ModelReply(text="x"))
    result = run_agent(script.model, "hi", tools=[look]).check()
    told = [(one.is_error, one.text) for one in result.messages if one.role == "tool"]
    assert told[0] == (True, "the arguments are not a JSON object")
    assert told[1][1].startswith("tool 'lok' does not exist; did you mean look")


def test_a_result_that_cannot_be_recorded_is_the_programs_fault() -> None:
    odd = tool(lambda city: object(), name="look")
    script = Script(calls("Oslo"), ModelReply(text="x"))
    with memory_session(), pytest.raises(ValueRefused):
        run_agent(script.model, "hi", tools=[odd])
    script = Script(calls("Oslo"), ModelReply(text="x"))
    assert run_agent(script.model, "hi", tools=[odd]).check().output == "x"


def test_tools_may_pass_only_where_it_is_allowed(tmp_path: Path) -> None:
    ran: list[str] = []

    @tool(name="look", replay="pass")
    def passing(city: str) -> str:
        ran.append(city)
        return "grey"

    def run(**config: Any) -> AgentResult:
        script = Script(calls("Oslo"), ModelReply(text="x"))
        return run_agent(script.model, "hi", tools=[passing], replay=config)

    result = run(mode="capture", captureDir=tmp_path / "c", allowPassthroughTools=True)
    assert (ran, result.messages[2].is_error) == (["Oslo"], False)
    place = {"mode": "replay", "replayManifestPath": tmp_path / "c", "policy": "strict"}
    assert run(**place, allowPassthroughTools=True).output == "x"
    assert ran == ["Oslo", "Oslo"]
    refused = run(mode="capture", captureDir=tmp_path / "d")
    assert (refused.messages[2].is_error, ran) == (True, ["Oslo", "Oslo"])


# Compaction


def test_a_summary_of_the_programs_own_is_not_made_again() -> None:
    made: list[int] = []

    def summarize(messages: Any) -> str:
        made.append(len(messages))
        return "in short"

    talk = [Message(role="user", text="a"), Message(role="assistant", text="b")] * 3

    def run(model: Any) -> AgentResult:
        compaction = Compaction(keep=2, summarize=summarize)
        return run_agent(model, "hi", messages=talk, compaction=compaction).check()

    with memory_session() as session:
        then = run(Script(TooLong("no"), ModelReply(text="x")).model)
    with memory_session(session.recorded()):
        now = run(Script().model)
    assert (made, then.messages) == ([5], now.messages)
    assert then.messages[0].text.endswith("in short")


def test_waiting_is_not_waited_for_in_a_replay() -> None:
    def run(model: Any, delay: float) -> AgentResult:
        return run_agent(model, "hi", backoff=Backoff(retries=1, delay=delay, most=9999)).check()

    with memory_session() as session:
        run(Script(Busy("busy"), ModelReply(text="x")).model, 0.01)
    with memory_session(session.recorded()):
        result = run(Script().model, 9999)  # the test would not end
    assert [one.ended_by for one in result.attempts] == ["retriable", ""]
