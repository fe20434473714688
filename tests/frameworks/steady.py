"""A model server that always says the same, byte for byte."""

from __future__ import annotations

import json

from tests.contract.server import Exchange, Server

__all__ = ["steady_server"]

_TEXT = "Hello, what can I do for you?"
_CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1794832663,
    "model": "gpt-4o",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": _TEXT},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 8, "total_tokens": 11},
}
_MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-4-8",
    "content": [{"type": "text", "text": _TEXT}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 8},
}


def steady_server() -> Server:
    """Chat Completions and Messages. Its only other word, the number of a request, begins anew
    with ``begin_act``."""
    return Server({"/v1": _answer})


def _answer(exchange: Exchange) -> None:
    body = _MESSAGE if exchange.path == "/v1/messages" else _CHAT
    exchange.answer("200 OK", json.dumps(body).encode(), ("Content-Type", "application/json"))
