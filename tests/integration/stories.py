"""Deterministic events: the process that writes them and the test that checks them agree by seed.

Sizes go from 100 bytes to 300 KB; some payloads become blobs, some are stored as deltas. Every
``data`` carries its own index, so that order, loss and duplication can be told apart.
"""

from __future__ import annotations

import random
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from reenact.format.event import Draft, Event

__all__ = ["brief_story", "index_of", "long_story", "story_of"]

_POOL = 1_000_000


def long_story(seed: str, *, lane: str = "0") -> Iterator[Draft]:
    """Endless. ``ts`` is the index, and means nothing."""
    chance = random.Random(seed)
    pool = b64encode(chance.randbytes(_POOL)).decode("ascii")
    messages: list[dict[str, str]] = []
    index = 0
    while True:
        yield _draft(chance, pool, messages, index, lane)
        index += 1


def _text(chance: random.Random, pool: str, least: int, most: int) -> str:
    size = chance.randint(least, most)
    start = chance.randrange(len(pool) - size)
    return pool[start : start + size]


def _draft(
    chance: random.Random, pool: str, messages: list[dict[str, str]], index: int, lane: str
) -> Draft:
    kind = chance.choices(("small", "medium", "turn", "text", "bytes"), (6, 3, 6, 1, 1))[0]
    if kind == "turn":
        if len(messages) > 40:
            messages.clear()
        messages.append({"role": "user", "content": _text(chance, pool, 50, 4_000)})
        data: dict[str, Any] = {
            "provider": "p",
            "model": "m",
            "inputHash": "h",
            "messages": [dict(message) for message in messages],
        }
        return Draft(type="llm_request", data={**data, "i": index}, ts=index, lane=lane, op="chat")
    value: str | bytes
    if kind == "bytes":
        value = chance.randbytes(chance.randint(10, 200_000))
    else:
        sizes = {"small": (10, 400), "medium": (400, 30_000), "text": (66_000, 300_000)}[kind]
        value = _text(chance, pool, *sizes)
    data = {"source": kind, "key": "k", "valueHash": "h", "value": value, "i": index}
    return Draft(type="nondeterministic", data=data, ts=index, lane=lane, op=kind)


def brief_story(seed: str, *, lane: str = "0", count: int = 6) -> list[Draft]:
    """A few events of some hundred bytes, to be stored with a blob threshold of 700 bytes.

    Among them is one delta, one blob of text and one of bytes.
    """
    chance = random.Random(seed)
    pool = b64encode(chance.randbytes(20_000)).decode("ascii")
    history = [_text(chance, pool, 600, 650)]
    drafts: list[Draft] = []
    for index in range(count):
        kind = ("call", "turn", "turn", "text", "bytes", "call")[index % 6]
        if kind == "turn":
            data: dict[str, Any] = {
                "provider": "p",
                "model": "m",
                "inputHash": "h",
                "history": list(history),
            }
            history.append(f"turn {index}")
        elif kind == "call":
            data = {"name": "f", "args": {"x": index}, "callId": f"call_{index}"}
        else:
            value: Any = _text(chance, pool, 800, 900)
            value = value if kind == "text" else chance.randbytes(900)
            data = {"source": kind, "key": "k", "valueHash": "h", "value": value}
        type_ = {"turn": "llm_request", "call": "tool_call"}.get(kind, "nondeterministic")
        drafts.append(Draft(type=type_, data={**data, "i": index}, ts=index, lane=lane, op=kind))
    return drafts


def story_of(drafts: list[Draft]) -> list[tuple[str, str, dict[str, Any]]]:
    """What must be read back."""
    return [(draft.lane, draft.type, draft.data) for draft in drafts]


def index_of(event: Event) -> int:
    found: int = event.data["i"]
    return found
