"""Adapter for OpenAI's Responses API: the conversation is a list of items.

Items of the model are sent back unchanged. A reasoning item precedes its function call, and the API
refuses the call without it. A call has two ids: its output refers to ``call_…``, and ``fc_…``
identifies the item. Neither id is ever changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from reenact.agents.adapters.client import (
    ClientModel,
    Gathering,
    arguments_of,
    openai_usage,
    written_of,
)
from reenact.agents.messages import (
    Delta,
    Message,
    ModelReply,
    ModelRequest,
    Native,
    Reasoning,
    ToolRequest,
)

__all__ = ["OpenAIResponses"]

_LAST = ("response.completed", "response.incomplete", "response.failed")
_TEXT = "response.output_text.delta"
_THOUGHT = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")


class OpenAIResponses(ClientModel):
    """``OpenAIResponses(openai.OpenAI(), "gpt-…", store=False)``; ``stream=True`` streams."""

    dialect: ClassVar[str] = "openai.responses"
    method: ClassVar[str] = "responses.create"

    def asked(self, request: ModelRequest) -> dict[str, Any]:
        asked: dict[str, Any] = {
            "input": [item for one in request.messages for item in self._items(one)]
        }
        if request.instructions:
            asked["instructions"] = request.instructions
        if request.tools:
            asked["tools"] = [
                {
                    "type": "function",
                    "name": one.name,
                    "description": one.description,
                    "parameters": one.parameters,
                    "strict": False,
                }
                for one in request.tools
            ]
        return asked

    def _items(self, message: Message) -> Iterator[dict[str, Any]]:
        if message.role == "tool":
            yield {
                "type": "function_call_output",
                "call_id": message.call_id,
                "output": message.text,
            }
        elif message.native is not None and message.native.dialect == self.dialect:
            yield from message.native.items
        else:
            if message.text:
                yield {"role": message.role, "content": message.text}
            yield from map(_sent_call, message.tool_calls)

    def read(self, answer: dict[str, Any]) -> ModelReply:
        items = [item for item in answer.get("output") or () if isinstance(item, dict)]
        incomplete = answer.get("incomplete_details") or {}
        return ModelReply(
            text="".join(_texts(items)),
            tool_calls=tuple(_call(one) for one in items if one.get("type") == "function_call"),
            reasoning=tuple(_thought(one) for one in items if one.get("type") == "reasoning"),
            stop_reason=incomplete.get("reason") or answer.get("status"),
            usage=openai_usage(answer.get("usage"), "input", "output"),
            native=Native(self.dialect, items),
        )

    def gathering(self) -> Gathering:
        return _Gathering(self)


def _sent_call(one: ToolRequest) -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": one.id,
        "name": one.name,
        "arguments": written_of(one),
    }


def _texts(items: list[dict[str, Any]]) -> Iterator[str]:
    for item in items:
        if item.get("type") == "message":
            for part in item.get("content") or ():
                yield part.get("text") or part.get("refusal") or ""


def _call(item: dict[str, Any]) -> ToolRequest:
    written = item.get("arguments") or ""
    return ToolRequest(
        id=item.get("call_id") or "",
        item_id=item.get("id"),
        name=item.get("name") or "",
        arguments=arguments_of(written),
        written=written,
    )


def _thought(item: dict[str, Any]) -> Reasoning:
    parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
    return Reasoning(
        text="\n".join(part.get("text") or "" for part in parts),
        id=item.get("id"),
        signature=item.get("encrypted_content"),
    )


class _Gathering(Gathering):
    """Collector of a stream.

    The last event contains the complete reply. Earlier items are kept for servers whose last event
    is empty.
    """

    def __init__(self, model: OpenAIResponses) -> None:
        self._model = model
        self._items: dict[int, dict[str, Any]] = {}
        self._last: dict[str, Any] = {}

    def add(self, piece: dict[str, Any]) -> Delta | None:
        kind = piece.get("type")
        if kind in _LAST:
            self._last = piece.get("response") or {}
        elif kind == "response.output_item.done":
            self._items[piece.get("output_index") or 0] = piece.get("item") or {}
        elif kind == _TEXT:
            return Delta(text=piece.get("delta") or "")
        elif kind in _THOUGHT:
            return Delta(thinking=piece.get("delta") or "")
        return None

    def reply(self) -> ModelReply:
        answer = self._last
        if not answer.get("output"):
            answer = {**answer, "output": [self._items[one] for one in sorted(self._items)]}
        return self._model.read(answer)
