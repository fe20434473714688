"""Answers of model APIs, written after their public documentation; and the framing to send them."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from typing import Any
from zlib import crc32

SSE = "text/event-stream; charset=utf-8"
AWS = "application/vnd.amazon.eventstream"
NDJSON = "application/x-ndjson"
JSON = "application/json"


def sse(*values: Any, named: bool = False, done: bool = False) -> bytes:
    """Each value as one event; ``named`` with its ``type`` as the name."""
    lines = []
    for value in values:
        head = f"event: {value['type']}\n" if named else ""
        lines.append(f"{head}data: {json.dumps(value)}\n\n")
    return "".join([*lines, "data: [DONE]\n\n" if done else ""]).encode()


def ndjson(*values: Any) -> bytes:
    return "".join(f"{json.dumps(value)}\n" for value in values).encode()


def frame(payload: bytes, **headers: str) -> bytes:
    """A frame of an AWS event stream; ``event_type`` is the header ``:event-type``."""
    block = b""
    for key, value in headers.items():
        name = f":{key.replace('_', '-')}".encode()
        block += (
            bytes([len(name)]) + name + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        )
    total = 16 + len(block) + len(payload)
    prelude = struct.pack(">II", total, len(block))
    prelude += struct.pack(">I", crc32(prelude))
    whole = prelude + block + payload
    return whole + struct.pack(">I", crc32(whole))


def event(name: str, value: Any) -> bytes:
    return frame(
        json.dumps(value).encode(),
        message_type="event",
        event_type=name,
        content_type="application/json",
    )


def wrapped(value: Any) -> bytes:
    """An event of another API as Bedrock passes it on."""
    inner = b64encode(json.dumps(value).encode()).decode()
    return event("chunk", {"bytes": inner, "p": "abcd"})


def chunk(delta: Any, finish: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    """A piece of a chat completion."""
    choice = {"index": index, "delta": delta, "finish_reason": finish, "logprobs": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-x-2026",
        "choices": [choice],
        **more,
    }


def call_piece(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": more.pop("name")} if "name" in more else {})
    return {"tool_calls": [{"index": index, "function": function, **more}]}


CHAT = sse(
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "Let me "}),
    chunk({"content": "see 🙂."}),
    chunk(call_piece(0, "", id="call_a", name="weather", type="function")),
    chunk(call_piece(0, '{"city": "P')),
    chunk(call_piece(1, "", id="call_b", name="weather", type="function")),
    chunk(call_piece(0, 'aris"}')),
    chunk(call_piece(1, '{"city": "Rome"}')),
    chunk({}, "tool_calls"),
    {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-x-2026",
        "choices": [],
        "usage": {
            "prompt_tokens": 20,
            "completion_tokens": 9,
            "total_tokens": 29,
            "prompt_tokens_details": {"cached_tokens": 8},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
    },
    done=True,
)

CHAT_WHOLE = {
    "id": "chatcmpl-2",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-x-2026",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "logprobs": None,
            "message": {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "tool_calls": [
                    {
                        "id": "call_a",
                        "type": "function",
                        "function": {"name": "weather", "arguments": '{"city": "Paris"}'},
                    }
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29},
}

_REASONING = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Thinking of Paris."}],
    "encrypted_content": "gAAAA+/opaque==",
}
_CALL = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_1",
    "name": "weather",
    "arguments": '{"city":"Paris"}',
}
_SAID = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Sunny, 21 °C.", "annotations": []}],
}


def response(status: str, output: list[Any], **more: Any) -> dict[str, Any]:
    """The response object of OpenAI Responses."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "gpt-x-2026",
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None,
        **more,
    }


_RESPONSES_USAGE = {
    "input_tokens": 30,
    "input_tokens_details": {"cached_tokens": 10},
    "output_tokens": 12,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 42,
}

RESPONSE = response("completed", [_REASONING, _CALL, _SAID], usage=_RESPONSES_USAGE)


def _numbered(*events: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**one, "sequence_number": number} for number, one in enumerate(events)]


