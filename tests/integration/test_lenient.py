"""A lenient replay of a program that was changed: it continues with recorded results, and reports each
one that it used in the place of another."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.agents import (
    AgentResult,
    ModelReply,
    ModelRequest,
    OpenAIChat,
    ToolRequest,
    run_agent,
    run_agent_async,
)
from reenact.engine.session.session import Session
from reenact.errors import DivergenceError, ToolNotRecorded
from tests.contract.server import Server
from tests.integration.agent_client import Client
from tests.integration.agent_models import MODELS
from tests.integration.running import SERVES, Theatre

Body = Callable[[], Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server({**SERVES, **MODELS})
    yield server
    server.stop()


def lenient(place: Path) -> Session:
    return reenact.session(capture=place, mode="replay", strict=False, unused="allow")


def recorded(place: Path, body: Body) -> Any:
    with reenact.session(capture=place, mode="record"):
        return body()


def seqs(place: Path, kind: str) -> list[int]:
    with reenact.open_recording(place) as source:
        return [event.seq for event in source if event.type == kind]


def served(session: Session) -> list[tuple[str, int | None]]:
    found: list[tuple[str, int | None]] = [(one.code, one.served) for one in session.divergences()]
    told = session.report().to_json()["divergences"]
    assert [(one["code"], one.get("served")) for one in told] == found
    return found


def ask(server: Server, model: str, *tools: str) -> Any:
    offered = [{"type": "function", "function": {"name": name}} for name in tools]
    messages = [{"role": "user", "content": "hello"}]
    return Client(server.url).create(model=model, messages=messages, tools=offered)


# Models


def test_another_model_gets_the_recorded_answer(server: Server, tmp_path: Path) -> None:
    then = recorded(tmp_path / "c", lambda: ask(server, "gpt-5", "search"))
    server.begin_act()
    with lenient(tmp_path / "c") as session:
        now = ask(server, "gpt-6", "search")
    assert now == then
    assert server.journal == []
    assert served(session) == [("event_payload_mismatch", seqs(tmp_path / "c", "llm_request")[0])]
    assert session.divergences()[0].json_path == "$.request.body.model"


def test_request_with_an_extra_tool_gets_the_recorded_answer(
    server: Server, tmp_path: Path
) -> None:
    then = recorded(tmp_path / "c", lambda: ask(server, "gpt-5", "search"))
    with lenient(tmp_path / "c") as session:
        assert ask(server, "gpt-5", "search", "delete") == then
    assert served(session) == [("event_payload_mismatch", seqs(tmp_path / "c", "llm_request")[0])]


@reenact.llm(provider="house")
def complete(prompt: str, model: str) -> str:
    return f"{model}: {prompt}"


@pytest.mark.parametrize("match", ["lane", "lookup"])
def test_another_model_of_a_function_gets_the_recorded_answer(tmp_path: Path, match: Any) -> None:
    policy = reenact.Policy(id="p", match=match)
    with reenact.session(capture=tmp_path / "c", mode="record", policy=policy):
        complete("hello", "small")
    with reenact.session(
        capture=tmp_path / "c", mode="replay", strict=False, policy=policy
    ) as session:
        assert complete("hello", "large") == "small: hello"
    assert [one for _, one in served(session)] == [seqs(tmp_path / "c", "llm_request")[0]]


def _declared(provider: str, model: str) -> str:
    ask = reenact.llm(lambda prompt: f"{model}: {prompt}", provider=provider, model=model)
    return ask("hello")


@pytest.mark.parametrize("name, value", [("model", "large"), ("provider", "other")])
def test_another_model_in_the_decorator_is_a_divergence(
    tmp_path: Path, name: str, value: str
) -> None:
    named = {"provider": "house", "model": "small"}
    then = recorded(tmp_path / "c", lambda: _declared(**named))
    with lenient(tmp_path / "c") as session:
        assert _declared(**{**named, name: value}) == then
    assert served(session) == [("event_payload_mismatch", seqs(tmp_path / "c", "llm_request")[0])]
    assert session.divergences()[0].json_path == f"$.{name}"
    with (
        pytest.raises(DivergenceError),
        reenact.session(capture=tmp_path / "c", mode="replay", strict=True),
    ):
        _declared(**{**named, name: value})


def test_another_model_is_a_divergence_that_ends_a_strict_replay(
    server: Server, tmp_path: Path
) -> None:
    recorded(tmp_path / "c", lambda: ask(server, "gpt-5"))
    with (
        pytest.raises(DivergenceError),
        reenact.session(capture=tmp_path / "c", mode="replay", strict=True),
    ):
        ask(server, "gpt-6")


# Tools


@reenact.tool
def search(query: str) -> str:
    return f"found {query}"


@reenact.tool
def look_up(words: str) -> str:
    raise AssertionError("a replay ran a tool")


@reenact.tool
def delete(file: str) -> str:
    raise AssertionError("a replay ran a tool")


def test_renamed_tool_gets_the_result_of_the_recorded_one(tmp_path: Path) -> None:
    recorded(tmp_path / "c", lambda: search("rain"))
    with lenient(tmp_path / "c") as session:
        assert look_up("rain") == "found rain"
    assert served(session) == [("event_payload_mismatch", seqs(tmp_path / "c", "tool_call")[0])]


def test_renamed_tool_is_known_by_the_id_of_its_call(tmp_path: Path) -> None:
    recorded(tmp_path / "c", lambda: search.call({"query": "rain"}, call_id="c1"))
    with lenient(tmp_path / "c") as session:
        assert look_up.call({"words": "drizzle"}, call_id="c1") == "found rain"
    assert [one for _, one in served(session)] == seqs(tmp_path / "c", "tool_call")


def test_extra_tool_fails_with_an_error_and_takes_no_result_of_another(tmp_path: Path) -> None:
    recorded(tmp_path / "c", lambda: (search("rain"), search("snow")))
    with lenient(tmp_path / "c") as session:
        with pytest.raises(ToolNotRecorded, match="delete") as caught:
            delete("notes.txt")
        assert (search("rain"), search("snow")) == ("found rain", "found snow")
        with pytest.raises(ToolNotRecorded):
            search("sun")
    assert caught.value.hint
    assert served(session) == [("event_payload_mismatch", None), ("event_unexpected", None)]


# Agents


def model(name: str, *calls: ToolRequest) -> Any:
    """A model that wants these tools, and then says what it was told."""

    @reenact.llm(provider="house", model=name)
    def answer(request: ModelRequest) -> ModelReply:
        told = [one.text for one in request.messages if one.role == "tool"]
        if not told:
            return ModelReply(tool_calls=calls)
        return ModelReply(text="; ".join(told), stop_reason="stop")

    return answer


FIRST = ToolRequest(id="c1", name="search", arguments={"query": "rain"})
EXTRA = ToolRequest(id="c2", name="delete", arguments={"file": "notes.txt"})


def replaying(place: Path) -> dict[str, Any]:
    return {"mode": "replay", "policy": "lenient", "replayManifestPath": str(place)}


def _record_agent(place: Path) -> AgentResult:
    config = {"mode": "capture", "captureDir": str(place)}
    return run_agent(model("small", FIRST), "Rain?", tools=[search], replay=config).check()


def _with_extra_call(real: Any) -> Callable[[ModelRequest], ModelReply]:
    """The program has changed: it calls one more tool than the model asks for."""

    def answer(request: ModelRequest) -> ModelReply:
        reply: ModelReply = real(request)
        if not reply.tool_calls:
            return reply
        return ModelReply(tool_calls=(*reply.tool_calls, EXTRA), usage=reply.usage)

    return answer


def test_agent_run_continues_with_another_model_and_an_extra_tool(tmp_path: Path) -> None:
    then = _record_agent(tmp_path / "c")
    now = run_agent(
        model("large", FIRST), "Rain?", tools=[search, delete], replay=replaying(tmp_path / "c")
    ).check()
    assert (now.status, now.output) == ("ok", then.output)
    assert [one.served for one in now.divergences] == seqs(tmp_path / "c", "llm_request")


@pytest.mark.parametrize("parallel", [False, True], ids=["in turn", "side by side"])
def test_agent_run_continues_after_a_tool_call_that_was_not_recorded(
    tmp_path: Path, parallel: bool
) -> None:
    then = _record_agent(tmp_path / "c")
    seen: list[Any] = []
    now = run_agent(
        _with_extra_call(model("small", FIRST)),
        "Rain?",
        tools=[search, delete],
        parallel=parallel,
        replay=replaying(tmp_path / "c"),
        observers=[seen.append],
    ).check()
    assert (now.status, now.output) == ("ok", then.output)
    failed = [one for one in now.messages if one.role == "tool" and one.is_error]
    assert [one.name for one in failed] == ["delete"]
    assert "no result" in failed[0].text
    told = [one.data for one in seen if one.data.get("phase") == "divergence"]
    assert [one.get("served") for one in told] == [one.served for one in now.divergences]
    assert any(one.served in seqs(tmp_path / "c", "llm_request") for one in now.divergences)


def test_async_agent_run_continues_after_a_tool_call_that_was_not_recorded(tmp_path: Path) -> None:
    then = _record_agent(tmp_path / "c")
    run = run_agent_async(
        _with_extra_call(model("small", FIRST)),
        "Rain?",
        tools=[search, delete],
        replay=replaying(tmp_path / "c"),
    )
    now = asyncio.run(run)
    assert (now.check().status, now.output) == ("ok", then.output)


def test_agent_over_http_continues_with_another_model(server: Server, tmp_path: Path) -> None:
    config = {"mode": "capture", "captureDir": str(tmp_path / "c")}
    then = run_agent(OpenAIChat(Client(server.url), "gpt-5"), "hello", replay=config).check()
    other = OpenAIChat(Client(server.url), "gpt-6")
    now = run_agent(other, "hello", replay=replaying(tmp_path / "c")).check()
    assert now.output == then.output
    assert [one.served for one in now.divergences] == seqs(tmp_path / "c", "llm_request")


# Programs


PROGRAM = """
    import sys

    import reenact


    @reenact.llm(provider="house")
    def complete(prompt, model):
        return f"{model}: {prompt}"


    print(complete("hello", sys.argv[1]))
"""


def test_run_prints_and_reports_which_recorded_result_was_served(
    server: Server, tmp_path: Path
) -> None:
    stage = Theatre(server, tmp_path)
    stage.write("program.py", PROGRAM)
    stage.record("program.py", "small")
    ran = stage.run(
        *("--replay", "c", "--lenient", "--report", "r.json", "--"),
        *(sys.executable, "program.py", "large"),
    )
    assert (ran.code, ran.out) == (0, b"small: hello\n")
    (seq,) = seqs(tmp_path / "c", "llm_request")
    assert f"the recorded result of event {seq}" in ran.err
    assert [one["served"] for one in stage.report("r.json")["divergences"]] == [seq]
