"""Content of a call in the form that comparisons and pages use."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from reenact.engine.request import BOOKKEEPING
from reenact.format.content_hash import without_volatile
from reenact.format.event import Data
from reenact.lenses.conversation import read_event
from reenact.lenses.model import Answered, Choice
from reenact.views.calls import RecordedCall, decode_content, readable_body

__all__ = ["NOT_SAID", "ContentReader", "is_noise", "meaning_of"]

_NOISE = re.compile(
    r"age|alt-svc|cf-.*|connection|content-length|date|etag|expires|keep-alive|last-modified"
    r"|openai-.*|report-to|nel|server-timing|set-cookie|traceparent|transfer-encoding|via"
    r"|x-.*(?:request|trace|correlation|amz)-?id.*|x-amz.*id.*|x-.*-time|x-.*ratelimit-.*"
    r"|.*ratelimit-.*|x-runtime|request-id"
)
"""Headers of answers that differ between two runs in which nothing has changed."""

NOT_SAID = BOOKKEEPING | frozenset("sent valueHash inputHash toolSchemaHash lens callId".split())
"""Fields of events that are about the recording, or another in every run."""


class ContentReader:
    """Reader of the comparable content of calls. ``everything`` includes all event data."""

    def __init__(self, *, everything: bool = False) -> None:
        self._everything = everything
        self._names: dict[str, str] = {}

    def learn(self, step: RecordedCall) -> bool:
        """Note the ids that a model made up in ``step``; False when nothing was new."""
        meaning = None if self._everything else meaning_of(step)
        if meaning is None:
            return False
        before = len(self._names)
        for choice in (meaning, *meaning.others):
            self._note(choice)
        return len(self._names) > before

    def of(self, step: RecordedCall) -> Data:
        """Return the request and the result of a call as JSON."""
        asked, answered = step.asked, step.answered
        if self._everything:
            return {**asked, **answered}
        whole = self._plain(asked)
        if step.closing is not step.opening:
            whole |= self._plain(answered)
        response = answered.get("response")
        if step.opening.type == "llm_request":
            _put_answer(whole, step)
        elif isinstance(response, dict) and "status" in response:
            whole["response"] = _http(response)
        named: Data = self._named(whole) if self._names else whole
        return named

    def _plain(self, data: Data) -> Data:
        listed = data.get("volatile")
        if isinstance(listed, list):
            data = without_volatile(data, listed)
        return {name: item for name, item in data.items() if name not in NOT_SAID}

    def _note(self, choice: Choice) -> None:
        for use in choice.tool_calls:
            for one in filter(None, (use.id, use.item)):
                self._names.setdefault(one, f"<call of {use.name}>")
        for thought in choice.reasoning:
            if thought.id:
                self._names.setdefault(thought.id, "<reasoning>")

    def _named(self, value: Any) -> Any:
        """Return ``value`` with names in place of random ids of a model."""
        if isinstance(value, str):
            return self._names.get(value, value)
        if isinstance(value, dict):
            return {name: self._named(item) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._named(item) for item in value]
        return value


def meaning_of(step: RecordedCall) -> Answered | None:
    """Return the response of a model as read by a lens, or None."""
    if step.opening.type != "llm_request":
        return None
    meaning = read_event(step.answered, lens=str(step.asked.get("lens", "")), undo=decode_content)
    return meaning if isinstance(meaning, Answered) else None


def _put_answer(whole: Data, step: RecordedCall) -> None:
    """Replace the raw response by the model response, and drop fields that repeat it."""
    meaning, response = meaning_of(step), step.answered.get("response")
    seen = ("provider", "model") if "lens" in step.asked else ()
    for name in (*seen, *(("usage", "stopReason") if meaning is not None else ())):
        whole.pop(name, None)
    if not isinstance(response, dict):
        return
    if meaning is None:
        whole["response"] = _http(response)
        return
    said = {
        name: item
        for name, item in msgspec.to_builtins(meaning).items()
        if item not in (None, "", [], {}) and name not in ("id", "complete")
    }
    if not meaning.complete:
        said["complete"] = False
    whole["response"] = {"status": response.get("status"), "answer": said}


def _http(response: Data) -> Data:
    said = {name: item for name, item in response.items() if name in ("status", "error")}
    headers = response.get("headers")
    if isinstance(headers, list):
        kept = [pair for pair in headers if _matters(pair)]
        said["headers"] = [[str(name).lower(), value] for name, value in kept]
    body = response.get("body")
    if body is not None:
        said["body"] = readable_body(body, headers)
    return said


def _matters(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and not is_noise(str(pair[0]))


def is_noise(header: str) -> bool:
    """Return whether a response header differs between runs without a change."""
    return _NOISE.fullmatch(header.lower()) is not None
