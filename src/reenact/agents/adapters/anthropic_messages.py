"""Adapter for Anthropic's Messages API.

Replies are sent back block by block, with the signatures of their thinking blocks.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from reenact.agents.adapters.client import ClientModel, Gathering
from reenact.agents.messages import (
    Delta,
    Message,
    ModelReply,
    ModelRequest,
    Native,
    Reasoning,
    ToolRequest,
    Usage,
)

__all__ = ["AnthropicMessages"]

_TOKENS = 4096
_THINKING = ("thinking", "redacted_thinking")


class AnthropicMessages(ClientModel):
    """``AnthropicMessages(anthropic.Anthropic(), "…", max_tokens=2048)``; ``stream=True`` streams."""

    dialect: ClassVar[str] = "anthropic.messages"
    method: ClassVar[str] = "messages.create"

    def __init__(
        self,
        client: Any,
        model: str,
        *,
        stream: bool = False,
        max_tokens: int = _TOKENS,
        **params: Any,
    ) -> None:
        super().__init__(client, model, stream=stream, max_tokens=max_tokens, **params)

    def asked(self, request: ModelRequest) -> dict[str, Any]:
        asked: dict[str, Any] = {"messages": self._sent(request.messages)}
        if request.instructions:
            asked["system"] = request.instructions
        if request.tools:
            asked["tools"] = [
                {
                    "name": one.name,
                    "description": one.description,
                    "input_schema": one.parameters,
                }
                for one in request.tools
            ]
        return asked

    def _sent(self, messages: tuple[Message, ...]) -> list[dict[str, Any]]:
        """Join the tool results of a turn and the user's next text in one user message."""
        sent: list[dict[str, Any]] = []
        for one in messages:
            role = "assistant" if one.role == "assistant" else "user"
            blocks = self._blocks(one)
            if sent and sent[-1]["role"] == role == "user":
                sent[-1]["content"].extend(blocks)
            elif blocks:
                sent.append({"role": role, "content": blocks})
        return sent

    def _blocks(self, message: Message) -> list[dict[str, Any]]:
        if message.role == "tool":
            block = {
                "type": "tool_result",
                "tool_use_id": message.call_id,
                "content": message.text,
            }
            return [{**block, "is_error": True} if message.is_error else block]
        if message.native is not None and message.native.dialect == self.dialect:
            return list(message.native.items)
        text = [{"type": "text", "text": message.text}] if message.text else []
        return text + [
            {"type": "tool_use", "id": one.id, "name": one.name, "input": one.arguments or {}}
            for one in message.tool_calls
        ]

    def read(self, answer: dict[str, Any]) -> ModelReply:
        blocks = [block for block in answer.get("content") or () if isinstance(block, dict)]
        return ModelReply(
            text="".join(one.get("text") or "" for one in blocks if one.get("type") == "text"),
            tool_calls=tuple(_tool(one) for one in blocks if one.get("type") == "tool_use"),
            reasoning=tuple(_thought(one) for one in blocks if one.get("type") in _THINKING),
            stop_reason=answer.get("stop_reason"),
            usage=_usage(answer.get("usage")),
            native=Native(self.dialect, blocks),
        )

    def gathering(self) -> Gathering:
        return _Gathering(self)


def _tool(block: dict[str, Any]) -> ToolRequest:
    given = block.get("input")
    return ToolRequest(
        id=block.get("id") or "",
        name=block.get("name") or "",
        arguments=given if isinstance(given, dict) else None,
        written=None if isinstance(given, dict) else json.dumps(given),
    )


def _thought(block: dict[str, Any]) -> Reasoning:
    return Reasoning(
        text=block.get("thinking") or "",
        signature=block.get("signature") or block.get("data"),
    )


def _usage(said: Any) -> Usage | None:
    if not isinstance(said, dict):
        return None
    return Usage(
        input=said.get("input_tokens") or 0,
        output=said.get("output_tokens") or 0,
        cache_read=said.get("cache_read_input_tokens") or 0,
        cache_write=said.get("cache_creation_input_tokens") or 0,
    )


class _Gathering(Gathering):
    """Blocks begin, grow and end by index; the head and the last event say the rest."""

    def __init__(self, model: AnthropicMessages) -> None:
        self._model = model
        self._head: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._written: dict[int, str] = {}

    def add(self, piece: dict[str, Any]) -> Delta | None:
        kind, index = piece.get("type"), piece.get("index") or 0
        if kind == "message_start":
            self._head = piece.get("message") or {}
            self._usage |= self._head.get("usage") or {}
        elif kind == "content_block_start":
            self._blocks[index] = dict(piece.get("content_block") or {})
        elif kind == "content_block_delta":
            return self._grow(index, piece.get("delta") or {})
        elif kind == "message_delta":
            self._head = {**self._head, **(piece.get("delta") or {})}
            said = piece.get("usage") or {}
            self._usage |= {name: one for name, one in said.items() if one is not None}
        return None

    def _grow(self, index: int, delta: dict[str, Any]) -> Delta | None:
        block, kind = self._blocks.setdefault(index, {}), delta.get("type")
        if kind == "input_json_delta":
            written = self._written.get(index, "") + (delta.get("partial_json") or "")
            self._written[index] = written
            return None
        name = {"text_delta": "text", "thinking_delta": "thinking"}.get(str(kind))
        if name is None:
            if kind == "signature_delta":
                block["signature"] = (block.get("signature") or "") + delta.get("signature", "")
            return None
        said = delta.get(name) or ""
        block[name] = (block.get(name) or "") + said
        return Delta(text=said) if name == "text" else Delta(thinking=said)

    def reply(self) -> ModelReply:
        blocks = [self._filled(index) for index in sorted(self._blocks)]
        return self._model.read({**self._head, "content": blocks, "usage": self._usage})

    def _filled(self, index: int) -> dict[str, Any]:
        block, written = self._blocks[index], self._written.get(index)
        if not written:
            return block
        try:
            return {**block, "input": json.loads(written)}
        except ValueError:
            return {**block, "input": written}
