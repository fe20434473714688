"""Which tools are really asked in a replay, and which may be called at all."""

from __future__ import annotations

import pytest

from tests.frameworks.mcp.staging import Stage, mostly

pytestmark = [pytest.mark.slow, pytest.mark.soak]

_AGAIN = {"capability": "tool.call", "operation": "add", "action": "re-execute"}
_PASS = {"capability": "tool.call", "operation": "count", "action": "pass"}
_BLOCK = {"capability": "tool.call", "operation": "count", "action": "block"}


@mostly("1")
def test_a_tool_that_is_asked_again(stage: Stage) -> None:
    stage.policy(_AGAIN)
    recorded = stage.record("sums", "--policy", "mcp")
    before = stage.journal
    replayed = stage.again("sums", "--policy", "mcp")
    assert replayed.own == recorded.own
    assert stage.journal == [*before, "start", "add 1 2", "add 3 4"]


@mostly("2")
def test_a_tool_that_is_asked_again_and_says_something_else(stage: Stage) -> None:
    stage.policy({**_AGAIN, "operation": "count"})
    stage.record("sums", "--policy", "mcp")
    stage.edit("server", ("    counted += 1\n", "    counted += 2\n"))
    replayed = stage.again("sums", "--policy", "mcp")
    assert replayed.code == 1
    assert "$.result.content[0].text" in replayed.err


@mostly("1")
def test_a_tool_that_passes_by(stage: Stage) -> None:
    stage.policy(_PASS, allowPassthrough=True)
    recorded = stage.record("sums", "--policy", "mcp")
    assert [event.data["name"] for event in stage.events() if event.type == "tool_call"] == [
        "add",
        "add",
    ]
    before = stage.journal
    replayed = stage.again("sums", "--policy", "mcp")
    assert replayed.own == recorded.own
    assert stage.journal == [*before, "start", "count 1"]


@mostly("2")
def test_a_tool_that_may_not_be_called(stage: Stage) -> None:
    stage.policy(_BLOCK)
    recorded = stage.record("sums", "--policy", "mcp")
    assert recorded.code != 0
    assert "count" in recorded.err
    assert stage.journal == ["start", "add 1 2"]


@mostly("1")
def test_servers_may_be_forbidden(stage: Stage) -> None:
    stage.policy(capabilities={"tool.call": {}, "time.now": {}, "env.read": {}})
    recorded = stage.record("sums", "--policy", "mcp")
    assert recorded.code != 0
    assert "mcp.call" in recorded.err
    assert stage.journal == []
