"""A run in which everything happens that a page can show, and everything recorded is hostile."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from pathlib import Path
from threading import Thread
from typing import Any

import httpx

import reenact

CHAT = "https://api.openai.com/v1/chat/completions"
FILES = "https://files.example"
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8cfc00000"
    "030001017a3b9d0000000049454e44ae426082"
)
DO = "document.title='owned'"

HOSTILE = [
    f"<script>{DO}</script>",
    f"</script><script>{DO}</script>",
    f'<img src=x onerror="{DO}">',
    f'<svg onload="{DO}"><script>{DO}</script></svg>',
    f"javascript:{DO}",
    "<!--<script>",
    f']]><iframe srcdoc="<script>parent.{DO}</script>"></iframe>',
    "\u2028\u2029<style>*{display:none}</style>",
    f"data:text/html,<script>{DO}</script>",
]
NAMED = "<img src=x onerror=document.title='owned'>"
"""A name for files, tools and headers."""

_STREAM = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "reasoning_content": "Hm: Bern."}}]},
    {"choices": [{"index": 0, "delta": {"content": "It is "}}]},
    {"choices": [{"index": 0, "delta": {"content": "warm."}, "finish_reason": "stop"}]},
]


class World(httpx.BaseTransport):
    """Answers without a network."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        path = request.url.path
        return _chat(request) if path.endswith("/completions") else _file(path)


def _file(path: str) -> httpx.Response:
    kinds = {
        "/picture": ("image/png", PIXEL),
        "/drawing": ("image/svg+xml", HOSTILE[3].encode()),
        "/markup": ("text/html", "".join(HOSTILE).encode()),
        "/events": ("text/event-stream", b'event: step\ndata: {"done": 1}\n\ndata: half\n\n'),
        "/bytes": ("application/octet-stream", bytes(range(256))),
    }
    if path == "/packed":
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        return httpx.Response(200, content=gzip.compress(b'{"unpacked": [1]}'), headers=headers)
    if path not in kinds:
        return httpx.Response(503, json={"sorry": HOSTILE[0], "big": 2**60 + 1})
    kind, content = kinds[path]
    return httpx.Response(200, content=content, headers={"content-type": kind})


def _chat(request: httpx.Request) -> httpx.Response:
    asked = json.loads(request.content)
    if asked.get("stream"):
        lines = [f"data: {json.dumps({'model': 'gpt-5', **part})}\n\n" for part in _STREAM]
        body = "".join([*lines, "data: [DONE]\n\n"])
        return httpx.Response(200, text=body, headers={"content-type": "text/event-stream"})
    said = asked["messages"][-1]["content"]
    text = said if isinstance(said, str) else said[0]["text"]
    choices = [
        {"message": {"role": "assistant", "content": f"You said: {text}"}, "finish_reason": "stop"}
        for _ in range(asked.get("n", 1))
    ]
    usage = {"prompt_tokens": 12, "completion_tokens": 5}
    told = {"model": "gpt-5", "choices": choices, "usage": usage}
    return httpx.Response(200, json=told, headers={"x-evil": HOSTILE[2], "x-<b>": "1"})


def ask(client: httpx.Client, *words: Any, **more: Any) -> None:
    """One model call."""
    messages = [{"role": "user", "content": word} for word in words]
    client.post(CHAT, json={"model": "gpt-5", "messages": messages, **more})


def _agent(client: httpx.Client) -> None:
    call = {"id": "call_1", "function": {"name": NAMED, "arguments": '{"city": "Bern"}'}}
    client.post(
        CHAT,
        json={
            "model": "gpt-5",
            "n": 2,
            "messages": [
                {"role": "user", "content": "Is it warm?"},
                {"role": "assistant", "content": "", "tool_calls": [{"type": "function", **call}]},
                {"role": "tool", "tool_call_id": "call_1", "content": '{"celsius": 21}'},
            ],
        },
    )
    ask(client, "streamed", stream=True)
    url = f"data:image/png;base64,{b64encode(PIXEL).decode()}"
    image = {"type": "image_url", "image_url": {"url": url}}
    ask(client, [{"type": "text", "text": "what is it?"}, image])


def record(target: Path) -> None:
    """The whole run: two lanes, one of them a thread's."""
    with (
        httpx.Client(transport=World()) as client,
        reenact.session(capture=target, mode="record", redaction="none") as session,
    ):
        ask(client, "first question", "second question")
        for place in ("picture", "drawing", "markup", "events", "bytes", "packed", "broken"):
            client.get(f"{FILES}/{place}?q={NAMED}")
        files = {"doc": ("a.png", PIXEL, "image/png"), NAMED: (NAMED, b"text", "text/plain")}
        client.post(f"{FILES}/form", data={"name": HOSTILE[0]})
        client.post(f"{FILES}/form", data={"name": "Ada"}, files=files)
        session.call(NAMED, {HOSTILE[2]: HOSTILE[0], "$t": 0}, lambda: {"gave": HOSTILE})
        _agent(client)
        thread = Thread(target=ask, args=(client, *HOSTILE))
        thread.start()
        thread.join()
