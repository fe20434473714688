"""A small agent: a model, two tools that it may use, and its answer printed as it comes.

An ordinary program. It knows nothing of Reenact.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import httpx

Message = dict[str, Any]

SERVER = os.environ["MODEL_SERVER"]
HEADERS = {"Authorization": f"Bearer {os.environ['MODEL_API_KEY']}"}

client = httpx.Client(base_url=SERVER, headers=HEADERS, trust_env=False)


def weather(city: str) -> str:
    """How warm it is in a city."""
    return client.get(f"/weather/{city}").raise_for_status().text


def book(city: str, people: int) -> str:
    """Book a table outside."""
    table = {"city": city, "people": people}
    return client.post("/tables", json=table).raise_for_status().text


TOOLS = {tool.__name__: tool for tool in (weather, book)}
OFFERED = [
    {"type": "function", "function": {"name": name, "description": tool.__doc__}}
    for name, tool in TOOLS.items()
]


def ask(messages: list[Message]) -> Message:
    """The model's answer, printed word by word; or the tools that it wants."""
    message: Message = {"role": "assistant", "content": ""}
    question = {"model": "small-1", "stream": True, "messages": messages, "tools": OFFERED}
    with client.stream("POST", "/v1/chat/completions", json=question) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if not line.startswith("data: {"):
                continue
            for choice in json.loads(line.removeprefix("data: "))["choices"]:
                delta = choice["delta"]
                if delta.get("content"):
                    message["content"] += delta["content"]
                    print(delta["content"], end="", flush=True)
                elif "tool_calls" in delta:
                    message["tool_calls"] = delta["tool_calls"]
    return message


def main(question: str) -> None:
    messages: list[Message] = [{"role": "user", "content": question}]
    while "tool_calls" in (message := ask(messages)):
        messages.append(message)
        for call in message["tool_calls"]:
            function = call["function"]
            found = TOOLS[function["name"]](**json.loads(function["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": found})
    print()


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
