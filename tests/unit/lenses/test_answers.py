"""What whole answers mean, streamed and not, for every API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reenact.lenses.conversation import read_response
from reenact.lenses.model import Answered, Reasoning, ToolUse
from tests.unit.lenses import spoken
from tests.unit.lenses.spoken import AWS, JSON, NDJSON, SSE, call_piece, chunk, event, frame, sse

PARIS = {"city": "Paris"}


def _read(lens: str, kind: str, body: Any) -> Answered:
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    answered = read_response(lens, 200, kind, encoded)
    assert answered is not None
    return answered


def test_chat_streamed() -> None:
    assert _read("openai.chat", SSE, spoken.CHAT) == Answered(
        model="gpt-x-2026",
        id="chatcmpl-1",
        stop_reason="tool_calls",
        text="Let me see 🙂.",
        tool_calls=(
            ToolUse(id="call_a", name="weather", arguments=PARIS),
            ToolUse(id="call_b", name="weather", arguments={"city": "Rome"}),
        ),
        usage={"input": 20, "output": 9, "cacheRead": 8, "reasoning": 0, "total": 29},
    )


def test_responses_streamed_and_not() -> None:
    expected = Answered(
        model="gpt-x-2026",
        id="resp_1",
        stop_reason="completed",
        text="Sunny, 21 °C.",
        tool_calls=(ToolUse(id="call_1", item="fc_1", name="weather", arguments=PARIS),),
        reasoning=(Reasoning(id="rs_1", text="Thinking of Paris.", opaque="gAAAA+/opaque=="),),
        usage={"input": 30, "output": 12, "cacheRead": 10, "reasoning": 5, "total": 42},
    )
    assert _read("openai.responses", SSE, spoken.RESPONSES) == expected
    assert _read("openai.responses", JSON, spoken.RESPONSE) == expected


@pytest.mark.parametrize(
    "kind,body", [(SSE, spoken.ANTHROPIC), (AWS, spoken.ANTHROPIC_ON_BEDROCK)], ids=["sse", "aws"]
)
def test_anthropic_streamed(kind: str, body: bytes) -> None:
    assert _read("anthropic.messages", kind, body) == Answered(
        model="claude-x-2026",
        id="msg_01",
        stop_reason="tool_use",
        text="I'll look at both ☂.",
        tool_calls=(
            ToolUse(id="toolu_1", name="weather", arguments=PARIS),
            ToolUse(id="toolu_2", name="now", arguments={}),
        ),
        reasoning=(
            Reasoning(text="Paris, then.", opaque="EqQBCg+sig/=="),
            Reasoning(opaque="EmwKAhgB+data"),
        ),
        usage={"input": 11, "output": 89, "cacheRead": 7, "cacheWrite": 5},
    )


@pytest.mark.parametrize(
    "kind,body",
    [(SSE, spoken.GEMINI), (JSON, spoken.GEMINI_LIST), (JSON, spoken.GEMINI_WHOLE)],
    ids=["sse", "list", "whole"],
)
def test_gemini_in_three_forms(kind: str, body: Any) -> None:
    assert _read("google.generate", kind, body) == Answered(
        model="gemini-x",
        id="r-1",
        stop_reason="STOP",
        text="Both cities:",
        tool_calls=(
            ToolUse(id="fc-1", name="weather", arguments=PARIS, opaque="CikB+sig/w=="),
            ToolUse(name="weather", arguments={"city": "Rome"}),
        ),
        reasoning=(Reasoning(text="Let me think."),),
        usage={"input": 8, "output": 30, "cacheRead": 4, "reasoning": 11, "total": 49},
    )


def test_converse_streamed() -> None:
    assert _read("bedrock.converse", AWS, spoken.CONVERSE) == Answered(
        stop_reason="tool_use",
        text="I'll look.",
        tool_calls=(ToolUse(id="tooluse_1", name="weather", arguments=PARIS),),
        reasoning=(Reasoning(text="Paris, then.", opaque="EqQB+sig=="),),
        usage={"input": 15, "output": 25, "cacheRead": 2, "cacheWrite": 1, "total": 43},
    )


def test_ollama_streamed() -> None:
    assert _read("ollama.chat", NDJSON, spoken.OLLAMA) == Answered(
        model="llama-x",
        stop_reason="stop",
        text="One moment.",
        tool_calls=(ToolUse(name="weather", arguments=PARIS),),
        reasoning=(Reasoning(text="Hm. Paris."),),
        usage={"input": 26, "output": 14},
    )


# Particular things


def test_a_count_that_comes_as_null_does_not_undo_an_earlier_one() -> None:
    later = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"input_tokens": None, "cache_read_input_tokens": 70, "output_tokens": 9},
    }
    body = sse(spoken.ANTHROPIC_EVENTS[0], later, {"type": "message_stop"}, named=True)
    usage = {"input": 11, "output": 9, "cacheRead": 70, "cacheWrite": 5}
    assert _read("anthropic.messages", SSE, body).usage == usage


def test_a_block_may_begin_with_something_in_it() -> None:
    start = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": "A"},
    }
    more = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "B"}}
    assert _read("anthropic.messages", SSE, sse(start, more, named=True)).text == "AB"


def test_several_choices_are_told_apart_however_their_pieces_come() -> None:
    body = sse(
        chunk({"content": "b"}, index=1),
        chunk({"content": "a"}, index=0),
        chunk({"content": "B"}, "length", index=1),
        chunk({"content": "A"}, "stop", index=0),
        done=True,
    )
    answered = _read("openai.chat", SSE, body)
    assert (answered.text, answered.stop_reason) == ("aA", "stop")
    assert [(one.text, one.stop_reason) for one in answered.others] == [("bB", "length")]


def test_a_refusal_is_no_text() -> None:
    body = sse(chunk({"refusal": "I can"}), chunk({"refusal": "not."}, "stop"), done=True)
    streamed = _read("openai.chat", SSE, body)
    assert (streamed.text, streamed.refusal) == ("", "I cannot.")
    item = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}
    whole = _read("openai.responses", JSON, spoken.response("completed", [item]))
    assert (whole.text, whole.refusal) == ("", "No.")


def test_usage_is_unknown_where_nobody_asked_for_it() -> None:
    answered = _read("openai.chat", SSE, sse(chunk({"content": "a"}, "stop"), done=True))
    assert answered.usage is None


def test_arguments_that_are_no_json_stay_text() -> None:
    piece = call_piece(0, '{"city": "Par', id="c", name="weather")
    answered = _read("openai.chat", SSE, sse(chunk(piece), chunk({}, "length"), done=True))
    assert answered.tool_calls == (ToolUse(id="c", name="weather", arguments='{"city": "Par'),)


def test_numbers_in_arguments_keep_every_digit() -> None:
    piece = call_piece(0, '{"n": 123456789012345678901234567890}', id="c", name="f")
    answered = _read("openai.chat", SSE, sse(chunk(piece, "tool_calls"), done=True))
    assert answered.tool_calls[0].arguments == {"n": 123456789012345678901234567890}


def test_calls_without_an_index_are_told_apart_by_their_ids() -> None:
    first = {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{"}}]}
    rest = {"tool_calls": [{"function": {"arguments": "}"}}]}
    second = {"tool_calls": [{"id": "b", "function": {"name": "g", "arguments": "{}"}}]}
    body = sse(chunk(first), chunk(rest), chunk(second, "tool_calls"), done=True)
    calls = _read("openai.chat", SSE, body).tool_calls
    assert [(call.id, call.name, call.arguments) for call in calls] == [
        ("a", "f", {}),
        ("b", "g", {}),
    ]


def test_the_old_function_call_is_a_tool_call_without_an_id() -> None:
    body = sse(
        chunk({"function_call": {"name": "f", "arguments": '{"a"'}}),
        chunk({"function_call": {"arguments": ":1}"}}, "function_call"),
        done=True,
    )
    assert _read("openai.chat", SSE, body).tool_calls == (ToolUse(name="f", arguments={"a": 1}),)


def test_reasoning_of_compatible_servers() -> None:
    body = sse(
        chunk({"reasoning_content": "Hm"}),
        chunk({"reasoning_content": "."}),
        chunk({"content": "Yes."}, "stop"),
        done=True,
    )
    answered = _read("openai.chat", SSE, body)
    assert (answered.text, answered.reasoning) == ("Yes.", (Reasoning(text="Hm."),))


def test_reasoning_details_keep_what_is_opaque() -> None:
    def told(**detail: Any) -> Any:
        return {"reasoning": "x", "reasoning_details": [{"index": 0, **detail}]}

    body = sse(
        chunk(told(type="reasoning.text", text="Hm", id="r1")),
        chunk(told(type="reasoning.text", text=".", signature="sig==")),
        chunk({"reasoning_details": [{"index": 1, "type": "reasoning.encrypted", "data": "enc"}]}),
        done=True,
    )
    assert _read("openai.chat", SSE, body).reasoning == (
        Reasoning(id="r1", text="Hm.", opaque="sig=="),
        Reasoning(opaque="enc"),
    )


def test_thinking_in_the_parts_of_a_message() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    body = sse(chunk({"content": [thought]}), chunk({"content": "Yes."}, "stop"), done=True)
    answered = _read("openai.chat", SSE, body)
    assert (answered.text, answered.reasoning) == ("Yes.", (Reasoning(text="Hm."),))


def test_sounds_and_pictures_are_described() -> None:
    message = {"content": None, "audio": {"id": "audio_1", "data": "AAAA", "transcript": "Hi"}}
    whole = {"choices": [{"message": message, "finish_reason": "stop"}]}
    assert _read("openai.chat", JSON, whole).attached == ("audio audio_1 (4 characters)",)
    part = {"inlineData": {"mimeType": "image/png", "data": "AAAAAA"}}
    picture = {"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}
    assert _read("google.generate", JSON, picture).attached == ("image/png (6 characters)",)
    item = {"type": "image_generation_call", "id": "ig_1", "result": "AA"}
    answered = _read("openai.responses", JSON, spoken.response("completed", [item]))
    assert (answered.attached, answered.tool_calls) == (("image ig_1 (2 characters)",), ())


def test_an_incomplete_response_says_why() -> None:
    body = spoken.response("incomplete", [], incomplete_details={"reason": "max_output_tokens"})
    streamed = sse({"type": "response.incomplete", "response": body}, named=True)
    answered = _read("openai.responses", SSE, streamed)
    assert (answered.stop_reason, answered.complete) == ("max_output_tokens", True)


def test_a_failed_response_says_what_went_wrong() -> None:
    error = {"code": "server_error", "message": "Oh."}
    body = spoken.response("failed", [], error=error)
    streamed = sse({"type": "response.failed", "response": body}, named=True)
    answered = _read("openai.responses", SSE, streamed)
    assert (answered.stop_reason, answered.error) == ("failed", "server_error: Oh.")
    alone = sse({"type": "error", "code": "rate_limit", "message": "Slow."}, named=True)
    assert _read("openai.responses", SSE, alone).error == "rate_limit: Slow."


def test_items_count_where_the_last_event_has_none() -> None:
    events = [
        json.loads(line[6:]) for line in spoken.RESPONSES.split(b"\n") if line.startswith(b"data: ")
    ]
    bare = {"type": "response.completed", "response": spoken.response("completed", [])}
    answered = _read("openai.responses", SSE, sse(*events[:-1], bare))
    assert answered.text == "Sunny, 21 °C."
    assert [call.item for call in answered.tool_calls] == ["fc_1"]
    assert answered.reasoning[0].opaque == "gAAAA+/opaque=="


def test_the_last_event_is_enough() -> None:
    last = {"type": "response.completed", "response": spoken.RESPONSE}
    whole = _read("openai.responses", JSON, spoken.RESPONSE)
    assert _read("openai.responses", SSE, sse(last, named=True)) == whole


def test_an_item_that_was_ended_counts_as_it_was_then() -> None:
    place = {"output_index": 0, "content_index": 0}
    item = {"type": "message", "content": [{"type": "output_text", "text": "Yes."}]}
    piece = {"type": "response.output_text.delta", "delta": "Ye", **place}
    begun = _read("openai.responses", SSE, sse(piece))
    ended = sse(piece, {"type": "response.output_item.done", "item": item, **place})
    assert (begun.text, _read("openai.responses", SSE, ended).text) == ("Ye", "Yes.")


def test_calls_that_the_provider_makes_itself_are_hosted() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "action": {"query": "q"}}
    shell = {"type": "local_shell_call", "id": "ls", "call_id": "c", "action": {"command": ["ls"]}}
    custom = {"type": "custom_tool_call", "id": "ct", "call_id": "d", "name": "sql", "input": "1"}
    output = [search, shell, custom]
    calls = _read("openai.responses", JSON, spoken.response("completed", output)).tool_calls
    assert calls == (
        ToolUse(id="ws_1", item="ws_1", name="web_search", arguments={"query": "q"}, hosted=True),
        ToolUse(id="c", item="ls", name="local_shell", arguments={"command": ["ls"]}),
        ToolUse(id="d", item="ct", name="sql", arguments="1"),
    )
    block = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"query": "q"}}
    answered = _read("anthropic.messages", JSON, {"content": [block]})
    assert [call.hosted for call in answered.tool_calls] == [True]


def test_an_error_in_the_middle_of_a_stream() -> None:
    fault = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    answered = _read(
        "anthropic.messages", SSE, sse(*spoken.ANTHROPIC_EVENTS[:11], fault, named=True)
    )
    assert (answered.text, answered.error) == ("I'll look ", "overloaded_error: Overloaded")
    assert answered.complete
    chat = sse(chunk({"content": "a"}), {"error": {"message": "Upstream", "code": 502}})
    assert _read("openai.chat", SSE, chat).error == "Upstream"


@pytest.mark.parametrize(
    "fault",
    [
        frame(
            b'{"message":"Slow."}', message_type="exception", exception_type="throttlingException"
        ),
        frame(b"", message_type="error", error_code="throttlingException", error_message="Slow."),
        frame(b"Slow.", message_type="exception", exception_type="throttlingException"),
    ],
    ids=["exception", "error", "text"],
)
def test_exceptions_in_an_event_stream(fault: bytes) -> None:
    start = event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "I"}})
    answered = _read("bedrock.converse", AWS, start + fault)
    assert (answered.text, answered.error) == ("I", "throttlingException: Slow.")


def test_converse_ends_with_its_reason_the_usage_comes_behind() -> None:
    answered = _read("bedrock.converse", AWS, event("messageStop", {"stopReason": "end_turn"}))
    assert (answered.stop_reason, answered.usage, answered.complete) == ("end_turn", None, True)


def test_redacted_reasoning_of_converse() -> None:
    delta = {"contentBlockIndex": 0, "delta": {"reasoningContent": {"redactedContent": "AAA="}}}
    answered = _read("bedrock.converse", AWS, event("contentBlockDelta", delta))
    assert answered.reasoning == (Reasoning(opaque="AAA="),)


def test_a_blocked_prompt_is_why_gemini_stops() -> None:
    answered = _read("google.generate", JSON, {"promptFeedback": {"blockReason": "SAFETY"}})
    assert (answered.stop_reason, answered.complete) == ("SAFETY", True)


def test_a_signature_of_plain_text_is_kept() -> None:
    part = {"text": "Yes.", "thoughtSignature": "sig=="}
    body = {"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}
    answered = _read("google.generate", JSON, body)
    assert (answered.text, answered.reasoning) == ("Yes.", (Reasoning(opaque="sig=="),))


def test_a_stream_is_known_by_its_looks() -> None:
    for kind in ("", "application/json", "text/plain"):
        assert _read("openai.chat", kind, spoken.CHAT).text == "Let me see 🙂."
        assert _read("ollama.chat", kind, spoken.OLLAMA).text == "One moment."


def test_json_that_breaks_off_is_not_complete() -> None:
    body = json.dumps(spoken.ANTHROPIC_WHOLE).encode()
    answered = _read("anthropic.messages", JSON, body[:-10])
    assert (answered.complete, answered.text) == (False, "")


def test_half_a_character_is_a_question_mark_and_takes_nothing_with_it() -> None:
    whole = sse(chunk({"content": "a\U0001f642b"}, "stop"), done=True)
    halves = whole.replace(b"\\ude42", b"")
    assert halves != whole
    answered = _read("openai.chat", SSE, halves)
    assert (answered.text, answered.stop_reason) == ("a?b", "stop")


def test_the_end_mark_counts_without_the_line_behind_it() -> None:
    for end in (b"data: [DONE]", b"data: [DONE]\n", b"data:[DONE]\r\n"):
        body = sse(chunk({"content": "a"}, "stop")) + end
        assert _read("openai.chat", SSE, body).complete
