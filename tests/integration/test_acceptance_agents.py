"""The acceptance scenarios of agent runs, by their names.

They run against two model servers: one that says the same every time, and aimock, which nobody here
wrote and whose journal proves that a replay asks nobody.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

import reenact
from reenact.agents import (
    AgentResult,
    Backoff,
    BusEvent,
    ModelReply,
    ModelRequest,
    OpenAIChat,
    OpenAIResponses,
    ReplayConfig,
    run_agent,
    run_agent_async,
)
from reenact.errors import DivergenceError, RecordingDamaged, RecordingMissing, RecordingTooNew
from reenact.format.canonical import digest
from reenact.format.event import Event
from reenact.store.verify import verify
from reenact.tools.tool import Tool, tool
from tests.contract.server import Server
from tests.integration.agent_client import AsyncClient, Client
from tests.integration.agent_models import CLIENT, MODELS, prose
from tests.integration.running import SERVES, Theatre

HERE = "What is the weather in Lisbon?"
BOTH = "What is the weather in Lisbon and Porto?"


@dataclass
class World:
    """A model server: where it is, and how often it was asked."""

    address: str
    asked: Callable[[], int]

    def model(self, **given: Any) -> OpenAIChat:
        return OpenAIChat(Client(self.address), "gpt-5", **given)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server({**SERVES, **MODELS})
    yield server
    server.stop()


@pytest.fixture
def scripted(server: Server) -> World:
    """Says the same every time."""
    server.begin_act()
    return World(server.url, lambda: len(server.journal))


if find_spec("tests.frameworks") is not None:
    from tests.frameworks.servers import _aimock, aimock  # noqa: F401 - fixtures


@pytest.fixture(params=["scripted", pytest.param("aimock", marks=pytest.mark.soak_only)])
def world(request: pytest.FixtureRequest) -> World:
    """Either server."""
    if request.param == "scripted":
        found: World = request.getfixturevalue("scripted")
        return found
    mock = request.getfixturevalue("aimock")
    return World(mock.address, lambda: len(mock.journal()))


class Weather:
    """A tool that knows how often it ran, and never says the same twice."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self._numbers = count(20)

    @property
    def tool(self) -> Tool[..., str]:
        return tool(self._look, name="get_weather")

    def _look(self, city: str) -> str:
        self.ran.append(city)
        return f"{city}: {next(self._numbers)} degrees"


def capture(place: Path) -> ReplayConfig:
    return ReplayConfig(mode="capture", capture_dir=place)


def replay(place: Path, policy: Any = "strict", **given: Any) -> ReplayConfig:
    return ReplayConfig(
        mode="replay", policy=policy, replay_manifest_path=place / "manifest.json", **given
    )


def events(place: Path) -> list[Event]:
    with reenact.open_recording(place) as source:
        return list(source)


def types(place: Path) -> list[str]:
    return [event.type for event in events(place)]


def essence(seen: list[BusEvent]) -> list[Any]:
    return [(event.run_id, event.seq, event.stream, event.data) for event in seen]


# The source document


def test_capture_baseline(world: World, tmp_path: Path) -> None:
    weather = Weather()
    result = run_agent(
        world.model(), HERE, tools=[weather.tool], replay=capture(tmp_path / "c")
    ).check()
    assert weather.ran == ["Lisbon"]
    assert (tmp_path / "c" / "manifest.json").exists()
    assert (tmp_path / "c" / "events.jsonl").exists()
    assert types(tmp_path / "c") == [
        "run_start",
        "llm_request",
        "llm_response",
        "tool_call",
        "tool_result",
        "llm_request",
        "llm_response",
        "run_end",
    ]
    assert verify(tmp_path / "c").manifest.event_count == 8
    assert result.recording == tmp_path / "c"
    asked, answered, *_ = [one for one in events(tmp_path / "c") if one.type.startswith("llm")]
    assert {
        "provider",
        "model",
        "inputHash",
        "toolSchemaHash",
        "attempt",
        "call",
    } <= asked.data.keys()
    assert {"provider", "model", "stopReason", "usage", "response"} <= answered.data.keys()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_replay_offline(world: World, tmp_path: Path, stream: bool) -> None:
    weather = Weather()
    seen: list[BusEvent] = []
    again: list[BusEvent] = []
    given: Any = {"tools": [weather.tool]}
    model = world.model(stream=stream)
    then = run_agent(model, BOTH, replay=capture(tmp_path / "c"), observers=[seen.append], **given)
    asked = world.asked()
    now = run_agent(model, BOTH, replay=replay(tmp_path / "c"), observers=[again.append], **given)
    assert (now.output, now.messages, now.usage) == (then.output, then.messages, then.usage)
    assert (now.status, now.divergences, now.content_hash) == ("ok", (), then.content_hash)
    assert world.asked() == asked, "the replay asked the model"
    assert weather.ran == ["Lisbon", "Porto"], "the replay ran a tool"
    assert essence(again) == essence(seen)


