"""Content of calls as comparisons and pages use it, and model calls as conversations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from reenact.diff.sequences import pair_up
from reenact.engine.request import BOOKKEEPING
from reenact.format.content_hash import without_volatile
from reenact.format.event import Data
from reenact.lenses.conversation import messages, read_event
from reenact.lenses.model import Answered, Asked, Choice, Message
from reenact.views.html.values import key_of
from reenact.views.recorded_calls import RecordedCall, decode_content, readable_body

__all__ = [
    "NOT_SAID",
    "ContentReader",
    "conversation",
    "is_noise",
    "meaning_of",
    "message_pairs",
    "without_messages",
    "words_of",
]

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


_ANSWER = "answer"
_MESSAGES = ("messages", "input", "contents", "system", "systemInstruction", "instructions")
_ABOUT = ("role", "stopped", "usage", "error")

Said = dict[str, Any]


def conversation(step: RecordedCall | None) -> list[Said] | None:
    """Return the messages of a model call, the response last, or None without a suitable lens."""
    asked = None if step is None or step.kind != "llm" else read_event(step.asked)
    if step is None or not isinstance(asked, Asked):
        return None
    found = [_said(one.role, one) for one in messages(asked)]
    answer = meaning_of(step)
    if answer is not None:
        about = {
            "stopped": answer.stop_reason,
            "usage": answer.usage,
            "error": answer.error,
            "others": [_said(_ANSWER, one) for one in answer.others],
        }
        found.append(_filled({**_said(_ANSWER, answer), **about}))
    return found


def _said(role: str, message: Message | Choice) -> Said:
    """Return a message without generated ids."""
    return _filled(
        {
            "role": role,
            "reasoning": "\n\n".join(one.text for one in message.reasoning if one.text),
            "text": message.text,
            "calls": [[use.name, msgspec.to_builtins(use.arguments)] for use in message.tool_calls],
            "results": [[one.name, one.text] for one in getattr(message, "results", ())],
            "attached": list(getattr(message, "attached", ())),
            "refusal": getattr(message, "refusal", None),
        }
    )


def words_of(said: Said) -> Said:
    """Return the content of a response as the next call repeats it in an assistant message."""
    return {name: item for name, item in said.items() if name not in _ABOUT}


def _filled(value: Said) -> Said:
    return {name: item for name, item in value.items() if item not in (None, "", [], {})}


def without_messages(said: Any) -> Any:
    """Return the comparable content of a model call without its conversation."""
    request = said.get("request") if isinstance(said, dict) else None
    body = request.get("body") if isinstance(request, dict) else None
    if not isinstance(request, dict) or not isinstance(body, dict):
        return said
    rest = {name: item for name, item in body.items() if name not in _MESSAGES}
    return {**said, "request": {**request, "body": rest}}


def message_pairs(
    mine: list[Said], theirs: list[Said]
) -> Iterator[tuple[Said | None, Said | None]]:
    """Pair equal messages, and between them messages of the same role."""
    return pair_up(mine, theirs, key_of, _role)


def _role(said: Said) -> str:
    return str(said["role"])
