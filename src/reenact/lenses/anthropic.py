"""Anthropic Messages, at Anthropic and where Google and Amazon serve it."""

from __future__ import annotations

from typing import Any

from reenact.lenses.anthropic_blocks import message_of, messages_of, tell
from reenact.lenses.content import Content
from reenact.lenses.failing import error_in, failure
from reenact.lenses.fields import counted, mapped, text, without
from reenact.lenses.meaning import Answered, Asked, Message, Usage
from reenact.lenses.places import Place

__all__ = ["NAME", "answered", "asked", "messages"]

NAME = "anthropic.messages"

_LEFT_OUT = frozenset("model stream tools metadata anthropic_version service_tier".split())
_IN_PATHS = (
    (":rawPredict", "/models/"),
    (":streamRawPredict", "/models/"),
    ("/invoke", "/model/"),
    ("/invoke-with-response-stream", "/model/"),
)
"""Where the model is in the path: what stands behind it, and what before."""

_STREAMING = (":streamRawPredict", "/invoke-with-response-stream")


def asked(place: Place, body: dict[str, Any]) -> Asked | None:
    """A request has messages and says how long the answer may be, as no other ``/messages`` does."""
    if not isinstance(body.get("messages"), list) or "max_tokens" not in body:
        return None
    model = text(body.get("model")) or _model(place, body)
    if not model:
        return None
    return Asked(
        lens=NAME,
        provider=place.provider("anthropic"),
        model=model,
        streams=body.get("stream") is True or place.path.endswith(_STREAMING),
        input=without(body, _LEFT_OUT),
        tools=body.get("tools") or None,
    )


def _model(place: Place, body: dict[str, Any]) -> str:
    """Other models are asked at the same places, but without the version of this API."""
    if not text(body.get("anthropic_version")):
        return ""
    for behind, before in _IN_PATHS:
        if place.path.endswith(behind):
            return place.part(before, behind)
    return ""


def messages(sent: dict[str, Any]) -> tuple[Message, ...]:
    """The messages of a request, for people."""
    system = sent.get("system")
    found = [message_of("system", system)] if system else []
    return (*found, *messages_of(sent.get("messages")))


def answered(content: Content) -> Answered:
    """What an answer says."""
    if not content.streamed:
        whole = content.only
        return _made(whole, error_in(whole), complete=content.whole)
    gathering = _Gathering()
    error = None
    for name, value, failed in content.parts:
        event = mapped(value)
        gathering.add(event)
        error = error or (failure(name, value) if failed else error_in(event))
    return _made(gathering.message(), error, complete=gathering.ended or error is not None)


def _made(message: dict[str, Any], error: str | None, *, complete: bool) -> Answered:
    told = tell(message.get("content"))
    return Answered(
        stop_reason=text(message.get("stop_reason")) or None,
        text=told.text,
        tool_calls=told.tool_calls,
        reasoning=told.reasoning,
        attached=told.attached,
        model=text(message.get("model")),
        id=text(message.get("id")),
        usage=_usage(message.get("usage")),
        error=error,
        complete=complete,
    )


def _usage(told: Any) -> Usage | None:
    return counted(
        told,
        ("input", ("input_tokens",)),
        ("output", ("output_tokens",)),
        ("cacheRead", ("cache_read_input_tokens",)),
        ("cacheWrite", ("cache_creation_input_tokens",)),
    )


class _Gathering:
    """Takes the events of a stream, gives the message as it is when it is not streamed."""

    def __init__(self) -> None:
        self.ended = False
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, _Block] = {}

    def add(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "message_start":
            self._message = dict(mapped(event.get("message")))
        elif kind == "content_block_start":
            self._blocks[_index(event)] = _Block(mapped(event.get("content_block")))
        elif kind == "content_block_delta":
            self._blocks.setdefault(_index(event), _Block({})).add(mapped(event.get("delta")))
        elif kind == "message_delta":
            self._change(event)
        self.ended = self.ended or kind == "message_stop"

    def _change(self, event: dict[str, Any]) -> None:
        """Counts that come later are those of the whole message."""
        self._message |= mapped(event.get("delta"))
        later = {
            name: item for name, item in mapped(event.get("usage")).items() if item is not None
        }
        self._message["usage"] = mapped(self._message.get("usage")) | later

    def message(self) -> dict[str, Any]:
        if not self._blocks:
            return self._message
        blocks = [block.whole() for _, block in sorted(self._blocks.items())]
        return {**self._message, "content": blocks}


def _index(event: dict[str, Any]) -> int:
    index = event.get("index")
    return index if type(index) is int else -1


class _Block:
    """A block of content, and what the deltas add to it."""

    def __init__(self, start: dict[str, Any]) -> None:
        self._start = start
        self._pieces: dict[str, list[str]] = {}

    def add(self, delta: dict[str, Any]) -> None:
        for name in ("text", "thinking", "partial_json"):
            if text(delta.get(name)):
                self._pieces.setdefault(name, []).append(delta[name])
        if text(delta.get("signature")):  # comes in one piece
            self._start = {**self._start, "signature": delta["signature"]}

    def whole(self) -> dict[str, Any]:
        added = {name: "".join(pieces) for name, pieces in self._pieces.items()}
        arguments = added.pop("partial_json", None)
        texts = {name: text(self._start.get(name)) + more for name, more in added.items()}
        changed = texts if arguments is None else {**texts, "input": arguments}
        return {**self._start, **changed}
