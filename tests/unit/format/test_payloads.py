from __future__ import annotations

from typing import Any

import pytest

from reenact.errors import ValueRefused
from reenact.format.event import TYPES, Data, Event, Head
from reenact.format.event_fields import (
    PAYLOADS,
    ErrorInfo,
    LlmRequest,
    LlmResponse,
    Nondeterministic,
    Payload,
    RunEnd,
    RunStart,
    StateMutation,
    ToolCall,
    ToolResult,
    read,
)

MINIMUM: dict[str, Data] = {
    "run_start": {},
    "run_end": {"status": "ok"},
    "llm_request": {"provider": "p", "model": "m", "inputHash": "sha256:0"},
    "llm_response": {"provider": "p", "model": "m", "stopReason": None, "usage": None},
    "tool_call": {"name": "t", "args": {}, "callId": "c"},
    "tool_result": {"callId": "c", "ok": True},
    "state_mutation": {"type": "file_write", "details": {}},
    "nondeterministic": {"source": "clock", "key": "k", "valueHash": "sha256:0"},
}

WHOLE: list[tuple[Payload, Data]] = [
    (
        RunStart(input={"q": 1}, argv=["a", "b"], session_key="s"),
        {"input": {"q": 1}, "argv": ["a", "b"], "sessionKey": "s"},
    ),
    (
        RunEnd(
            status="error",
            output=[1],
            usage={"inputTokens": 3},
            stop_reason="end",
            error=ErrorInfo("builtins.KeyError", "'k'", "bug"),
            exit_code=1,
            stdout_digest="sha256:1",
            stderr_digest="sha256:2",
        ),
        {
            "status": "error",
            "output": [1],
            "usage": {"inputTokens": 3},
            "stopReason": "end",
            "error": {"class": "builtins.KeyError", "message": "'k'", "kind": "bug"},
            "exitCode": 1,
            "stdoutDigest": "sha256:1",
            "stderrDigest": "sha256:2",
        },
    ),
    (
        LlmRequest(
            provider="p", model="m", input_hash="h", tool_schema_hash="t", attempt=1, call=2
        ),
        {
            "provider": "p",
            "model": "m",
            "inputHash": "h",
            "toolSchemaHash": "t",
            "attempt": 1,
            "call": 2,
        },
    ),
    (
        LlmResponse(
            provider="p", model="m", stop_reason="stop", usage={"n": 1}, response={"x": b"y"}
        ),
        {
            "provider": "p",
            "model": "m",
            "stopReason": "stop",
            "usage": {"n": 1},
            "response": {"x": b"y"},
        },
    ),
    (ToolCall(name="t", args=[1], call_id="c"), {"name": "t", "args": [1], "callId": "c"}),
    (
        ToolResult(call_id="c", ok=False, error=ErrorInfo("E")),
        {"callId": "c", "ok": False, "error": {"class": "E"}},
    ),
    (
        StateMutation(kind="env_read", details={"name": "HOME"}),
        {"type": "env_read", "details": {"name": "HOME"}},
    ),
    (
        Nondeterministic(source="rng", key="k", value_hash="h", value=0.5),
        {"source": "rng", "key": "k", "valueHash": "h", "value": 0.5},
    ),
]

REQUIRED = [(kind, name) for kind, data in MINIMUM.items() for name in data]


def test_every_type_has_a_payload() -> None:
    assert set(PAYLOADS) == set(TYPES) == set(MINIMUM)
    assert {type(payload) for payload, _ in WHOLE} == set(PAYLOADS.values())


@pytest.mark.parametrize("payload, data", WHOLE, ids=[p.event_type for p, _ in WHOLE])
def test_a_typed_value_becomes_its_json_names_and_comes_back(payload: Payload, data: Data) -> None:
    assert payload.to_data() == data
    assert type(payload).from_data(data) == payload


@pytest.mark.parametrize("kind", TYPES)
def test_the_minimum_fields_are_enough(kind: str) -> None:
    found = PAYLOADS[kind].from_data(MINIMUM[kind])
    assert MINIMUM[kind].items() <= found.to_data().items()


@pytest.mark.parametrize("kind, name", REQUIRED)
def test_a_missing_minimum_field_is_named(kind: str, name: str) -> None:
    data = {key: item for key, item in MINIMUM[kind].items() if key != name}
    with pytest.raises(ValueRefused, match=f"not a valid {kind}.*`{name}`") as caught:
        PAYLOADS[kind].from_data(data)
    assert caught.value.path == "$.data"


@pytest.mark.parametrize(
    "kind, name, wrong, path",
    [
        ("tool_result", "ok", 1, "$.data.ok"),
        ("run_end", "status", "fine", "$.data.status"),
        ("run_end", "error", {"message": "x"}, "$.data.error"),
        ("llm_request", "model", None, "$.data.model"),
        ("state_mutation", "details", [], "$.data.details"),
        ("run_start", "argv", ["a", 1], "$.data.argv[1]"),
    ],
)
def test_a_field_of_another_type_is_refused_with_its_path(
    kind: str, name: str, wrong: Any, path: str
) -> None:
    with pytest.raises(ValueRefused) as caught:
        PAYLOADS[kind].from_data({**MINIMUM[kind], name: wrong})
    assert caught.value.path == path


@pytest.mark.parametrize("kind", TYPES)
def test_fields_that_are_not_declared_survive(kind: str) -> None:
    data = {**MINIMUM[kind], "wire": {"status": 200}, "extra": [b"x"]}
    found = PAYLOADS[kind].from_data(data)
    assert found.extra == {"wire": {"status": 200}, "extra": [b"x"]}
    assert found.to_data() == data


def test_a_declared_field_wins_over_an_extra_one_of_the_same_name() -> None:
    call = ToolCall(name="t", args={}, call_id="c", extra={"name": "other", "more": 1})
    assert call.to_data() == {"name": "t", "args": {}, "callId": "c", "more": 1}


def event(kind: str, payload: bytes) -> Event:
    head = Head(version=1, capture_id="c", run_id="r", seq=1, ts=0, type=kind)
    return Event(head, payload, lambda _, stored: stored)


def test_read_gives_the_typed_value_of_an_event() -> None:
    found = read(event("tool_call", b'{"args":[],"callId":"c","name":"t"}'))
    assert found == ToolCall(name="t", args=[], call_id="c")


def test_read_of_an_unknown_type_is_none() -> None:
    assert read(event("dream", b"{}")) is None
