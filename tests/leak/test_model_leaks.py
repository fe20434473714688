"""Secrets in what models are asked and answer: none in any file, hash, message, or divergence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reenact import DivergenceError, Session
from reenact.boundaries.http.api import Head, Request, ask
from tests.leak.planted import Plant, plant_shape
from tests.leak.room import Room
from tests.leak.search import Planted

URL = "https://models.example.test/v1/chat/completions"
JSON = ("content-type", "application/json")


class Exchange:
    """One question and its answer, with a secret in one of them."""

    def __init__(self, plant: Plant, **parts: Any) -> None:
        self.plant = plant
        message = {"role": "user", "content": "hello"}
        self._body = {"model": "m", "messages": [message], **parts.get("body", {})}
        self._headers = (JSON, *parts.get("headers", ()))
        self._answer = parts.get("answer", {"role": "assistant", "content": "yes"})
        self._streamed = "stream" in self._body

    def asked(self, session: Session, question: str = "hello") -> bytes:
        body = {**self._body, "seed": question}
        request = Request(
            method="POST", url=URL, headers=self._headers, body=json.dumps(body).encode()
        )
        return b"".join(ask(session, request, self._live, whole=not self._streamed))

    def _live(self) -> Iterator[Any]:
        if not self._streamed:
            yield Head(status=200, headers=(JSON,))
            yield json.dumps({"choices": [{"message": self._answer}]}).encode()
            return
        yield Head(status=200, headers=(("content-type", "text/event-stream"),))
        told = self._answer["content"]
        for part in (told[:9], told[9:]):
            choice = {"index": 0, "delta": {"content": part}}
            yield f"data: {json.dumps({'choices': [choice]})}\n\n".encode()


def _call(secret: str) -> dict[str, Any]:
    function = {"name": "look", "arguments": json.dumps({"note": f"it is {secret}"})}
    return {"role": "assistant", "tool_calls": [{"id": "call_1", "function": function}]}


PLACES: dict[str, Callable[[str], dict[str, Any]]] = {
    "key": lambda secret: {"headers": [("authorization", f"Bearer {secret}")]},
    "prompt": lambda secret: {
        "body": {"messages": [{"role": "user", "content": f"I have {secret} here"}]}
    },
    "arguments": lambda secret: {"body": {"messages": [_call(secret)]}},
    "tools": lambda secret: {"body": {"tools": [{"function": {"description": secret}}]}},
    "model": lambda secret: {"body": {"model": secret}},
    "answer": lambda secret: {"answer": {"role": "assistant", "content": f"take {secret}"}},
    "called": lambda secret: {"answer": _call(secret)},
    "streamed": lambda secret: {
        "body": {"stream": True},
        "answer": {"content": f"take {secret} and go"},
    },
}


def _exchanges() -> Iterator[tuple[str, Exchange]]:
    for place, parts in PLACES.items():
        plant = plant_shape("shape.openai", place)
        yield place, Exchange(plant, **parts(plant.text))


ALL = list(_exchanges())
EVERYTHING = [Planted(place, None, (one.plant,)) for place, one in ALL]  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["capture", "tape"])
def test_no_secret_of_a_model_call_is_anywhere(
    kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    room = Room(tmp_path, "default", kind)
    with room.session("record") as session:
        made = [one.asked(session) for _, one in ALL]
    with room.session("replay", strict=True) as session:
        again = [one.asked(session) for _, one in ALL]
    if kind == "capture":  # sealed, and the key is here
        assert again == made
    for _, one in ALL:
        with pytest.raises(DivergenceError) as caught, room.session("replay", strict=True) as other:
            one.asked(other, "another question")
        room.note(caught.value)
    assert room.leaks(EVERYTHING, capfd) == []


def test_the_search_would_find_what_is_not_redacted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    room = Room(tmp_path, "none", "capture")
    with room.session("record") as session:
        for _, one in ALL:
            one.asked(session)
    assert set(room.leaks(EVERYTHING, capfd)) == set(PLACES)
