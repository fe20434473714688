"""Programs that know nothing of us, on both majors of the SDK and all its transports."""

from __future__ import annotations

import shutil
import socket
from typing import Any

import pytest

import reenact
from reenact.format.event import Event
from tests.frameworks.mcp.staging import Stage, mostly, serving

pytestmark = [pytest.mark.slow, pytest.mark.soak]


def _tools(events: list[Event]) -> list[str]:
    return [event.data["name"] for event in events if event.type == "tool_call"]


def _operations(events: list[Event]) -> list[str]:
    return [event.data["op"] for event in events if event.data.get("source") == "mcp"]


def test_everything_over_stdio(stage: Stage) -> None:
    plain = stage.plain("everything")
    recorded = stage.check("everything")
    assert (recorded.code, recorded.out) == (0, plain.out)
    assert "grumbled\n" in recorded.err, "what the server says to its standard error"
    events = stage.events()
    assert _tools(events)[:3] == ["add", "steps", "grumble"]
    assert {"connect", "messages", "initialize", "resources/read", "prompts/get"} <= {
        *_operations(events)
    }
    assert not [event for event in events if event.data.get("source") == "process"]
    results = [event.data for event in events if event.type == "tool_result"]
    assert results[0]["result"]["structuredContent"] == {"total": 3}
    assert [one["ok"] for one in results].count(False) == 1, "the tool that fails"
    stage.edit("everything", ('text="fine"', 'text="so so"'))
    edited = stage.replay("everything")
    assert edited.code == 1
    assert "$.request.result.content.text" in edited.err, "what a callback answers is compared"


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_everything_over_http(stage: Stage, kind: str) -> None:
    with serving(stage, kind) as address:
        there = {"HTTP": f"{address}/mcp"} if kind == "http" else {"SSE": f"{address}/sse"}
        recorded = stage.record("everything", **there)
    assert recorded.code == 0, recorded.err
    replayed = stage.replay("everything", **there)
    assert replayed.own == recorded.own
    assert ", 0 live, 0 unused" in replayed.summary
    assert not [event for event in stage.events() if event.data.get("source") == "network"]


@mostly("2")
def test_calls_at_once_get_their_own_answers(stage: Stage) -> None:
    stage.check("several")
    tools = _tools(stage.events())
    assert sorted({*tools}) == ["left/count", "right/count"]
    assert len(tools) == 16


def test_troubles(stage: Stage) -> None:
    plain = stage.plain("troubles")
    recorded = stage.check("troubles")
    assert recorded.out == plain.out
    assert b"crashed: Connection closed" in recorded.out
    assert "died before it began" in recorded.err
    ends = [event.data for event in stage.events() if event.type == "tool_result"]
    assert any("error" in one and one["error"]["message"] == "Connection closed" for one in ends)


def test_the_high_level_client(stage_2: Stage) -> None:
    recorded = stage_2.check("modern")
    assert recorded.out.startswith(b"2026-")
    assert "server/discover" in _operations(stage_2.events())


def test_the_high_level_client_over_http(stage_2: Stage) -> None:
    with serving(stage_2, "http") as address:
        recorded = stage_2.record("modern", HTTP=f"{address}/mcp")
    replayed = stage_2.replay("modern", HTTP=f"{address}/mcp")
    assert replayed.own == recorded.own
    assert recorded.code == 0


def test_the_id_that_a_server_gives_to_a_session(stage_1: Stage) -> None:
    with serving(stage_1, "http") as address:
        recorded = stage_1.record("identified", HTTP=f"{address}/mcp")
    first, then, _ = recorded.out.split()
    assert (first, len(then)) == (b"None", 32)
    assert stage_1.replay("identified", HTTP=f"{address}/mcp").own == recorded.own


def test_pages_and_answers_in_another_order(stage: Stage) -> None:
    recorded = stage.record("odd")
    assert recorded.out.startswith(b"['a', 'b', 'c', 'd']\n")
    assert recorded.out.endswith(
        b"""["b {'number': 3}", "c {'number': 2}", "a {'number': 1}", "a {'number': 0}"]\n"""
    )
    replayed = stage.replay("odd")
    assert (replayed.code, replayed.out) == (0, recorded.out)


@mostly("1")
def test_two_recordings_say_the_same_of_a_server(stage: Stage) -> None:
    stage.record("sums")
    first = _meant(stage.events())
    shutil.rmtree(stage.folder / "c")
    stage.record("sums")
    assert _meant(stage.events()) == first
    assert len(first) == 11


def _meant(events: list[Event]) -> list[tuple[str, str, Any]]:
    return [
        (event.type, event.lane, event.data)
        for event in events
        if event.type in ("tool_call", "tool_result") or event.data.get("source") == "mcp"
    ]


@mostly("2")
def test_nobody_listens_there(stage: Stage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        there = f"http://127.0.0.1:{closed.getsockname()[1]}/mcp"
    plain = stage.plain("nobody", HTTP=there)
    assert plain.out.startswith(b"ExceptionGroup[ConnectError")
    assert stage.check("nobody", HTTP=there).out == plain.out


@mostly("1")
def test_a_recording_of_the_network_alone_has_the_requests(stage: Stage) -> None:
    with serving(stage, "http") as address:
        recorded = stage.run("--record-net-to", "t.jsonl", program="sums", HTTP=f"{address}/mcp")
    assert recorded.code == 0, recorded.err
    with reenact.open_recording(stage.folder / "t.jsonl") as source:
        sources = {event.data.get("source") for event in source}
    assert sources >= {"network"}
    assert "mcp" not in sources
