"""A server that answers as Bedrock Converse does, with its binary event stream.

Written here because no server that can be installed has a right one.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from tests.contract.server import Exchange, Server

__all__ = ["bedrock_server", "frame"]

_METADATA = {
    "usage": {"inputTokens": 12, "outputTokens": 34, "totalTokens": 46},
    "metrics": {"latencyMs": 251},
}
_THOUGHT = {"text": "First I look at the question."}
_SIGNATURE = {"signature": "EqQBCgIYAhIM1f0/signed+thought=="}


def bedrock_server() -> Server:
    """Answers until it is stopped; its journal says who has come."""
    return Server({"/model": _model})


def frame(kind: str, payload: dict[str, Any], message: str = "event") -> bytes:
    """One message of Amazon's binary event stream, with its two checksums."""
    said = {f":{message}-type": kind, ":content-type": "application/json", ":message-type": message}
    headers = b"".join(_header(name, value) for name, value in said.items())
    body = json.dumps(payload).encode()
    lengths = struct.pack("!II", 16 + len(headers) + len(body), len(headers))
    framed = lengths + struct.pack("!I", zlib.crc32(lengths)) + headers + body
    return framed + struct.pack("!I", zlib.crc32(framed))


def _header(name: str, value: str) -> bytes:
    length, size = struct.pack("!B", len(name)), struct.pack("!BH", 7, len(value))
    return length + name.encode() + size + value.encode()


def _model(exchange: Exchange) -> None:
    """``/model/ID/converse`` and ``/model/ID/converse-stream``."""
    asked = json.loads(exchange.asked.body)["messages"][-1]["content"][0]["text"]
    if exchange.path.endswith("/converse"):
        _whole(exchange, asked)
    else:
        _streamed(exchange, asked)


def _whole(exchange: Exchange, asked: str) -> None:
    message = {"role": "assistant", "content": [{"text": f"You said: {asked}"}]}
    body = {"output": {"message": message}, "stopReason": "end_turn", **_METADATA}
    exchange.answer("200 OK", json.dumps(body).encode(), ("Content-Type", "application/json"))


def _streamed(exchange: Exchange, asked: str) -> None:
    """Cut within messages, as networks do."""
    exchange.head(
        "200 OK",
        ("Content-Type", "application/vnd.amazon.eventstream"),
        ("Transfer-Encoding", "chunked"),
    )
    whole = b"".join(frame(kind, payload) for kind, payload in _events(exchange, asked))
    if "break off" in asked:
        whole = frame("messageStart", {"role": "assistant"})
        whole += frame("throttlingException", {"message": "too busy"}, "exception")
    for start in range(0, len(whole), 100):
        exchange.chunk(whole[start : start + 100])
    exchange.send(b"0\r\n\r\n")


def _events(exchange: Exchange, asked: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "messageStart", {"role": "assistant"}
    if "weather" in asked:
        yield from _tool(exchange)
    else:
        deltas = [{"text": word} for word in ("Once ", "upon ", "a time — größer, 波, 🚢.")]
        if "think" in asked:
            thoughts = [{"reasoningContent": part} for part in (_THOUGHT, _SIGNATURE)]
            yield from _block(0, thoughts)
            yield from _block(1, deltas)
        else:
            yield from _block(0, deltas)
        yield "messageStop", {"stopReason": "end_turn"}
    yield "metadata", _METADATA


def _tool(exchange: Exchange) -> Iterator[tuple[str, dict[str, Any]]]:
    use = {"toolUseId": f"tooluse_{exchange.number}", "name": "get_weather"}
    yield "contentBlockStart", {"contentBlockIndex": 0, "start": {"toolUse": use}}
    yield from _block(0, [{"toolUse": {"input": part}} for part in ('{"city": "Lis', 'bon"}')])
    yield "messageStop", {"stopReason": "tool_use"}


def _block(index: int, deltas: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for delta in deltas:
        yield "contentBlockDelta", {"contentBlockIndex": index, "delta": delta}
    yield "contentBlockStop", {"contentBlockIndex": index}
