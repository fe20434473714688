"""The meaning of stored events, and the turns that they make."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from reenact.boundaries.http.encoding import look
from reenact.lenses.conversation import conversation, read_event
from reenact.lenses.model import Answered, Asked
from tests.unit.lenses.spoken import ANTHROPIC, CHAT, SSE

URL = "https://api.openai.com/v1/chat/completions"
BODY: Any = {"model": "gpt-x", "messages": [{"role": "user", "content": "Weather?"}]}


class _Event:
    """As much of an event as is looked at."""

    def __init__(self, seq: int, kind: str, data: Any, parent: int | None = None) -> None:
        self.seq, self.type, self.data, self.parent = seq, kind, data, parent
        self.lane = "0.1"


def _request(**more: Any) -> dict[str, Any]:
    request = {"method": "POST", "url": URL, "type": "json", "body": BODY, **more}
    named = {"provider": "openai", "model": "gpt-x", "lens": "openai.chat", "attempt": 0, "call": 3}
    return {**named, "inputHash": "sha256:0", "request": request}


def _response(body: Any = CHAT, headers: Any = (), **more: Any) -> dict[str, Any]:
    pairs = [["Content-Type", SSE], *headers]
    kept = body.decode() if isinstance(body, bytes) and body.isascii() else body
    response = {"status": 200, "headers": pairs, "body": kept, **more}
    told = {"provider": "openai", "model": "gpt-x", "stopReason": "stop", "usage": {"total": 29}}
    return {**told, "response": response}


@pytest.mark.parametrize(
    "body",
    [BODY, b'{"model":"gpt-x","messages":[]}', '{"model":"gpt-x","messages":[]}'],
    ids=range(3),
)
def test_a_request_is_read_in_every_stored_form(body: Any) -> None:
    asked = read_event(_request(body=body))
    assert isinstance(asked, Asked)
    assert (asked.lens, asked.model) == ("openai.chat", "gpt-x")


def test_a_response_is_read_with_the_lens_of_its_request() -> None:
    answered = read_event(_response(), lens="openai.chat")
    assert isinstance(answered, Answered)
    assert answered.text == "Let me see 🙂."
    assert read_event(_response()) is None
    assert read_event({**_response(), "lens": "openai.chat"}) == answered


def _undo(body: bytes, coding: str) -> bytes | None:
    seen = look(body, coding)
    return None if seen is None else seen.text


def test_an_encoded_body_needs_somebody_who_knows_codings() -> None:
    data = _response(gzip.compress(CHAT), [["content-encoding", "gzip"]])
    plain = read_event(_response(), lens="openai.chat")
    assert read_event(data, lens="openai.chat", undo=_undo) == plain
    assert read_event(data, lens="openai.chat") is None


def test_a_body_that_was_decoded_to_be_redacted_is_read_as_it_is() -> None:
    data = _response(CHAT, [["content-encoding", "gzip"]], decoded="gzip")
    assert read_event(data, lens="openai.chat") == read_event(_response(), lens="openai.chat")


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"provider": "p", "model": "m", "inputHash": "x", "messages": []},
        _response(bodySecret="**", body=None),
        _response(status=None),
        _response({"$blob": 1}),
        {"response": "text"},
        {"request": "text"},
    ],
    ids=range(7),
)
def test_what_no_lens_can_read_is_none(data: Any) -> None:
    assert read_event(data, lens="openai.chat") is None


def test_an_answer_without_a_body_is_one_that_broke_off() -> None:
    data = _response()
    del data["response"]["body"]
    answered = read_event(data, lens="openai.chat")
    assert isinstance(answered, Answered)
    assert not answered.complete


def test_turns_are_requests_with_their_responses_however_they_interleave() -> None:
    anthropic = _request(
        url="https://api.anthropic.com/v1/messages", body={**BODY, "max_tokens": 9}
    )
    events = [
        _Event(1, "run_start", {}),
        _Event(2, "llm_request", _request()),
        _Event(3, "llm_request", anthropic),
        _Event(4, "tool_call", {}),
        _Event(5, "llm_response", _response(ANTHROPIC), parent=3),
        _Event(6, "llm_response", _response(), parent=2),
        _Event(7, "llm_request", _request()),
        _Event(8, "llm_response", _response(), parent=99),
    ]
    first, second, third = conversation(events)
    assert (first.seq, first.end, first.lane, first.call) == (2, 6, "0.1", 3)
    assert first.answered is not None
    assert first.answered.id == "chatcmpl-1"
    assert (first.stop_reason, first.usage) == ("stop", {"total": 29})
    assert second.answered is not None
    assert second.answered.id == "msg_01"
    assert (third.seq, third.end, third.answered) == (7, None, None)


def test_a_call_made_by_hand_is_a_turn_without_a_meaning() -> None:
    events = [
        _Event(1, "llm_request", {"provider": "p", "model": "m", "inputHash": "x"}),
        _Event(
            2,
            "llm_response",
            {"provider": "p", "model": "m", "stopReason": "end", "usage": None, "response": "Hi"},
            parent=1,
        ),
    ]
    [turn] = conversation(events)
    assert (turn.provider, turn.model, turn.stop_reason) == ("p", "m", "end")
    assert (turn.asked, turn.answered, turn.error) == (None, None, None)


def test_a_call_that_failed_says_with_what() -> None:
    error = {"class": "httpx.ReadTimeout", "message": "timed out"}
    events = [
        _Event(1, "llm_request", _request()),
        _Event(2, "llm_response", {"provider": "p", "model": "m", "error": error}, parent=1),
    ]
    assert conversation(events)[0].error == "httpx.ReadTimeout: timed out"
    refused = _response(b'{"error":{"message":"slow down"}}', status=429)
    events[1] = _Event(2, "llm_response", refused, parent=1)
    assert conversation(events)[0].error == "slow down"