def _with_another_city(model: OpenAIChat) -> Callable[[ModelRequest], ModelReply]:
    """The program has changed: it has its own idea of what the tool is to be called with."""

    def ask(request: ModelRequest) -> ModelReply:
        reply: ModelReply = model(request)
        calls = [
            msgspec.structs.replace(one, arguments={"city": "Faro"}) for one in reply.tool_calls
        ]
        return msgspec.structs.replace(reply, tool_calls=tuple(calls))

    return ask


def test_strict_divergence(world: World, tmp_path: Path) -> None:
    weather = Weather()
    model = world.model()
    run_agent(model, HERE, tools=[weather.tool], replay=capture(tmp_path / "c"))
    seen: list[BusEvent] = []
    with pytest.raises(DivergenceError) as caught:
        run_agent(
            _with_another_city(model),
            HERE,
            tools=[weather.tool],
            replay=replay(tmp_path / "c"),
            observers=[seen.append],
        )
    said = caught.value.to_json()
    assert (said["code"], said["jsonPath"]) == ("event_payload_mismatch", "$['args']['city']")
    assert (said["paths"][0]["expected"], said["paths"][0]["observed"]) == ("Lisbon", "Faro")
    assert weather.ran == ["Lisbon"]
    told = [event.data for event in seen if event.stream == "error"]
    assert [one["code"] for one in told] == ["event_payload_mismatch"]
    assert seen[-1].data["phase"] == "error"


def test_lenient_divergence(world: World, tmp_path: Path) -> None:
    weather = Weather()
    model = world.model()
    then = run_agent(model, HERE, tools=[weather.tool], replay=capture(tmp_path / "c"))
    seen: list[BusEvent] = []
    now = run_agent(
        _with_another_city(model),
        HERE,
        tools=[weather.tool],
        replay=replay(tmp_path / "c", "lenient"),
        observers=[seen.append],
    )
    assert (now.status, now.output) == ("ok", then.output)
    first = now.divergences[0]
    assert (first.code, first.json_path) == ("event_payload_mismatch", "$.args.city")
    told = [event.data["code"] for event in seen if event.data.get("phase") == "divergence"]
    assert told == [one.code for one in now.divergences]
    assert weather.ran == ["Lisbon"]


def test_missing_or_damaged_recordings_are_refused_before_anything_runs(
    scripted: World, tmp_path: Path
) -> None:
    with pytest.raises(RecordingMissing, match="none"):
        run_agent(scripted.model(), HERE, replay=replay(tmp_path / "none"))
    run_agent(scripted.model(), "hello", replay=capture(tmp_path / "c"))
    asked = scripted.asked()
    log = tmp_path / "c" / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b"hello", b"jello"))
    with pytest.raises(RecordingDamaged):
        run_agent(scripted.model(), "hello", replay=replay(tmp_path / "c"))
    assert scripted.asked() == asked


# And more


