"""Adapters over clients: what is sent, what is read, whole and in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from reenact.agents import (
    AnthropicMessages,
    Delta,
    Message,
    ModelReply,
    ModelRequest,
    OpenAIChat,
    OpenAIResponses,
    Reasoning,
    ToolRequest,
    ToolSpec,
    Usage,
)
from reenact.agents.effect_handlers import checked
from reenact.errors import UsageError

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
REQUEST = ModelRequest(
    messages=(Message(role="user", text="hello"),),
    tools=(ToolSpec(name="add", description="Adds.", parameters=SCHEMA),),
    instructions="be brief",
    params={"temperature": 0},
)


class Sdk:
    """An object of an SDK: what it says can be dumped."""

    def __init__(self, said: Any) -> None:
        self._said = said

    def model_dump(self, **how: Any) -> Any:
        assert how == {"mode": "json", "by_alias": True, "exclude_unset": True}
        return self._said


class Fake:
    """A client with ``answer``; remembers what it was asked."""

    def __init__(self, answer: Any, *, asynchronous: bool = False) -> None:
        self.asked: dict[str, Any] = {}
        self.closed = False
        self._answer = answer
        create = self._acreate if asynchronous else self._create
        holder = SimpleNamespace(create=create)
        self.chat = SimpleNamespace(completions=holder)
        self.responses = self.messages = holder

    def _create(self, **asked: Any) -> Any:
        self.asked = asked
        return iter(self._answer) if isinstance(self._answer, list) else self._answer

    async def _acreate(self, **asked: Any) -> Any:
        self.asked = asked
        return self._pieces() if isinstance(self._answer, list) else self._answer

    async def _pieces(self) -> AsyncIterator[Any]:
        for piece in self._answer:
            yield piece


def whole(model: Any, request: ModelRequest = REQUEST) -> ModelReply:
    return checked(model(request))


def read(model: Any) -> tuple[list[Delta], ModelReply]:
    *pieces, reply = list(model(REQUEST))
    return pieces, checked(reply)


# Chat

CHAT = {
    "choices": [
        {
            "finish_reason": "tool_calls",
            "message": {
                "content": None,
                "tool_calls": [
                    {"id": "c1", "function": {"name": "add", "arguments": '{"a": 1}'}},
                    {"id": "c2", "function": {"name": "add", "arguments": "{oops"}},
                ],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 10,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 4},
    },
}


@pytest.mark.parametrize("answer", [CHAT, Sdk(CHAT)], ids=["dict", "object"])
def test_chat_is_read(answer: Any) -> None:
    client = Fake(answer)
    reply = whole(OpenAIChat(client, "m", seed=1))
    assert client.asked == {
        "model": "m",
        "seed": 1,
        "temperature": 0,
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hello"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "add", "description": "Adds.", "parameters": SCHEMA},
            }
        ],
    }
    assert reply.tool_calls == (
        ToolRequest(id="c1", name="add", arguments={"a": 1}, written='{"a": 1}'),
        ToolRequest(id="c2", name="add", arguments=None, written="{oops"),
    )
    assert (reply.stop_reason, reply.usage) == (
        "tool_calls",
        Usage(input=6, output=3, cache_read=4),
    )
    assert reply.raw is answer


def test_chat_sends_what_was_said() -> None:
    client = Fake(CHAT)
    model = OpenAIChat(client, "m")
    said = whole(model).message()
    result = Message(role="tool", text="2", call_id="c1", name="add")
    whole(model, ModelRequest(messages=(said, result)))
    assert client.asked["messages"] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "add", "arguments": '{"a": 1}'},
                },
                {
                    "id": "c2",
                    "type": "function",
                    "function": {"name": "add", "arguments": "{oops"},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
    ]


CHAT_PIECES: list[Any] = [
    {"choices": [{"delta": {"reasoning_content": "hm"}}]},
    {"choices": [{"delta": {"content": "he"}}]},
    {"choices": [{"delta": {"content": "llo"}}]},
    {
        "choices": [
            {"delta": {"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "add"}}]}}
        ]
    },
    {
        "choices": [
            {"delta": {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "add"}}]}}
        ]
    },
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]}}]},
    {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
]


def test_chat_in_pieces() -> None:
    client = Fake(CHAT_PIECES)
    pieces, reply = read(OpenAIChat(client, "m", stream=True))
    assert client.asked["stream_options"] == {"include_usage": True}
    assert pieces == [Delta(thinking="hm"), Delta(text="he"), Delta(text="llo")]
    assert reply == ModelReply(
        text="hello",
        reasoning=(Reasoning(text="hm"),),
        tool_calls=(
            ToolRequest(id="c1", name="add", arguments={"a": 1}, written='{"a": 1}'),
            ToolRequest(id="c2", name="add", arguments={}, written=""),
        ),
        stop_reason="tool_calls",
        usage=Usage(input=1, output=2),
    )


def test_asynchronous_clients() -> None:
    async def both() -> tuple[ModelReply, list[Any]]:
        reply = await OpenAIChat(Fake(CHAT, asynchronous=True), "m")(REQUEST)
        model = OpenAIChat(Fake(CHAT_PIECES, asynchronous=True), "m", stream=True)
        return reply, [piece async for piece in model(REQUEST)]

    reply, pieces = asyncio.run(both())
    assert reply.tool_calls[0].id == "c1"
    assert [type(piece).__name__ for piece in pieces] == ["Delta", "Delta", "Delta", "ModelReply"]


# Responses

ITEMS: list[Any] = [
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "sig",
    },
    {
        "type": "function_call",
        "id": "fc_123",
        "call_id": "call_123",
        "name": "add",
        "arguments": '{"a":1}',
    },
]
RESPONSE = {
    "status": "completed",
    "output": ITEMS,
    "usage": {
        "input_tokens": 9,
        "output_tokens": 2,
        "input_tokens_details": {"cached_tokens": 5},
    },
}


def test_items_of_responses_go_back_as_they_came() -> None:
    client = Fake(RESPONSE)
    model = OpenAIResponses(client, "m", store=False)
    reply = whole(model)
    assert client.asked["input"] == [{"role": "user", "content": "hello"}]
    assert client.asked["tools"][0]["name"] == "add"
    (call,) = reply.tool_calls
    assert (call.id, call.item_id, call.arguments) == ("call_123", "fc_123", {"a": 1})
    assert reply.reasoning == (Reasoning(text="hm", id="rs_1", signature="sig"),)
    result = Message(role="tool", text="2", call_id=call.id, name="add")
    whole(model, ModelRequest(messages=(reply.message(), result)))
    assert client.asked["input"] == [
        *ITEMS,
        {"type": "function_call_output", "call_id": "call_123", "output": "2"},
    ]


def test_a_thought_goes_back_before_its_text() -> None:
    text = {"type": "message", "content": [{"type": "output_text", "text": "hi"}]}
    client = Fake({"status": "completed", "output": [ITEMS[0], text]})
    model = OpenAIResponses(client, "m")
    reply = whole(model)
    whole(model, ModelRequest(messages=(reply.message(),)))
    assert (reply.text, client.asked["input"]) == ("hi", [ITEMS[0], text])


@pytest.mark.parametrize("last", [RESPONSE, {"status": "completed"}], ids=["whole", "empty"])
def test_responses_in_pieces(last: Any) -> None:
    pieces, reply = read(
        OpenAIResponses(
            Fake(
                [
                    {"type": "response.reasoning_summary_text.delta", "delta": "hm"},
                    {"type": "response.output_text.delta", "delta": "he"},
                    {"type": "response.output_item.done", "output_index": 1, "item": ITEMS[1]},
                    {"type": "response.output_item.done", "output_index": 0, "item": ITEMS[0]},
                    {"type": "response.completed", "response": last},
                ]
            ),
            "m",
            stream=True,
        )
    )
    assert pieces == [Delta(thinking="hm"), Delta(text="he")]
    assert reply.native is not None
    assert (reply.native.items, reply.stop_reason) == (ITEMS, "completed")


# Messages

BLOCKS: list[Any] = [
    {"type": "thinking", "thinking": "hm", "signature": "EqQB"},
    {"type": "redacted_thinking", "data": "opaque"},
    {"type": "text", "text": "hello"},
    {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}},
]
MESSAGE = {
    "content": BLOCKS,
    "stop_reason": "tool_use",
    "usage": {
        "input_tokens": 5,
        "output_tokens": 2,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 1,
    },
}


def test_blocks_go_back_with_their_signatures() -> None:
    client = Fake(MESSAGE)
    model = AnthropicMessages(client, "m")
    reply = whole(model)
    assert (client.asked["system"], client.asked["max_tokens"]) == ("be brief", 4096)
    assert client.asked["tools"][0]["input_schema"] == SCHEMA
    assert reply.reasoning == (
        Reasoning(text="hm", signature="EqQB"),
        Reasoning(signature="opaque"),
    )
    assert reply.usage == Usage(input=5, output=2, cache_read=3, cache_write=1)
    results = [
        Message(role="tool", text="2", call_id="toolu_1", name="add"),
        Message(role="tool", text="no", call_id="toolu_2", name="add", is_error=True),
        Message(role="user", text="go on"),
    ]
    whole(model, ModelRequest(messages=(*REQUEST.messages, reply.message(), *results)))
    assert client.asked["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        {"role": "assistant", "content": BLOCKS},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "2"},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_2",
                    "content": "no",
                    "is_error": True,
                },
                {"type": "text", "text": "go on"},
            ],
        },
    ]


def test_messages_in_pieces() -> None:
    def grow(index: int, **delta: Any) -> Any:
        return {"type": "content_block_delta", "index": index, "delta": delta}

    def begin(index: int, **block: Any) -> Any:
        return {"type": "content_block_start", "index": index, "content_block": block}

    pieces, reply = read(
        AnthropicMessages(
            Fake(
                [
                    {"type": "message_start", "message": {"usage": {"input_tokens": 5}}},
                    begin(0, type="thinking", thinking="", signature=""),
                    grow(0, type="thinking_delta", thinking="hm"),
                    grow(0, type="signature_delta", signature="EqQB"),
                    begin(1, type="text", text=""),
                    grow(1, type="text_delta", text="hel"),
                    grow(1, type="text_delta", text="lo"),
                    begin(2, type="tool_use", id="toolu_1", name="add", input={}),
                    grow(2, type="input_json_delta", partial_json='{"a"'),
                    grow(2, type="input_json_delta", partial_json=": 1}"),
                    {
                        "type": "message_delta",
                        "delta": {"stop_reason": "tool_use"},
                        "usage": {"output_tokens": 2},
                    },
                    {"type": "message_stop"},
                ]
            ),
            "m",
            stream=True,
        )
    )
    assert pieces == [Delta(thinking="hm"), Delta(text="hel"), Delta(text="lo")]
    assert reply.native is not None
    assert reply.native.items == [BLOCKS[0], BLOCKS[2], BLOCKS[3]]
    assert (reply.stop_reason, reply.usage) == ("tool_use", Usage(input=5, output=2))


def test_another_dialect_gets_what_all_understand() -> None:
    said = whole(AnthropicMessages(Fake(MESSAGE), "m")).message()
    client = Fake(RESPONSE)
    whole(OpenAIResponses(client, "m"), ModelRequest(messages=(said,)))
    assert client.asked["input"] == [
        {"role": "assistant", "content": "hello"},
        {"type": "function_call", "call_id": "toolu_1", "name": "add", "arguments": '{"a": 1}'},
    ]
    said = whole(OpenAIResponses(Fake(RESPONSE), "m")).message()
    client = Fake(MESSAGE)
    whole(AnthropicMessages(client, "m"), ModelRequest(messages=(said,)))
    assert client.asked["messages"] == [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "call_123", "name": "add", "input": {"a": 1}}],
        }
    ]


def test_what_is_no_client_is_refused() -> None:
    with pytest.raises(UsageError, match=r"object has no chat\.completions\.create"):
        OpenAIChat(object(), "m")
    with pytest.raises(UsageError, match="cannot be read"):
        whole(OpenAIChat(Fake(object()), "m"))
