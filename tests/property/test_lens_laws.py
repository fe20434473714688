"""Laws of the lenses: no input makes them raise, and what breaks off means what was there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.lenses.content import content_of, frames, refused
from reenact.lenses.conversation import read_event, read_request, read_response, read_with
from reenact.lenses.registry import TABLE, Lens, lens_named, may_ask, place_of
from tests.unit.lenses.spoken import AWS, JSON, NDJSON, SSE, STREAMS, event, frame, ndjson, sse

LENSES = [lens for row in TABLE if (lens := lens_named(row.name)) is not None]
NAMES = st.sampled_from(
    """
    model messages role content type text tool_calls function name arguments id index choices delta
    finish_reason usage prompt_tokens total_tokens input output response item output_index status
    call_id summary encrypted_content message content_block partial_json thinking signature
    stop_reason input_tokens max_tokens system tools candidates parts functionCall args thought
    finishReason usageMetadata promptTokenCount contents contentBlockIndex start toolUse toolUseId
    reasoningContent reasoningText stopReason toolConfig done done_reason error code source data url
    stream prompt functionResponse toolResult json image format bytes inlineData mimeType audio
    reasoning_details function_call images anthropic_version incomplete_details reason custom
    """.split()
)
KINDS = st.sampled_from(
    """
    message function_call reasoning text thinking tool_use tool_result image message_start
    content_block_start content_block_delta message_delta message_stop error computer_call
    response.completed response.output_item.added response.output_item.done user tool assistant
    response.output_text.delta response.function_call_arguments.delta function_call_output
    web_search_call image_url input_image redacted_thinking server_tool_use
    """.split()
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.integers(-(10**80), 10**80),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    KINDS,
    st.sampled_from(["data:image/png;base64,AA", '{"a":1}', "{", "[DONE]"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(NAMES, st.text(max_size=3)), inner, max_size=6),
    ),
    max_leaves=30,
)
BODIES = st.dictionaries(NAMES, VALUES, max_size=8)
WORDS = st.text(st.sampled_from("ab/?#&=%:@[]\\ .2F\u00fc\u2713\ud800\n"), max_size=20)
URLS = st.builds(
    lambda head, ending, tail: head + ending + tail,
    st.one_of(WORDS, st.sampled_from(["https://h/model/m", "http://[::1]:1/openai/deployments/d"])),
    st.sampled_from([path for lens in LENSES for path in lens.paths]),
    st.one_of(st.just(""), st.just("?a=1"), WORDS),
)
MODULES = st.sampled_from(LENSES)
TYPES = st.sampled_from([SSE, AWS, NDJSON, JSON, "", "text/html", "text/plain", ";;"])


@given(MODULES, URLS, BODIES)
def test_a_lens_takes_any_request(lens: Lens, url: str, body: dict[str, Any]) -> None:
    asked = lens.asked(place_of(url), body)
    if asked is not None:
        assert asked.lens == lens.name
        assert isinstance(asked.model, str)
        assert isinstance(lens.messages(asked.input), tuple)


@given(WORDS, URLS, VALUES)
def test_any_request_can_be_read(method: str, url: str, body: Any) -> None:
    assert read_request(method, url, body) is None
    asked = read_request("POST", url, body)
    assert asked is None or (may_ask("POST", url) and asked.lens in {one.name for one in LENSES})


@given(MODULES, st.lists(VALUES, max_size=6), st.sampled_from(["sse", "aws", "ndjson", "json"]))
def test_a_lens_takes_any_answer(lens: Lens, values: list[Any], form: str) -> None:
    encoded = json.dumps(values[0] if values else None).encode()
    body, kind = {
        "sse": (sse(*values), SSE),
        "aws": (b"".join(event("contentBlockDelta", value) for value in values), AWS),
        "ndjson": (ndjson(*values), NDJSON),
        "json": (encoded, JSON),
    }[form]
    answered = read_with(lens, 200, kind, body)
    assert answered is not None
    assert isinstance(answered.text, str)
    assert answered.usage is None or all(type(count) is int for count in answered.usage.values())
    failed = read_with(lens, 500, kind, body)
    assert failed is not None
    assert failed.error


@given(
    MODULES, st.integers(-1, 999), st.one_of(TYPES, st.text(max_size=9)), st.binary(max_size=200)
)
def test_a_lens_takes_any_bytes(lens: Lens, status: int, kind: str, body: bytes) -> None:
    answered = read_with(lens, status, kind, body)
    assert answered == read_response(lens.name, status, kind, body)
    if status >= 400:
        assert answered is not None
        assert answered.error


@given(st.binary(max_size=60), st.binary(max_size=60), st.integers(0, 10**6))
def test_a_damaged_frame_ends_the_stream(payload: bytes, rest: bytes, at: int) -> None:
    whole = frame(payload, event_type="x")
    assert [one.payload for one in frames(whole + whole)] == [payload, payload]
    place = at % len(whole)
    damaged = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
    assert list(frames(damaged + rest)) == []


@given(VALUES)
def test_any_error_has_a_text(value: Any) -> None:
    assert refused(500, content_of(JSON, json.dumps(value).encode()))


@given(st.dictionaries(st.sampled_from(["request", "response", "lens"]), VALUES), BODIES, URLS)
def test_any_stored_event_can_be_read(data: dict[str, Any], body: dict[str, Any], url: str) -> None:
    told = {**body, "method": "POST", "url": url, "body": data, "status": 200}
    for one in (data, {**data, "request": told}, {"lens": "openai.chat", "response": told}):
        found = read_event(one, lens="anthropic.messages")
        assert found is None or found.model is not None


@pytest.mark.parametrize("name,kind,body", STREAMS, ids=lambda value: str(value)[:20])
def test_a_stream_that_breaks_off_means_what_was_there(name: str, kind: str, body: bytes) -> None:
    whole = read_response(name, 200, kind, body)
    assert whole is not None
    assert whole.complete
    complete = []
    for end in range(len(body)):
        part = read_response(name, 200, kind, body[:end])
        assert part is not None
        assert whole.text.startswith(part.text)
        assert len(part.tool_calls) <= len(whole.tool_calls)
        complete.append(part.complete)
    assert complete == sorted(complete)
    assert not complete[len(body) // 2]


@pytest.mark.parametrize(
    "opening,closing", [(b"[", b"]"), (b'{"a":', b"}")], ids=["list", "object"]
)
@pytest.mark.parametrize("lens", LENSES, ids=lambda lens: lens.name)
def test_deep_nesting_is_no_answer(lens: Lens, opening: bytes, closing: bytes) -> None:
    deep = opening * 100_000 + b"1" + closing * 100_000
    for kind, body in ((JSON, deep), (SSE, b"data: " + deep + b"\n\n"), (NDJSON, deep + b"\n")):
        answered = read_with(lens, 200, kind, body)
        assert answered is None or answered.text == ""


def _nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"content": [value]}
    return value


@pytest.mark.parametrize("lens", LENSES, ids=lambda lens: lens.name)
def test_deep_requests_are_read_as_far_as_they_make_sense(lens: Lens) -> None:
    deep = _nested(50_000)
    body = {"model": "m", "messages": [deep], "contents": [deep], "input": [deep], "max_tokens": 1}
    asked = read_request("POST", f"https://host/model/m{lens.paths[0]}", body)
    assert asked is not None
    assert len(lens.messages(asked.input)) == 1


@pytest.mark.parametrize("count", [10**30, -1, 1.5, True, "7", None, [1]], ids=str)
def test_a_count_that_is_none_is_left_out(count: Any) -> None:
    body = json.dumps({"choices": [], "usage": {"prompt_tokens": count, "total_tokens": 3}})
    answered = read_response("openai.chat", 200, JSON, body.encode())
    assert answered is not None
    assert answered.usage == {"total": 3}
