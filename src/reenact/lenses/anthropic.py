"""Anthropic Messages, at Anthropic and as served by Google and Amazon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reenact.lenses.content import Content, error_in, failure
from reenact.lenses.fields import (
    counted,
    inside,
    joined,
    mapped,
    mappings,
    parsed,
    size_of,
    text,
    without,
)
from reenact.lenses.model import (
    Answered,
    Asked,
    Choice,
    Message,
    Reasoning,
    ToolOutcome,
    ToolUse,
    Usage,
)
from reenact.lenses.registry import Place

__all__ = [
    "NAME",
    "answered",
    "asked",
    "choice_of",
    "message_of",
    "messages",
    "messages_of",
]

_CALLS = {"tool_use": False, "server_tool_use": True, "mcp_tool_use": True}
"""Blocks that are tool calls, and whether the provider makes them itself."""


def choice_of(content: Any) -> Choice:
    """Read the parts of a message. Its content is a list of blocks or a text."""
    if isinstance(content, str):
        return Choice(text=content)
    blocks = list(mappings(content))
    return Choice(
        text=joined(block.get("text") for block in blocks if block.get("type") == "text"),
        tool_calls=tuple(_tool_use(block) for block in blocks if text(block.get("type")) in _CALLS),
        reasoning=tuple(found for block in blocks if (found := _reasoning(block))),
        attached=tuple(_attached(blocks)),
    )


def messages_of(value: Any) -> list[Message]:
    """Read the messages of the API."""
    return [message_of(text(item.get("role")), item.get("content")) for item in mappings(value)]


def message_of(role: str, content: Any) -> Message:
    """Read one message of ``role``. Its content is a text or a list of blocks."""
    results = tuple(_outcome(block) for block in mappings(content) if _is_result(block))
    return choice_of(content).as_message(role, results)


def _tool_use(block: dict[str, Any]) -> ToolUse:
    return ToolUse(
        id=text(block.get("id")),
        name=text(block.get("name")),
        arguments=parsed(block.get("input")),
        hosted=_CALLS[block["type"]],
    )


def _is_result(block: dict[str, Any]) -> bool:
    return text(block.get("type")).endswith("tool_result")


def _outcome(block: dict[str, Any]) -> ToolOutcome:
    content = block.get("content")
    said = (
        content
        if isinstance(content, str)
        else joined(item.get("text") for item in mappings(content))
    )
    return ToolOutcome(
        id=text(block.get("tool_use_id")), text=said, failed=block.get("is_error") is True
    )


def _reasoning(block: dict[str, Any]) -> Reasoning | None:
    if block.get("type") == "thinking":
        opaque = text(block.get("signature")) or None
        return Reasoning(text=text(block.get("thinking")), opaque=opaque)
    if block.get("type") == "redacted_thinking":
        return Reasoning(opaque=text(block.get("data")) or None)
    return None


def _attached(blocks: list[dict[str, Any]]) -> Iterator[str]:
    """Describe pictures and documents, including pictures in tool results."""
    for block in blocks:
        source = block.get("source")
        if isinstance(source, dict):
            yield _described(text(block.get("type")), source)
        elif _is_result(block):
            inner = [item for item in mappings(block.get("content")) if mapped(item.get("source"))]
            for item in inner:
                yield _described(text(item.get("type")), item["source"])


def _described(kind: str, source: dict[str, Any]) -> str:
    told = joined((inside(source, name) for name in ("media_type", "url", "file_id")), " ")
    size = f" ({size_of(source['data'])})" if "data" in source else ""
    return f"{kind} {told[:200]}{size}"


NAME = "anthropic.messages"

_LEFT_OUT = frozenset("model stream tools metadata anthropic_version service_tier".split())
_IN_PATHS = (
    (":rawPredict", "/models/"),
    (":streamRawPredict", "/models/"),
    ("/invoke", "/model/"),
    ("/invoke-with-response-stream", "/model/"),
)
"""Path markers of the model name: the text after it, and the text before it."""

_STREAMING = (":streamRawPredict", "/invoke-with-response-stream")


def asked(place: Place, body: dict[str, Any]) -> Asked | None:
    """Read a request. ``max_tokens`` distinguishes it from requests of other ``/messages`` APIs."""
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
    """Return the model in the path.

    ``anthropic_version`` distinguishes the request from requests to other models.
    """
    if not text(body.get("anthropic_version")):
        return ""
    for behind, before in _IN_PATHS:
        if place.path.endswith(behind):
            return place.part(before, behind)
    return ""


def messages(sent: dict[str, Any]) -> tuple[Message, ...]:
    """Return the messages of a request for display."""
    system = sent.get("system")
    found = [message_of("system", system)] if system else []
    return (*found, *messages_of(sent.get("messages")))


def answered(content: Content) -> Answered:
    """Read a reply."""
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
    return Answered.of(
        [choice_of(message.get("content"))],
        stop_reason=text(message.get("stop_reason")) or None,
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
    """Message that is assembled from the events of a stream."""

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
        """Apply a ``message_delta`` event. Its token counts are totals of the complete message."""
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
        if text(delta.get("signature")):  # sent in one piece
            self._start = {**self._start, "signature": delta["signature"]}

    def whole(self) -> dict[str, Any]:
        added = {name: "".join(pieces) for name, pieces in self._pieces.items()}
        arguments = added.pop("partial_json", None)
        texts = {name: text(self._start.get(name)) + more for name, more in added.items()}
        changed = texts if arguments is None else {**texts, "input": arguments}
        return {**self._start, **changed}