def test_reasoning_and_function_call_identity_preserved(
    scripted: World, server: Server, tmp_path: Path
) -> None:
    model = OpenAIResponses(Client(scripted.address), "gpt-5")
    weather = Weather()
    then = run_agent(model, HERE, tools=[weather.tool], replay=capture(tmp_path / "c")).check()
    sent = json.loads(server.journal[1].body)["input"]
    first = json.loads(json.dumps(sent))
    assert [item.get("type", item.get("role")) for item in sent] == [
        "user",
        "reasoning",
        "function_call",
        "function_call_output",
    ]
    _, thought, call, output = sent
    assert thought["id"].startswith("rs_")
    assert (call["id"], call["call_id"]) == (
        "fc_9Z8y7X6w5V4u3T2s1R0q",
        "call_aB3dE5gH7jK9mN1pQ3sT5vW7",
    )
    assert (output["call_id"], call["arguments"]) == (call["call_id"], '{"city":  "Lisbon"}')

    server.begin_act()
    now = run_agent(model, HERE, tools=[weather.tool], replay=replay(tmp_path / "c")).check()
    assert server.journal == []
    assert now.messages == then.messages
    assert [one.native for one in now.messages if one.native] == [
        one.native for one in then.messages if one.native
    ]
    recorded = [event for event in events(tmp_path / "c") if event.type == "llm_request"]
    assert recorded[1].data["request"]["body"]["input"] == first
    calls = [event.data for event in events(tmp_path / "c") if event.type == "tool_call"]
    assert [one["callId"] for one in calls] == [call["call_id"]]