RESPONSES = sse(
    *_numbered(
        {"type": "response.created", "response": response("in_progress", [])},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {"id": "rs_1", "type": "reasoning", "summary": []},
        },
        {
            "type": "response.reasoning_summary_part.added",
            "item_id": "rs_1",
            "output_index": 0,
            "summary_index": 0,
            "part": {"type": "summary_text", "text": ""},
        },
        {
            "type": "response.reasoning_summary_text.delta",
            "item_id": "rs_1",
            "output_index": 0,
            "summary_index": 0,
            "delta": "Thinking of Paris.",
        },
        {"type": "response.output_item.done", "output_index": 0, "item": _REASONING},
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {**_CALL, "status": "in_progress", "arguments": ""},
        },
        {
            "type": "response.function_call_arguments.delta",
            "item_id": "fc_1",
            "output_index": 1,
            "delta": '{"city":',
        },
        {
            "type": "response.function_call_arguments.delta",
            "item_id": "fc_1",
            "output_index": 1,
            "delta": '"Paris"}',
        },
        {
            "type": "response.function_call_arguments.done",
            "item_id": "fc_1",
            "output_index": 1,
            "name": "weather",
            "arguments": '{"city":"Paris"}',
        },
        {"type": "response.output_item.done", "output_index": 1, "item": _CALL},
        {
            "type": "response.output_item.added",
            "output_index": 2,
            "item": {**_SAID, "status": "in_progress", "content": []},
        },
        {
            "type": "response.content_part.added",
            "item_id": "msg_1",
            "output_index": 2,
            "content_index": 0,
            "part": {"type": "output_text", "text": "", "annotations": []},
        },
        {
            "type": "response.output_text.delta",
            "item_id": "msg_1",
            "output_index": 2,
            "content_index": 0,
            "delta": "Sunny, ",
            "logprobs": [],
        },
        {
            "type": "response.output_text.delta",
            "item_id": "msg_1",
            "output_index": 2,
            "content_index": 0,
            "delta": "21 °C.",
            "logprobs": [],
        },
        {
            "type": "response.output_text.done",
            "item_id": "msg_1",
            "output_index": 2,
            "content_index": 0,
            "text": "Sunny, 21 °C.",
            "logprobs": [],
        },
        {"type": "response.output_item.done", "output_index": 2, "item": _SAID},
        {"type": "response.completed", "response": RESPONSE},
    ),
    named=True,
)


def _started(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _added(index: int, kind: str, **delta: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **delta}}


def _stopped(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


ANTHROPIC_EVENTS = (
    {
        "type": "message_start",
        "message": {
            "id": "msg_01",
            "type": "message",
            "role": "assistant",
            "model": "claude-x-2026",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": 11,
                "cache_creation_input_tokens": 5,
                "cache_read_input_tokens": 7,
                "output_tokens": 1,
            },
        },
    },
    _started(0, {"type": "thinking", "thinking": "", "signature": ""}),
    _added(0, "thinking_delta", thinking="Paris, "),
    _added(0, "thinking_delta", thinking="then."),
    _added(0, "signature_delta", signature="EqQBCg+sig/=="),
    _stopped(0),
    _started(1, {"type": "redacted_thinking", "data": "EmwKAhgB+data"}),
    _stopped(1),
    {"type": "ping"},
    _started(2, {"type": "text", "text": ""}),
    _added(2, "text_delta", text="I'll look "),
    _added(2, "text_delta", text="at both ☂."),
    _stopped(2),
    _started(3, {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}),
    _added(3, "input_json_delta", partial_json=""),
    _added(3, "input_json_delta", partial_json='{"city": "Pa'),
    _added(3, "input_json_delta", partial_json='ris"}'),
    _stopped(3),
    _started(4, {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}}),
    _stopped(4),
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 89},
    },
    {"type": "message_stop"},
)

ANTHROPIC = sse(*ANTHROPIC_EVENTS, named=True)
ANTHROPIC_ON_BEDROCK = b"".join(wrapped(one) for one in ANTHROPIC_EVENTS)


ANTHROPIC_WHOLE = {
    "id": "msg_02",
    "type": "message",
    "role": "assistant",
    "model": "claude-x-2026",
    "content": [
        {"type": "thinking", "thinking": "Paris.", "signature": "EqQB+sig=="},
        {"type": "text", "text": "Both."},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}},
        {"type": "tool_use", "id": "toolu_2", "name": "weather", "input": {"city": "Paris"}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 11, "output_tokens": 40, "cache_read_input_tokens": 7},
}


def _candidate(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"content": {"parts": list(parts), "role": "model"}, "index": 0, **more}


