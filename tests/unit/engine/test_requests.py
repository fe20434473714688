"""Which part of an event is compared, and the name of the tenant."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.engine.request import BOOKKEEPING, kind_of, operation_of, request_of

BOOKS = dict.fromkeys(BOOKKEEPING, "x")
HTTP = {"method": "GET", "url": "https://example.com/"}


@pytest.mark.parametrize(
    "type, data, request_",
    [
        (
            "nondeterministic",
            {"source": "network", "op": "GET", "request": HTTP, "response": {}, **BOOKS},
            {"source": "network", "op": "GET", "request": HTTP},
        ),
        (
            "nondeterministic",
            {"source": "network", "request": HTTP, "value": 1},
            {"source": "network", "request": HTTP},
        ),
        (
            "nondeterministic",
            {"source": "clock", "key": "time.time", "valueHash": "h", "value": 1.5},
            {"source": "clock", "key": "time.time"},
        ),
        (
            "tool_call",
            {"name": "search", "args": {"q": 1}, "callId": "c1", **BOOKS},
            {"name": "search", "args": {"q": 1}},
        ),
        (
            "llm_request",
            {"provider": "p", "model": "m", "inputHash": "h", "messages": [], **BOOKS},
            {"provider": "p", "model": "m", "inputHash": "h", "messages": []},
        ),
        ("state_mutation", {"type": "file_write", "details": {}, **BOOKS}, None),
        (
            "run_start",
            {"input": "hello", "argv": [], "timing": {"ms": 3}},
            {"input": "hello", "argv": []},
        ),
        ("tool_call", {"withheld": {"digest": "d"}, "key": "k"}, {}),
        ("nondeterministic", {"withheld": {"digest": "d"}}, {}),
    ],
)
def test_the_request_is_what_was_asked(
    type: str, data: dict[str, Any], request_: dict[str, Any] | None
) -> None:
    expected = {"type": "file_write", "details": {}} if request_ is None else request_
    assert request_of(type, data) == expected


def test_the_data_is_left_as_it_was() -> None:
    data = {"name": "search", "args": {}, "callId": "c1"}
    request_of("tool_call", data)["name"] = "other"
    assert data["name"] == "search"


@pytest.mark.parametrize(
    "type, data, operation, kind",
    [
        ("tool_call", {"name": "search"}, "search", "tool"),
        ("tool_result", {"callId": "c"}, "", "tool"),
        ("llm_request", {"provider": "p", "model": "m"}, "p/m", "llm"),
        ("llm_response", {"provider": "p", "model": "m"}, "p/m", "llm"),
        ("llm_request", {"model": "m"}, "m", "llm"),
        ("nondeterministic", {"source": "network", "op": "GET"}, "network GET", "network"),
        ("nondeterministic", {"source": "clock", "key": "time.time"}, "clock", "clock"),
        ("nondeterministic", {}, "", "nondeterministic"),
        ("state_mutation", {"type": "file_write"}, "file_write", "state_mutation"),
        ("run_end", {"status": "ok"}, "", "run_end"),
        ("tool_call", {"name": 5}, "", "tool"),
    ],
)
def test_operation_and_kind(type: str, data: dict[str, Any], operation: str, kind: str) -> None:
    assert operation_of(type, data) == operation
    assert kind_of(type, data) == kind
