"""OpenAI's Chat Completions, and all servers that are compatible with them."""

from __future__ import annotations

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
    Reasoning,
    ToolRequest,
)

__all__ = ["OpenAIChat"]


class OpenAIChat(ClientModel):
    """``OpenAIChat(openai.OpenAI(), "gpt-…")``; ``stream=True`` streams."""

    dialect: ClassVar[str] = "openai.chat"
    method: ClassVar[str] = "chat.completions.create"

    def asked(self, request: ModelRequest) -> dict[str, Any]:
        messages = [_sent(one) for one in request.messages]
        if request.instructions:
            messages.insert(0, {"role": "system", "content": request.instructions})
        asked: dict[str, Any] = {"messages": messages}
        if request.tools:
            asked["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": one.name,
                        "description": one.description,
                        "parameters": one.parameters,
                    },
                }
                for one in request.tools
            ]
        return asked

    def streaming(self) -> dict[str, Any]:
        return {"stream": True, "stream_options": {"include_usage": True}}

    def read(self, answer: dict[str, Any]) -> ModelReply:
        choice = (answer.get("choices") or [{}])[0]
        said = choice.get("message") or {}
        return ModelReply(
            text=said.get("content") or "",
            tool_calls=tuple(_tool(one) for one in said.get("tool_calls") or ()),
            reasoning=_thoughts(said.get("reasoning_content")),
            stop_reason=choice.get("finish_reason"),
            usage=openai_usage(answer.get("usage"), "prompt", "completion"),
        )

    def gathering(self) -> Gathering:
        return _Gathering(self)


def _sent(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
    if message.role == "user":
        return {"role": "user", "content": message.text}
    sent: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if message.tool_calls:
        sent["tool_calls"] = [_sent_tool(one) for one in message.tool_calls]
    return sent


def _sent_tool(one: ToolRequest) -> dict[str, Any]:
    return {
        "id": one.id,
        "type": "function",
        "function": {"name": one.name, "arguments": written_of(one)},
    }


def _tool(one: dict[str, Any]) -> ToolRequest:
    function = one.get("function") or {}
    written = function.get("arguments") or ""
    return ToolRequest(
        id=one.get("id") or "",
        name=function.get("name") or "",
        arguments=arguments_of(written),
        written=written,
    )


def _thoughts(text: Any) -> tuple[Reasoning, ...]:
    return (Reasoning(text=text),) if isinstance(text, str) and text else ()


class _Gathering(Gathering):
    """Collector of a stream.

    Pieces of tool calls are identified by index. The id and the name are sent once, the arguments
    in pieces.
    """

    def __init__(self, model: OpenAIChat) -> None:
        self._model = model
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._tools: dict[int, dict[str, Any]] = {}
        self._finish: str | None = None
        self._usage: Any = None

    def add(self, piece: dict[str, Any]) -> Delta | None:
        self._usage = piece.get("usage") or self._usage
        for choice in piece.get("choices") or ():
            self._finish = choice.get("finish_reason") or self._finish
            said = choice.get("delta") or {}
            for one in said.get("tool_calls") or ():
                self._add_tool(one)
            text, thought = said.get("content") or "", said.get("reasoning_content") or ""
            self._text.append(text)
            self._thoughts.append(thought)
            return Delta(text=text, thinking=thought) if text or thought else None
        return None

    def _add_tool(self, one: dict[str, Any]) -> None:
        known = self._tools.setdefault(
            one.get("index") or 0, {"id": "", "function": {"name": "", "arguments": ""}}
        )
        known["id"] = one.get("id") or known["id"]
        function = one.get("function") or {}
        for name in ("name", "arguments"):
            known["function"][name] += function.get(name) or ""

    def reply(self) -> ModelReply:
        said = {
            "content": "".join(self._text),
            "reasoning_content": "".join(self._thoughts),
            "tool_calls": [self._tools[index] for index in sorted(self._tools)],
        }
        choice = {"message": said, "finish_reason": self._finish}
        return self._model.read({"choices": [choice], "usage": self._usage})
