"""A model server that says the same every time, and a client for it that looks like an SDK's.

The program's own words decide: ``weather in A and B`` asks for tools, a conversation of more than
``LIMIT`` characters is too long for the model ``small``, ``busy N`` fails N times, and the model
``gone`` is not there. ``tell N`` makes it talk.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.contract.server import Exchange, Handler

__all__ = ["CLIENT", "LIMIT", "MODELS", "prose"]

LIMIT = 4_000
_JSON = ("Content-Type", "application/json")
_EVENTS = ("Content-Type", "text/event-stream")


def _complete(exchange: Exchange) -> None:
    asked = json.loads(exchange.asked.body)
    status, answer = _answer(asked, exchange)
    if asked.get("stream") and status.startswith("200"):
        _stream(exchange, answer)
    else:
        exchange.answer(status, json.dumps(answer).encode(), _JSON)


def _answer(asked: Any, exchange: Exchange) -> tuple[str, Any]:
    messages = asked["messages"]
    users = [one["content"] for one in messages if one["role"] == "user"]
    last = messages[-1]
    if "gone" in asked["model"]:
        return "404 Not Found", _error("there is no such model", "model_not_found")
    if (busy := re.search(r"busy (\d+)", users[0])) and _count(exchange) <= int(busy[1]):
        return "429 Too Many Requests", _error("slow down", "rate_limit_exceeded")
    length = sum(len(one["content"] or "") for one in messages)
    if "small" in asked["model"] and length > LIMIT:
        return "400 Bad Request", _error("too long", "context_length_exceeded")
    if last["role"] == "user" and last["content"].startswith("Summarise"):
        return "200 OK", _said(asked, f"They spoke about {len(messages) - 1} things.")
    if last["role"] == "user" and (told := re.match(r"tell (\d+)", last["content"])):
        return "200 OK", _said(asked, prose(1_000 + int(told[1]), 200))
    places = re.search(r"weather in (\w+)(?: and (\w+))?", last["content"] or "")
    if last["role"] == "user" and places:
        return "200 OK", _calls(asked, [place for place in places.groups() if place])
    if last["role"] == "tool":
        heard = [one["content"] for one in messages if one["role"] == "tool"]
        return "200 OK", _said(asked, f"I have heard: {'; '.join(heard)}")
    return "200 OK", _said(asked, f"You said: {last['content']}")


def prose(number: int, words: int) -> str:
    """So many words, in an order that is another one for each number."""
    known = "salt wind stone river lamp harbour letter engine forest violin copper window".split()
    return " ".join(
        f"{known[(number * 7 + place * 5) % 12]}{(number * 31 + place * 17) % 997}"
        for place in range(words)
    )


def _count(exchange: Exchange) -> int:
    tries = exchange.act.notes.setdefault("busy", [])
    exchange.gate.until(lambda: True, lambda: tries.append(1))
    return len(tries)


def _error(message: str, code: str) -> Any:
    return {"error": {"message": message, "code": code, "type": "error"}}


def _whole(asked: Any, message: Any, finish: str) -> Any:
    turn = len(asked["messages"])
    return {
        "id": f"chatcmpl-{turn}",
        "object": "chat.completion",
        "created": 1_700_000_000 + turn,
        "model": asked["model"],
        "choices": [
            {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
        ],
        "usage": {
            "prompt_tokens": 10 * turn,
            "completion_tokens": 7,
            "total_tokens": 10 * turn + 7,
        },
    }


def _said(asked: Any, text: str) -> Any:
    return _whole(asked, {"content": text}, "stop")


def _calls(asked: Any, places: list[str]) -> Any:
    calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": "get_weather", "arguments": json.dumps({"city": place})},
        }
        for number, place in enumerate(places)
    ]
    return _whole(asked, {"content": None, "tool_calls": calls}, "tool_calls")


def _stream(exchange: Exchange, answer: Any) -> None:
    """The same answer, a few letters at a time."""
    exchange.head("200 OK", _EVENTS, ("Transfer-Encoding", "chunked"))
    choice = answer["choices"][0]
    message = choice["message"]
    deltas: list[Any] = [{"role": "assistant"}]
    text = message["content"] or ""
    deltas += [{"content": text[place : place + 8]} for place in range(0, len(text), 8)]
    for index, call in enumerate(message.get("tool_calls", ())):
        written = call["function"]["arguments"]
        name = call["function"]["name"]
        deltas.append({"tool_calls": [{**call, "index": index, "function": {"name": name}}]})
        for place in range(0, len(written), 6):
            part = {"arguments": written[place : place + 6]}
            deltas.append({"tool_calls": [{"index": index, "function": part}]})
    pieces = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    pieces.append({"choices": [{"delta": {}, "finish_reason": choice["finish_reason"]}]})
    pieces.append({"choices": [], "usage": answer["usage"]})
    for piece in pieces:
        exchange.chunk(b"data: " + json.dumps({"id": answer["id"], **piece}).encode() + b"\n\n")
    exchange.chunk(b"data: [DONE]\n\n")
    exchange.send(b"0\r\n\r\n")


def _respond(exchange: Exchange) -> None:
    """The Responses API: first thoughts and a call, then a message. Ids are opaque."""
    asked = json.loads(exchange.asked.body)
    answered = any(item.get("type") == "function_call_output" for item in asked["input"])
    output = _ANSWER if answered else _THOUGHTS
    answer = {
        "id": f"resp_{len(asked['input'])}",
        "object": "response",
        "model": asked["model"],
        "status": "completed",
        "output": output,
        "usage": {"input_tokens": 11, "output_tokens": 5, "total_tokens": 16},
    }
    exchange.answer("200 OK", json.dumps(answer).encode(), _JSON)


_THOUGHTS = [
    {
        "type": "reasoning",
        "id": "rs_0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X",
        "summary": [{"type": "summary_text", "text": "I have to ask."}],
        "encrypted_content": "gAAAAABo" + "Zm9vYmFy/+" * 40 + "==",
    },
    {
        "type": "function_call",
        "id": "fc_9Z8y7X6w5V4u3T2s1R0q",
        "call_id": "call_aB3dE5gH7jK9mN1pQ3sT5vW7",
        "name": "get_weather",
        "arguments": '{"city":  "Lisbon"}',
        "status": "completed",
    },
]
_ANSWER = [
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "It is warm.", "annotations": []}],
    }
]


def _version_1(exchange: Exchange) -> None:
    (_respond if exchange.path.endswith("/responses") else _complete)(exchange)


MODELS: dict[str, Handler] = {"/v1": _version_1}

CLIENT = Path(__file__).with_name("agent_client.py").read_text("utf-8")
"""The module ``client`` of programs."""