def _edited(place: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest, and let it vouch for itself again."""
    path = place / "manifest.json"
    manifest = json.loads(path.read_bytes())
    change(manifest)
    del manifest["integrity"]["manifestHash"]
    manifest["integrity"]["manifestHash"] = digest(manifest)
    path.write_text(json.dumps(manifest), "utf-8")


def test_older_manifest_accepted(scripted: World, tmp_path: Path) -> None:
    then = run_agent(scripted.model(), "hello", replay=capture(tmp_path / "c")).check()

    def as_it_was_first(manifest: dict[str, Any]) -> None:
        manifest["format"]["version"] = "1.0"
        for newer in ("policy", "capabilitySet", "parent", "sealed"):
            manifest.pop(newer, None)

    _edited(tmp_path / "c", as_it_was_first)
    asked = scripted.asked()
    now = run_agent(scripted.model(), "hello", replay=replay(tmp_path / "c")).check()
    assert (now.output, scripted.asked()) == (then.output, asked)


def test_newer_major_refused_with_a_hint(scripted: World, tmp_path: Path) -> None:
    run_agent(scripted.model(), "hello", replay=capture(tmp_path / "c")).check()
    _edited(tmp_path / "c", lambda manifest: manifest["format"].update(version="2.0"))
    asked = scripted.asked()
    with pytest.raises(RecordingTooNew) as caught:
        run_agent(scripted.model(), "hello", replay=replay(tmp_path / "c"))
    assert "upgrade" in caught.value.hint
    assert scripted.asked() == asked


def test_no_behaviour_change_when_off(
    scripted: World, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def run(**given: Any) -> tuple[AgentResult, list[bytes], list[str]]:
        server.begin_act()
        weather = Weather()
        result = run_agent(scripted.model(), BOTH, tools=[weather.tool], parallel=False, **given)
        return result, [asked.body for asked in server.journal], weather.ran

    plain, asked, ran = run()
    off, asked_off, ran_off = run(replay=ReplayConfig())
    recorded, asked_recorded, ran_recorded = run(replay=capture(tmp_path / "c"))
    for other in (off, recorded):
        assert (other.output, other.messages, other.usage) == (
            plain.output,
            plain.messages,
            plain.usage,
        )
    assert asked == asked_off == asked_recorded
    assert ran == ran_off == ran_recorded == ["Lisbon", "Porto"]
    assert (plain.recording, off.recording, off.content_hash) == (None, None, None)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_stable_artifacts(scripted: World, server: Server, tmp_path: Path) -> None:
    def run(config: ReplayConfig) -> str | None:
        server.begin_act()
        tools = [Weather().tool]
        model = scripted.model()
        return run_agent(model, BOTH, tools=tools, parallel=False, replay=config).content_hash

    first, second = run(capture(tmp_path / "1")), run(capture(tmp_path / "2"))
    replayed = run(replay(tmp_path / "1", capture_dir=tmp_path / "3"))
    once_more = run(replay(tmp_path / "3", capture_dir=tmp_path / "4"))
    assert first is not None
    assert first == second == replayed == once_more
    with reenact.open_recording(tmp_path / "4") as source:
        assert source.manifest().mode == "replay"


def test_one_run_with_many_attempts(scripted: World, tmp_path: Path) -> None:
    gone = OpenAIChat(Client(scripted.address), "gone")
    quick = Backoff(retries=2, delay=0.001)
    said = [
        {"role": "user", "text": f"busy 1 {'a' * 1000}"},
        {"role": "assistant", "text": "b" * 1000},
    ]

    def run(config: ReplayConfig) -> AgentResult:
        return run_agent(
            gone,
            "and now?",
            messages=said * 3,
            fallbacks=[OpenAIChat(Client(scripted.address), "small")],
            backoff=quick,
            replay=config,
        ).check()

    then = run(capture(tmp_path / "c"))
    asked = scripted.asked()
    assert [(one.number, one.model, one.ended_by) for one in then.attempts] == [
        (0, "gone", "fallback"),
        (1, "small", "retriable"),
        (2, "small", "compaction"),
        (3, "small", ""),
    ]
    calls = [event.data for event in events(tmp_path / "c") if event.type == "llm_request"]
    assert [(one["attempt"], one["model"]) for one in calls] == [
        (0, "gone"),
        (1, "small"),
        (2, "small"),
        (2, "small"),
        (3, "small"),
    ]
    decided = [one.data for one in events(tmp_path / "c") if one.data.get("source") == "compaction"]
    assert [one["request"] for one in decided] == [{"reason": "context_overflow", "messages": 7}]
    now = run(replay(tmp_path / "c"))
    assert (now.messages, now.attempts, now.usage) == (then.messages, then.attempts, then.usage)
    assert scripted.asked() == asked


@pytest.mark.parametrize("asynchronous", [False, True], ids=["threads", "tasks"])
def test_parallel_tool_calls_with_identical_arguments(
    scripted: World, tmp_path: Path, asynchronous: bool
) -> None:
    weather = Weather()

    def run(config: ReplayConfig) -> AgentResult:
        given: Any = {"tools": [weather.tool], "replay": config}
        words = "weather in Bern and Bern"
        if not asynchronous:
            return run_agent(scripted.model(), words, **given)
        model = OpenAIChat(AsyncClient(scripted.address), "gpt-5")
        return asyncio.run(run_agent_async(model, words, **given))

    then = run(capture(tmp_path / "c"))
    heard = [one.text for one in then.messages if one.role == "tool"]
    assert sorted(heard) == ["Bern: 20 degrees", "Bern: 21 degrees"]
    for _ in range(3):
        now = run(replay(tmp_path / "c"))
        assert now.messages == then.messages
    assert weather.ran == ["Bern", "Bern"]


VOLATILE = """
    import os, subprocess, uuid
    from datetime import datetime
    from client import Client
    from reenact.agents import OpenAIChat, run_agent

    date = subprocess.run(["date", "+%N"], capture_output=True, text=True).stdout.strip()
    prompt = f"It is {datetime.now()} ({date}), and this is {uuid.uuid4()}."
    result = run_agent(OpenAIChat(Client(os.environ["SERVER"]), "gpt-5"), prompt).check()
    print(result.output)
"""


def test_volatile_prompt_matches_without_any_rule(theatre: Theatre) -> None:
    theatre.write("client.py", CLIENT)
    recorded = theatre.check(theatre.write("volatile.py", VOLATILE))
    assert recorded.code == 0
    assert recorded.out.startswith(b"You said: It is 20")


@pytest.mark.slow
@pytest.mark.soak
def test_a_300_turn_chat_stays_within_twice_its_new_text(
    scripted: World, tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    turns = rounds(100, 300)
    new = 0
    messages: tuple[Any, ...] = ()
    with reenact.session(capture=tmp_path / "c", mode="record"):
        for turn in range(turns):
            words = f"tell {turn}, {prose(turn, 20)}"
            result = run_agent(scripted.model(), words, messages=messages).check()
            messages = result.messages
            new += len(words) + len(result.output)
    size = sum(path.stat().st_size for path in (tmp_path / "c").rglob("*") if path.is_file())
    assert len(messages) == 2 * turns
    assert size <= 2 * new, f"{size:,} bytes for {new:,} of new text: {size / new:.2f}"
