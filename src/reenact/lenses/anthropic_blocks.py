"""The content blocks of Anthropic Messages: what they say, in answers and in conversations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from reenact.lenses.fields import inside, joined, mapped, mappings, parsed, size_of, text
from reenact.lenses.meaning import Message, Reasoning, ToolOutcome, ToolUse

__all__ = ["Told", "message_of", "messages_of", "tell"]

_CALLS = {"tool_use": False, "server_tool_use": True, "mcp_tool_use": True}
"""Blocks that are tool calls, and whether the provider makes them itself."""


class Told(NamedTuple):
    """What an answer says, part by part."""

    text: str
    tool_calls: tuple[ToolUse, ...]
    reasoning: tuple[Reasoning, ...]
    attached: tuple[str, ...]


def tell(content: Any) -> Told:
    """What the blocks of a message say; its content may also be a text."""
    if isinstance(content, str):
        return Told(content, (), (), ())
    blocks = list(mappings(content))
    return Told(
        text=joined(block.get("text") for block in blocks if block.get("type") == "text"),
        tool_calls=tuple(_tool_use(block) for block in blocks if text(block.get("type")) in _CALLS),
        reasoning=tuple(found for block in blocks if (found := _reasoning(block))),
        attached=tuple(_attached(blocks)),
    )


def messages_of(value: Any) -> list[Message]:
    """Messages as the API has them."""
    return [message_of(text(item.get("role")), item.get("content")) for item in mappings(value)]


def message_of(role: str, content: Any) -> Message:
    """One message of ``role``, whose content may be a text or blocks."""
    told = tell(content)
    return Message(
        role=role,
        text=told.text,
        tool_calls=told.tool_calls,
        results=tuple(_outcome(block) for block in mappings(content) if _is_result(block)),
        reasoning=told.reasoning,
        attached=told.attached,
    )


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
    """Pictures and documents, also those in the results of tools."""
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
