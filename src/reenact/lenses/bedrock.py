"""Amazon Bedrock Converse, for every model that is served there."""

from __future__ import annotations

from typing import Any

from reenact.lenses.content import Content, error_in, failure
from reenact.lenses.fields import (
    counted,
    inside,
    joined,
    mapped,
    mappings,
    parsed,
    shown,
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

__all__ = ["NAME", "answered", "asked", "messages"]

NAME = "bedrock.converse"

_STREAMING = "/converse-stream"
_LEFT_OUT = frozenset(("toolConfig", "requestMetadata"))
_TOOLS = frozenset(("tools",))
_MEDIA = ("image", "document", "video", "audio")


def asked(place: Place, body: dict[str, Any]) -> Asked | None:
    """Read a request. It has messages, and the model is in the path."""
    streams = place.path.endswith(_STREAMING)
    model = place.part("/model/", _STREAMING if streams else "/converse")
    if not isinstance(body.get("messages"), list) or not model:
        return None
    config = mapped(body.get("toolConfig"))
    rest = without(config, _TOOLS)
    return Asked(
        lens=NAME,
        provider=place.provider("bedrock"),
        model=model,
        streams=streams,
        input=without(body, _LEFT_OUT) | ({"toolConfig": rest} if rest else {}),
        tools=config.get("tools") or None,
    )


def messages(sent: dict[str, Any]) -> tuple[Message, ...]:
    """Return the messages of a request for display."""
    system = joined((item.get("text") for item in mappings(sent.get("system"))), "\n")
    found = [Message(role="system", text=system)] if system else []
    return (*found, *(_message(item) for item in mappings(sent.get("messages"))))


def _message(item: dict[str, Any]) -> Message:
    blocks = list(mappings(item.get("content")))
    results = tuple(_outcome(block["toolResult"]) for block in _with(blocks, "toolResult"))
    return _choice(blocks).as_message(text(item.get("role")), results)


def answered(content: Content) -> Answered:
    """Read a reply."""
    if not content.streamed:
        whole = content.only
        return _made(whole, error_in(whole), complete=content.whole)
    gathering = _Gathering()
    error = None
    for name, value, failed in content.parts:
        error = error or (failure(name, value) if failed else None)
        if not failed:
            gathering.add(name, mapped(value))
    return _made(gathering.whole(), error, complete=gathering.ended or error is not None)


def _choice(blocks: list[dict[str, Any]]) -> Choice:
    return Choice(
        text=joined(block.get("text") for block in blocks),
        tool_calls=_tool_calls(blocks),
        reasoning=_reasoning(blocks),
        attached=_attached(blocks),
    )


def _made(whole: dict[str, Any], error: str | None, *, complete: bool) -> Answered:
    return Answered.of(
        [_choice(list(mappings(inside(whole, "output", "message", "content"))))],
        stop_reason=text(whole.get("stopReason")) or None,
        usage=_usage(whole.get("usage")),
        error=error,
        complete=complete,
    )


class _Gathering:
    """Reply that is assembled from the events of a stream."""

    def __init__(self) -> None:
        self.ended = False
        self._rest: dict[str, Any] = {}
        self._blocks: dict[int, _Block] = {}

    def add(self, name: str, event: dict[str, Any]) -> None:
        if name in ("contentBlockStart", "contentBlockDelta"):
            index = event.get("contentBlockIndex")
            block = self._blocks.setdefault(index if type(index) is int else -1, _Block())
            block.add(mapped(event.get("start")), mapped(event.get("delta")))
        elif name in ("messageStop", "metadata"):
            self._rest |= event
            self.ended = self.ended or name == "messageStop"

    def whole(self) -> dict[str, Any]:
        blocks = [block.whole() for _, block in sorted(self._blocks.items())]
        return {**self._rest, "output": {"message": {"content": blocks}}}


class _Block:
    def __init__(self) -> None:
        self._tool: dict[str, Any] = {}
        self._pieces: dict[str, list[str]] = {}

    def add(self, start: dict[str, Any], delta: dict[str, Any]) -> None:
        self._tool |= mapped(start.get("toolUse"))
        self._keep("text", delta.get("text"))
        self._keep("input", inside(delta, "toolUse", "input"))
        for name in ("text", "signature", "redactedContent"):
            self._keep(f"reasoning.{name}", inside(delta, "reasoningContent", name))

    def _keep(self, name: str, piece: Any) -> None:
        if text(piece):
            self._pieces.setdefault(name, []).append(piece)

    def whole(self) -> dict[str, Any]:
        told = {name: "".join(pieces) for name, pieces in self._pieces.items()}
        if self._tool or "input" in told:
            return {"toolUse": {**self._tool, "input": told.get("input", "")}}
        thought = {
            name.removeprefix("reasoning."): item
            for name, item in told.items()
            if name.startswith("reasoning.")
        }
        if "redactedContent" in thought:
            return {"reasoningContent": thought}
        if thought:
            return {"reasoningContent": {"reasoningText": thought}}
        return {"text": told.get("text", "")}


def _with(blocks: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [block for block in blocks if isinstance(block.get(name), dict)]


def _tool_calls(blocks: list[dict[str, Any]]) -> tuple[ToolUse, ...]:
    calls = (block["toolUse"] for block in _with(blocks, "toolUse"))
    return tuple(
        ToolUse(
            id=text(call.get("toolUseId")),
            name=text(call.get("name")),
            arguments=parsed(call.get("input")),
        )
        for call in calls
    )


def _outcome(result: dict[str, Any]) -> ToolOutcome:
    parts = list(mappings(result.get("content")))
    said = [part.get("text") for part in parts]
    said += [shown(part["json"]) for part in parts if "json" in part]
    return ToolOutcome(
        id=text(result.get("toolUseId")),
        text=joined(said, "\n"),
        failed=result.get("status") == "error",
    )


def _reasoning(blocks: list[dict[str, Any]]) -> tuple[Reasoning, ...]:
    found = []
    for block in _with(blocks, "reasoningContent"):
        thought = block["reasoningContent"]
        shown = mapped(thought.get("reasoningText"))
        opaque = text(shown.get("signature")) or text(thought.get("redactedContent"))
        found.append(Reasoning(text=text(shown.get("text")), opaque=opaque or None))
    return tuple(found)


def _attached(blocks: list[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(_described(name, block[name]) for name in _MEDIA for block in _with(blocks, name))


def _described(kind: str, media: dict[str, Any]) -> str:
    named = joined((media.get("format"), media.get("name")), " ")
    return f"{kind} {named} ({size_of(inside(media, 'source', 'bytes'))})"


def _usage(told: Any) -> Usage | None:
    return counted(
        told,
        ("input", ("inputTokens",)),
        ("output", ("outputTokens",)),
        ("cacheRead", ("cacheReadInputTokens",)),
        ("cacheWrite", ("cacheWriteInputTokens",)),
        ("total", ("totalTokens",)),
    )