GEMINI_RESPONSES = (
    {
        "candidates": [_candidate({"text": "Let me think.", "thought": True})],
        "usageMetadata": {"promptTokenCount": 8, "totalTokenCount": 8},
        "modelVersion": "gemini-x",
        "responseId": "r-1",
    },
    {
        "candidates": [_candidate({"text": "Both "}, {"text": "cities:"})],
        "usageMetadata": {"promptTokenCount": 8, "totalTokenCount": 8},
        "modelVersion": "gemini-x",
        "responseId": "r-1",
    },
    {
        "candidates": [
            _candidate(
                {
                    "functionCall": {"id": "fc-1", "name": "weather", "args": {"city": "Paris"}},
                    "thoughtSignature": "CikB+sig/w==",
                },
                {"functionCall": {"name": "weather", "args": {"city": "Rome"}}},
                finishReason="STOP",
            )
        ],
        "usageMetadata": {
            "promptTokenCount": 8,
            "candidatesTokenCount": 30,
            "totalTokenCount": 49,
            "cachedContentTokenCount": 4,
            "thoughtsTokenCount": 11,
        },
        "modelVersion": "gemini-x",
        "responseId": "r-1",
    },
)
GEMINI_WHOLE = {
    **GEMINI_RESPONSES[-1],
    "candidates": [
        _candidate(
            *(
                part
                for one in GEMINI_RESPONSES
                for part in one["candidates"][0]["content"]["parts"]  # type: ignore[index]
            ),
            finishReason="STOP",
        )
    ],
}
GEMINI = sse(*GEMINI_RESPONSES)
GEMINI_LIST = json.dumps(GEMINI_RESPONSES, indent=1).encode()


def _delta(index: int, **delta: Any) -> bytes:
    return event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta, "p": "abc"})


CONVERSE = b"".join(
    (
        event("messageStart", {"role": "assistant", "p": "ab"}),
        _delta(0, reasoningContent={"text": "Paris, "}),
        _delta(0, reasoningContent={"text": "then."}),
        _delta(0, reasoningContent={"signature": "EqQB+sig=="}),
        event("contentBlockStop", {"contentBlockIndex": 0}),
        _delta(1, text="I'll "),
        _delta(1, text="look."),
        event("contentBlockStop", {"contentBlockIndex": 1}),
        event(
            "contentBlockStart",
            {
                "contentBlockIndex": 2,
                "start": {"toolUse": {"toolUseId": "tooluse_1", "name": "weather"}},
            },
        ),
        _delta(2, toolUse={"input": '{"city": "Pa'}),
        _delta(2, toolUse={"input": 'ris"}'}),
        event("contentBlockStop", {"contentBlockIndex": 2}),
        event("messageStop", {"stopReason": "tool_use"}),
        event(
            "metadata",
            {
                "usage": {
                    "inputTokens": 15,
                    "outputTokens": 25,
                    "totalTokens": 43,
                    "cacheReadInputTokens": 2,
                    "cacheWriteInputTokens": 1,
                },
                "metrics": {"latencyMs": 400},
            },
        ),
    )
)


CONVERSE_WHOLE = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "EqQB=="}}},
                {"text": "I'll look."},
                {"toolUse": {"toolUseId": "tooluse_1", "name": "weather", "input": {"n": 1}}},
            ],
        }
    },
    "stopReason": "tool_use",
    "usage": {"inputTokens": 15, "outputTokens": 25, "totalTokens": 40},
    "metrics": {"latencyMs": 400},
}


def _line(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    made = {"model": "llama-x", "created_at": "2026-01-01T00:00:00Z", "done": False}
    return {**made, "message": {"role": "assistant", "content": "", **message}, **more}


OLLAMA = ndjson(
    _line({"thinking": "Hm. "}),
    _line({"thinking": "Paris."}),
    _line({"content": "One "}),
    _line({"content": "moment."}),
    _line({"tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Paris"}}}]}),
    _line({}, done=True, done_reason="stop", prompt_eval_count=26, eval_count=14),
)

STREAMS = (
    ("openai.chat", SSE, CHAT),
    ("openai.responses", SSE, RESPONSES),
    ("anthropic.messages", SSE, ANTHROPIC),
    ("anthropic.messages", AWS, ANTHROPIC_ON_BEDROCK),
    ("google.generate", SSE, GEMINI),
    ("google.generate", JSON, GEMINI_LIST),
    ("bedrock.converse", AWS, CONVERSE),
    ("ollama.chat", NDJSON, OLLAMA),
)
"""A whole answer in every form: lens, content type, body."""
