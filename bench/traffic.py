"""Model traffic to measure with: real English text in the shape of chat requests.

The text is the reference that ships inside Python itself (``pydoc_data.topics``), so that
compression and repetition are those of prose, and every machine with Python has it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pydoc_data.topics import topics
from typing import Any

from reenact.format.canonical import digest
from reenact.policy.redaction.redactor import Redactor

__all__ = ["Turn", "chat", "chat_requests", "paragraphs", "vector"]

_MODEL = "gpt-4.1-mini"
_URL = "https://api.example.com/v1/chat/completions"
_KEY = "Bearer sk-proj-" + "Zk3vT9qLw2Xy8Rb5" * 3


def paragraphs() -> list[str]:
    """The paragraphs of the text, in a fixed order, each on one line as people write in a chat."""
    whole = "\n\n".join(topics[name] for name in sorted(topics))
    return [" ".join(part.split()) for part in whole.split("\n\n") if part.strip()]


def chat_requests(size: int, count: int) -> list[dict[str, Any]]:
    """``count`` request bodies of about ``size`` bytes, with no secret and nothing said twice."""
    source = random.Random(size)
    return [_request(source, size) for _ in range(count)]


def _request(source: random.Random, size: int) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    body: dict[str, Any] = {
        "model": _MODEL,
        "messages": messages,
        "temperature": 0.7,
        "max_completion_tokens": 1024,
        "stream": False,
        "user": f"user-{source.randrange(10**9)}",
    }
    left = size - len(json.dumps(body))
    while left > 60:
        text = _message(source)[: max(20, left - 34)]
        messages.append({"role": ("user", "assistant")[len(messages) % 2], "content": text})
        left -= len(json.dumps(text)) + 34
    return body


def _message(source: random.Random) -> str:
    """About 500 characters: the words of the text in another order, so that none repeats."""
    while True:
        message = " ".join(source.choices(_words(), k=80))
        if not _gate().suspects(message.encode()):
            return message


@lru_cache(maxsize=1)
def _words() -> list[str]:
    return " ".join(paragraphs()).split()


@lru_cache(maxsize=1)
def _gate() -> Redactor:
    return Redactor("default")


def vector() -> dict[str, Any]:
    """An embedding: 1536 floats."""
    source = random.Random(1536)
    return {"embedding": [source.uniform(-0.1, 0.1) for _ in range(1536)], "model": _MODEL}


@dataclass(frozen=True, slots=True)
class Turn:
    """One call of a conversation that resends its whole history.

    Headers and ids change with every call, as they do on the wire.
    """

    number: int
    new_text: int
    body: str
    answer: str
    request_headers: list[list[str]] = field(default_factory=list)
    response_headers: list[list[str]] = field(default_factory=list)

    url = _URL

    def request_data(self) -> dict[str, Any]:
        return {
            "provider": "openai",
            "model": _MODEL,
            "inputHash": digest(self.body),
            "call": self.number,
            "attempt": 1,
            "request": {
                "method": "POST",
                "url": _URL,
                "headers": self.request_headers,
                "body": self.body,
            },
        }

    def response_data(self) -> dict[str, Any]:
        body = json.loads(self.answer)
        return {
            "provider": "openai",
            "model": _MODEL,
            "stopReason": body["choices"][0]["finish_reason"],
            "usage": body["usage"],
            "call": self.number,
            "attempt": 1,
            "response": {
                "status": 200,
                "headers": self.response_headers,
                "body": self.answer,
            },
        }


def chat(turns: int, text_per_turn: int = 1000) -> Iterator[Turn]:
    """A conversation: each turn a question and an answer that have not been said before."""
    source = random.Random(turns)
    prose = "\n\n".join(paragraphs())
    messages: list[dict[str, str]] = [
        {"role": "system", "content": "You answer questions about the Python language."}
    ]
    for number in range(1, turns + 1):
        piece = prose[(number - 1) * text_per_turn : number * text_per_turn]
        question, reply = piece[: text_per_turn // 4], piece[text_per_turn // 4 :]
        messages.append({"role": "user", "content": question})
        body = json.dumps({"model": _MODEL, "messages": messages, "temperature": 0.7})
        yield Turn(
            number,
            len(piece.encode()),
            body,
            _answer(source, reply, len(body) // 4),
            _request_headers(source, body),
            _response_headers(source),
        )
        messages.append({"role": "assistant", "content": reply})


def _answer(source: random.Random, reply: str, prompt_tokens: int) -> str:
    spent = len(reply) // 4
    message: dict[str, Any] = {
        "role": "assistant",
        "content": reply,
        "refusal": None,
        "annotations": [],
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return json.dumps(
        {
            "id": f"chatcmpl-{_hex(source, 14)}",
            "object": "chat.completion",
            "created": 1_760_000_000 + source.randrange(10**6),
            "model": _MODEL,
            "choices": [choice],
            "usage": {
                "prompt_tokens": prompt_tokens,
                "completion_tokens": spent,
                "total_tokens": prompt_tokens + spent,
            },
            "system_fingerprint": "fp_2f5aa7ab4c",
        }
    )


def _request_headers(source: random.Random, body: str) -> list[list[str]]:
    return [
        ["host", "api.example.com"],
        ["accept", "application/json"],
        ["accept-encoding", "gzip, deflate"],
        ["content-type", "application/json"],
        ["user-agent", "OpenAI/Python 1.99.1"],
        ["authorization", _KEY],
        ["x-stainless-lang", "python"],
        ["x-stainless-retry-count", "0"],
        ["idempotency-key", f"stainless-python-retry-{_hex(source, 16)}"],
        ["content-length", str(len(body))],
    ]


def _response_headers(source: random.Random) -> list[list[str]]:
    return [
        ["date", f"Sat, 15 Nov 2025 21:{source.randrange(60):02}:{source.randrange(60):02} GMT"],
        ["content-type", "application/json"],
        ["connection", "keep-alive"],
        ["openai-processing-ms", str(source.randrange(200, 9000))],
        ["openai-version", "2020-10-01"],
        ["x-ratelimit-limit-requests", "10000"],
        ["x-ratelimit-remaining-requests", str(source.randrange(10000))],
        ["x-ratelimit-remaining-tokens", str(source.randrange(10**6))],
        ["x-request-id", f"req_{_hex(source, 16)}"],
        ["cf-ray", f"{_hex(source, 8)}-FRA"],
    ]


def _hex(source: random.Random, size: int) -> str:
    return source.randbytes(size).hex()
