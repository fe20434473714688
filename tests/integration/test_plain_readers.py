"""What other tools can read in a recording: the manifest, and each line by itself, with a JSON parser
and nothing of Reenact."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import reenact
from reenact.agents import ModelReply, ModelRequest, OpenAIChat, ToolRequest, run_agent
from reenact.store.recover import recover
from tests.contract.server import Server
from tests.integration.agent_client import Client
from tests.integration.agent_models import MODELS, prose
from tests.integration.running import SERVES

DIGEST = "sha256:"
HOUSE = {"provider": "house", "model": "tiny"}
OVER_HTTP = {"provider": "openai-compatible", "model": "gpt-5"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server({**SERVES, **MODELS})
    yield server
    server.stop()


def manifest(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / "manifest.json").read_bytes())
    return found


def lines(place: Path) -> list[dict[str, Any]]:
    log = place / "events.jsonl"
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()]


def chat(server: Server, *turns: str, model: str = "gpt-5") -> None:
    """One conversation, which grows with every turn."""
    client = Client(server.url)
    messages: list[dict[str, Any]] = []
    for turn in turns:
        messages.append({"role": "user", "content": turn})
        answer = client.create(model=model, messages=messages, tools=TOOLS)
        messages.append(answer["choices"][0]["message"])


PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}]


@reenact.llm(provider="house", model="tiny")
def tiny(request: ModelRequest) -> ModelReply:
    last = request.messages[-1]
    if last.role == "user":
        return ModelReply(tool_calls=(ToolRequest(id="c1", name="double", arguments={"n": 4}),))
    return ModelReply(text=f"It is {last.text}.", stop_reason="stop")


def double(n: int) -> int:
    return 2 * n


# The manifest


def test_manifest_names_the_model_of_a_call_over_http(server: Server, tmp_path: Path) -> None:
    with reenact.session(capture=tmp_path / "c", mode="record"):
        chat(server, "hello")
    assert manifest(tmp_path / "c")["model"] == OVER_HTTP
    assert "models" not in manifest(tmp_path / "c")


def test_manifest_names_the_model_of_an_agent_run(tmp_path: Path) -> None:
    config = {"mode": "capture", "captureDir": str(tmp_path / "c")}
    run_agent(tiny, "4?", tools=[double], replay=config).check()
    assert manifest(tmp_path / "c")["model"] == HOUSE


def test_manifest_of_a_run_with_fallbacks_names_the_first_model_and_lists_all(
    server: Server, tmp_path: Path
) -> None:
    config = {"mode": "capture", "captureDir": str(tmp_path / "c")}
    models = [OpenAIChat(Client(server.url), name) for name in ("gone-1", "gpt-5")]
    run_agent(models[0], "hello", fallbacks=models[1:], replay=config).check()
    found = manifest(tmp_path / "c")
    assert found["model"] == {**OVER_HTTP, "model": "gone-1"}
    assert [one["model"] for one in found["models"]] == ["gone-1", "gpt-5"]


def test_manifest_of_a_program_without_models_names_none(tmp_path: Path) -> None:
    with reenact.session(capture=tmp_path / "c", mode="record"):
        time.time()
    assert manifest(tmp_path / "c")["model"] == {"provider": "", "model": ""}


def test_tape_names_the_model_in_its_closing_line(server: Server, tmp_path: Path) -> None:
    tape = tmp_path / "t.jsonl"
    with reenact.session(tape=tape, mode="record"):
        chat(server, "hello")
    closed = json.loads(tape.read_text("utf-8").splitlines()[-1])["closed"]
    assert closed["model"] == OVER_HTTP
    with reenact.open_recording(tape) as source:
        assert source.manifest().model.model == "gpt-5"


def test_recovered_recording_names_the_model(server: Server, tmp_path: Path) -> None:
    with reenact.session(capture=tmp_path / "c", mode="record"):
        chat(server, "hello")
    (tmp_path / "c" / "manifest.json").unlink()
    assert recover(tmp_path / "c", lambda: 1).manifest.status == "recovered"
    assert manifest(tmp_path / "c")["model"] == OVER_HTTP


def _in_child() -> None:
    tiny(ModelRequest(messages=(reenact.agents.Message(role="user", text="4?"),)))


def test_model_that_only_a_child_process_calls_is_in_the_manifest(tmp_path: Path) -> None:
    with reenact.session(capture=tmp_path / "c", mode="record"):
        child = multiprocessing.get_context("fork").Process(target=_in_child)
        child.start()
        child.join()
    assert child.exitcode == 0
    assert manifest(tmp_path / "c")["model"] == HOUSE


def test_fork_of_a_run_names_the_model(tmp_path: Path) -> None:
    request = ModelRequest(messages=(reenact.agents.Message(role="user", text="4?"),))
    with reenact.session(capture=tmp_path / "c", mode="record"):
        tiny(request)
        double(1)
    with reenact.session(
        capture=tmp_path / "c", mode="replay", fork=2, into=tmp_path / "forked"
    ) as session:
        tiny(request)
    assert session.manifest is not None
    assert manifest(tmp_path / "forked")["model"] == HOUSE


# Every line


def test_tools_in_a_request_object_of_a_function_model_have_a_schema_hash(tmp_path: Path) -> None:
    for name, tools in (("with", [double]), ("without", [])):
        config = {"mode": "capture", "captureDir": str(tmp_path / name)}
        run_agent(tiny, "4?", tools=tools, replay=config).check()
    found = [
        {
            one["data"].get("toolSchemaHash", "")[:7]
            for one in lines(tmp_path / name)
            if "inputHash" in one["data"]
        }
        for name in ("with", "without")
    ]
    assert found == [{DIGEST}, {""}]


@reenact.tool(name="write_report")
def write_report(text: str) -> str:
    """A tool whose arguments and results repeat themselves."""
    return f"written: {text}"


def _record_everything(server: Server, place: Path) -> None:
    with reenact.session(capture=place, mode="record"):
        chat(server, *(f"tell {number}" for number in range(6)))
        for number in range(4):
            write_report(f"{prose(7, 300)} {number}")
            with urlopen(f"{server.url}/echo?{prose(3, 40).replace(' ', '+')}") as answer:
                answer.read()
        time.time()
        assert "PATH" in os.environ
        os.chdir(place.parent)
        request = ModelRequest(messages=(reenact.agents.Message(role="user", text="4?"),))
        tiny(request)


def test_every_line_has_the_minimum_fields_without_resolving_deltas(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    _record_everything(server, tmp_path / "c")
    found = lines(tmp_path / "c")
    stored = Counter((one["type"], "$delta" in one["data"]) for one in found)
    for kind in ("llm_request", "llm_response", "tool_call", "tool_result"):
        assert stored[kind, True], f"no {kind} is stored as a delta: the test proves nothing"
    changes = {one["data"]["type"] for one in found if one["type"] == "state_mutation"}
    assert changes == {"env_read", "cwd_change"}
    for one in found:
        CHECKS[one["type"]](one["data"])
        assert {"version", "captureId", "runId", "seq", "ts", "type", "data"} <= one.keys()


def test_fields_on_a_line_are_those_of_the_complete_event(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    _record_everything(server, tmp_path / "c")
    with reenact.open_recording(tmp_path / "c") as source:
        for line, event in zip(lines(tmp_path / "c"), source, strict=True):
            shown = {name: item for name, item in line["data"].items() if name != "$delta"}
            whole = json.loads(event.payload)
            assert {name: whole[name] for name in shown} == shown


def _has(data: dict[str, Any], **kinds: Any) -> None:
    for name, kind in kinds.items():
        assert isinstance(data[name], kind), (name, data)


def _payload(data: dict[str, Any], *names: str) -> None:
    """The payload is there, or the reference to it."""
    assert "$delta" in data or any(name in data for name in names), data


def _llm_request(data: dict[str, Any]) -> None:
    _has(data, provider=str, model=str, inputHash=str)
    assert {name: data[name] for name in OVER_HTTP} in (OVER_HTTP, HOUSE)
    assert data["inputHash"].startswith(DIGEST)
    assert data["provider"] == "house" or data["toolSchemaHash"].startswith(DIGEST)


def _llm_response(data: dict[str, Any]) -> None:
    _has(data, provider=str, model=str, stopReason=str | None, usage=dict | None)
    assert data["provider"] == "house" or data["stopReason"] == "stop"
    _payload(data, "response", "error")


def _tool_call(data: dict[str, Any]) -> None:
    _has(data, name=str, callId=str)
    assert data["name"] == "write_report"
    _payload(data, "args")


def _tool_result(data: dict[str, Any]) -> None:
    _has(data, name=str, callId=str, ok=bool)
    _payload(data, "result", "error")


def _nondeterministic(data: dict[str, Any]) -> None:
    _has(data, source=str, key=str, valueHash=str)
    assert data["valueHash"].startswith(DIGEST)


def _state_mutation(data: dict[str, Any]) -> None:
    _has(data, type=str, details=dict)


CHECKS = {
    "llm_request": _llm_request,
    "llm_response": _llm_response,
    "tool_call": _tool_call,
    "tool_result": _tool_result,
    "nondeterministic": _nondeterministic,
    "state_mutation": _state_mutation,
}
