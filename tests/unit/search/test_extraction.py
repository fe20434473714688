"""What events say, whatever they hold."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reenact.format.canonical import stored
from reenact.format.event import Event, Head
from reenact.search.extraction import Call, close_call, open_call, opening_type


def _event(type: str, data: dict[str, Any], seq: int = 1) -> Event:
    head = Head(version=1, capture_id="c", run_id="r", seq=seq, ts=5, type=type)
    return Event(head, stored(data), lambda _, payload: payload)


def _said(call: Call | None) -> list[tuple[str, str]]:
    assert call is not None
    return [(one.role, one.text) for one in call.texts]


def test_draws_and_deliveries_are_no_calls() -> None:
    for source in ("clock", "rng", "env", "schedule", "sleep"):
        assert open_call(_event("nondeterministic", {"source": source, "key": "x"})) is None


def test_http() -> None:
    data = {
        "source": "network",
        "op": "POST",
        "request": {"method": "POST", "url": "https://api.example/v1?q=1", "body": {"a": "b"}},
        "response": {
            "status": 503,
            "headers": [["X-Request-Id", "req_77"], ["Date", "today"]],
            "body": '{"error": "busy"}',
        },
    }
    call = open_call(_event("nondeterministic", data))
    assert _said(call) == [
        ("call", "POST https://api.example/v1?q=1"),
        ("id", "X-Request-Id: req_77"),
        ("request", "a: b"),
        ("response", "error: busy"),
    ]
    assert call is not None
    assert (call.kind, call.name, call.host, call.status) == ("network", "POST", "api.example", 503)
    assert call.failed


def test_a_process() -> None:
    data = {
        "source": "process",
        "op": "git",
        "request": {"argv": ["git", "log"], "cwd": "/x"},
        "response": {"exitCode": 128, "stderr": "fatal: no repository", "turns": [[1, 2, 3, 4]]},
    }
    call = open_call(_event("nondeterministic", data))
    assert _said(call) == [
        ("call", "git log"),
        ("request", "cwd: /x"),
        ("response", "exitCode: 128\nstderr: fatal: no repository"),
    ]
    assert call is not None
    assert call.failed
    assert call.status == 128


def test_a_tool_that_fails() -> None:
    call = open_call(
        _event("tool_call", {"name": "weather", "args": {"city": "X"}, "callId": "c9"})
    )
    assert call is not None
    assert opening_type("tool_result") == "tool_call"
    error = {"class": "builtins.ValueError", "message": "no such city"}
    close_call(call, _event("tool_result", {"callId": "c9", "ok": False, "error": error}, seq=2))
    assert _said(call) == [
        ("call", "weather c9"),
        ("arguments", "city: X"),
        ("error", "builtins.ValueError: no such city"),
    ]
    assert (call.failed, call.closed) == (True, 2)


def test_a_model_call_is_its_messages_and_its_answer() -> None:
    asked = {
        "lens": "openai.chat",
        "provider": "openai",
        "model": "gpt-5",
        "request": {
            "method": "POST",
            "url": "https://api.openai.com/v1/chat/completions",
            "body": {
                "model": "gpt-5",
                "messages": [
                    {"role": "system", "content": "Be kind."},
                    {"role": "user", "content": "Warm?"},
                ],
            },
            "type": "json",
        },
    }
    call = open_call(_event("llm_request", asked))
    assert call is not None
    assert [(one.role, one.text) for one in call.texts if one.repeated] == [
        ("system", "Be kind."),
        ("user", "Warm?"),
    ]
    body = '{"id": "chatcmpl-7", "choices": [{"message": {"content": "Yes."}}]}'
    headers = [["content-type", "application/json"]]
    response = {"status": 200, "headers": headers, "body": body}
    call.texts = []
    close_call(call, _event("llm_response", {"response": response}, seq=2))
    assert _said(call) == [("answer", "Yes."), ("id", "chatcmpl-7")]
    assert (call.provider, call.model, call.status, call.failed) == ("openai", "gpt-5", 200, False)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
_names = st.sampled_from(
    "request response args result error status argv headers body url method callId source op lens "
    "input output exitCode provider model value withheld details decoded".split()
)
_types = st.sampled_from(
    "run_start run_end llm_request llm_response tool_call tool_result state_mutation "
    "nondeterministic later".split()
)


@given(_types, st.dictionaries(_names, _json | st.dictionaries(_names, _json, max_size=4)))
def test_any_field_may_hold_anything(type: str, data: dict[str, Any]) -> None:
    call = open_call(_event(type, data))
    if call is not None:
        close_call(
            call, _event("llm_response" if type == "llm_request" else "tool_result", data, 2)
        )
        assert all(one.text.strip() for one in call.texts)
