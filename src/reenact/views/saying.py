"""What a step says, in the form in which two runs are compared and shown.

The wire has much that is another in every run and means nothing: dates, ids of requests, counters
of what is left. Of a model call the meaning is taken (what it asked, what was answered), of other
HTTP the status, the headers that matter and the body as JSON where it is JSON. Ids of tool calls
are replaced by the name of the tool: a model makes them up anew each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from reenact.engine.requests import BOOKKEEPING
from reenact.format.content import settled
from reenact.format.event import Data
from reenact.lenses.meaning import Answered, Choice
from reenact.lenses.reading import read_event
from reenact.views.bodies import readable, undo
from reenact.views.steps import Step

__all__ = ["Speaker"]

_NOISE = re.compile(
    r"age|alt-svc|cf-.*|connection|content-length|date|etag|expires|keep-alive|last-modified"
    r"|openai-.*|report-to|nel|server-timing|set-cookie|traceparent|transfer-encoding|via"
    r"|x-.*(?:request|trace|correlation|amz)-?id.*|x-amz.*id.*|x-.*-time|x-.*ratelimit-.*"
    r"|.*ratelimit-.*|x-runtime|request-id"
)
"""Headers of answers that differ between two runs in which nothing has changed."""

_NOT_SAID = BOOKKEEPING | frozenset("sent valueHash inputHash toolSchemaHash lens callId".split())


class Speaker:
    """Says what the steps of one recording say. ``everything``: all that the events hold."""

    def __init__(self, steps: Iterable[Step], *, everything: bool = False) -> None:
        self._everything = everything
        self._names: dict[str, str] = {}
        for step in steps:
            meaning = None if everything else _meaning(step)
            if meaning is not None:
                self._learn((meaning, *meaning.others))

    def of(self, step: Step) -> Data:
        """As JSON: ``request`` (or what else was asked) and what came of it."""
        asked, answered = step.asked, step.answered
        if self._everything:
            return {**asked, **answered}
        whole = self._plain(asked)
        if step.closing is not step.opening:
            whole |= self._plain(answered)
        response = answered.get("response")
        if step.opening.type == "llm_request":
            whole |= _answer(step)
        elif isinstance(response, dict) and "status" in response:
            whole["response"] = _http(response)
        named: Data = self._named(whole)
        return named

    def _plain(self, data: Data) -> Data:
        listed = data.get("volatile")
        if isinstance(listed, list):
            data = settled(data, listed)
        return {name: item for name, item in data.items() if name not in _NOT_SAID}

    def _learn(self, choices: Iterable[Choice]) -> None:
        for choice in choices:
            for use in choice.tool_calls:
                name = f"<call of {use.name}>"
                self._names.update({one: name for one in (use.id, use.item) if one})
            for thought in choice.reasoning:
                self._names.update({thought.id: "<reasoning>"} if thought.id else {})

    def _named(self, value: Any) -> Any:
        """``value`` with names in place of the ids that a model made up."""
        if isinstance(value, str):
            return self._names.get(value, value)
        if isinstance(value, dict):
            return {name: self._named(item) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._named(item) for item in value]
        return value


def _meaning(step: Step) -> Answered | None:
    """What a model answered, where a lens can read it."""
    if step.opening.type != "llm_request":
        return None
    meaning = read_event(step.answered, lens=str(step.asked.get("lens", "")), undo=undo)
    return meaning if isinstance(meaning, Answered) else None


def _answer(step: Step) -> Data:
    """What the model answered, in place of the bytes in which it did."""
    meaning, response = _meaning(step), step.answered.get("response")
    if not isinstance(response, dict):
        return {}
    if meaning is None:
        return {"response": _http(response)}
    said = {
        name: item
        for name, item in msgspec.to_builtins(meaning).items()
        if item not in (None, "", [], {}) and name not in ("id", "complete")
    }
    if not meaning.complete:
        said["complete"] = False
    return {"response": {"status": response.get("status"), "answer": said}}


def _http(response: Data) -> Data:
    said = {name: item for name, item in response.items() if name in ("status", "error")}
    headers = response.get("headers")
    if isinstance(headers, list):
        kept = [pair for pair in headers if _matters(pair)]
        said["headers"] = [[str(name).lower(), value] for name, value in kept]
    body = response.get("body")
    if body is not None:
        said["body"] = readable(body, headers)
    return said


def _matters(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and not _NOISE.fullmatch(str(pair[0]).lower())
