"""MCP requests as calls, and answers as data of events."""

from __future__ import annotations

from typing import Any

import reenact
from reenact.boundaries.mcp.messages import (
    CODEC,
    RpcError,
    Server,
    ask_call,
    reply_call,
    say_call,
    server_of,
    told,
)
from reenact.engine.call import Call
from reenact.format.event import Data


def _server(label: str = "web") -> Server:
    server = server_of(reenact.session(mode="off"), {})
    server.label = label
    return server


def _ask(method: str, params: Data | None = None, **more: Any) -> Call:
    return ask_call(_server(), {"id": 7, "method": method, "params": params, **more})


def test_a_tool_is_compared_by_name_and_arguments() -> None:
    asked: Data = {"name": "add", "arguments": {"a": 1}, "_meta": {"progressToken": 7}}
    call = _ask("tools/call", asked)
    assert (call.type, call.capability, call.operation) == ("tool_call", "tool.call", "add")
    assert call.request == {"name": "add", "args": {"a": 1}}
    assert (call.extra, call.nests) == ({"server": "web"}, True)


def test_a_tool_without_arguments() -> None:
    assert _ask("tools/call", {"name": "now"}).request == {"name": "now", "args": {}}


def test_a_tool_that_is_asked_again_with_what_the_server_wanted_to_know() -> None:
    asked: Data = {
        "name": "buy",
        "arguments": {},
        "inputResponses": {"1": "yes"},
        "requestState": "x",
    }
    assert _ask("tools/call", asked).request["args"] == {"inputResponses": {"1": "yes"}}


def test_anything_else_is_compared_by_method_and_parameters() -> None:
    call = _ask("resources/read", {"uri": "memo://a", "_meta": {"progressToken": 3}})
    assert (call.source, call.capability, call.operation) == ("mcp", "mcp.call", "resources/read")
    assert call.request == {"server": "web", "params": {"uri": "memo://a"}}
    assert call.extra == {"sent": {"_meta": {"progressToken": 3}}}


def test_no_parameters_and_no_server_that_is_known() -> None:
    call = ask_call(_server(""), {"id": 0, "method": "ping"})
    assert (call.request, call.extra) == ({}, {})


def test_the_version_of_the_protocol_says_which_sdk_it_is() -> None:
    call = _ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
    assert call.request["params"] == {"capabilities": {}}
    assert call.extra == {"sent": {"protocolVersion": "2025-11-25"}}


def test_which_request_is_cancelled_is_a_number() -> None:
    said: Data = {"method": "notifications/cancelled", "params": {"requestId": 4, "reason": "late"}}
    call = say_call(_server(), said)
    assert call.request == {"server": "web", "params": {"reason": "late"}}


def test_answers_of_the_client_are_compared() -> None:
    call = reply_call(_server(), "roots/list", {"id": 1, "result": {"roots": []}})
    assert (call.operation, call.request) == (
        "roots/list",
        {"server": "web", "result": {"roots": []}},
    )
    failed = reply_call(_server(), "roots/list", {"id": 1, "error": {"code": 1, "message": "no"}})
    assert failed.request["error"] == {"code": 1, "message": "no"}


def test_answers_of_a_tool() -> None:
    call = _ask("tools/call", {"name": "add"})
    good: Data = {"result": {"content": [], "isError": False}}
    assert CODEC.dump(call, good) == {"ok": True, "result": good["result"]}
    bad: Data = {"result": {"content": [], "isError": True}}
    assert CODEC.dump(call, bad) == {"ok": False, "result": bad["result"]}
    assert CODEC.load(call, CODEC.dump(call, bad))["result"] == bad["result"]


def test_the_id_of_a_session_is_kept_with_the_answer() -> None:
    call = _ask("initialize", {})
    data = CODEC.dump(call, {"result": {}, "sessionId": "s"})
    assert data == {"response": {}, "mcpSessionId": "s"}
    assert CODEC.load(call, data) == {"result": {}, "sessionId": "s"}


def test_errors_come_again_as_they_were_told() -> None:
    call = _ask("ping")
    said: Data = {"code": -5, "message": "no", "data": {"why": 1}}
    again = CODEC.load_error(call, {"class": "x", "message": "no", "kind": "failed", "rpc": said})
    assert isinstance(again, RpcError)
    assert told(again) == said


def test_what_else_fails_is_told_in_words() -> None:
    call = _ask("ping")
    again = CODEC.load_error(call, CODEC.dump_error(call, OSError(2, "gone")))
    assert isinstance(again, OSError)
    assert told(again) == {"code": -32000, "message": "[Errno 2] gone"}
