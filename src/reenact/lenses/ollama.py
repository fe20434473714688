"""Ollama's own ``/api/chat``, a stream of JSON lines."""

from __future__ import annotations

from typing import Any

from reenact.lenses.content import Content, error_in, failure
from reenact.lenses.fields import (
    counted,
    joined,
    listed,
    mapped,
    mappings,
    parsed,
    size_of,
    text,
    without,
)
from reenact.lenses.model import Answered, Asked, Message, Reasoning, ToolOutcome, ToolUse, Usage
from reenact.lenses.registry import Place

__all__ = ["NAME", "answered", "asked", "messages"]

NAME = "ollama.chat"

_LEFT_OUT = frozenset(("model", "stream", "tools", "keep_alive"))


def asked(place: Place, body: dict[str, Any]) -> Asked | None:
    """Read a request. It has a model and messages, and streams unless ``stream`` is false."""
    model = text(body.get("model"))
    if not model or not isinstance(body.get("messages"), list):
        return None
    return Asked(
        lens=NAME,
        provider=place.provider("ollama"),
        model=model,
        streams=body.get("stream") is not False,
        input=without(body, _LEFT_OUT),
        tools=body.get("tools") or None,
    )


def messages(sent: dict[str, Any]) -> tuple[Message, ...]:
    """Return the messages of a request for display."""
    return tuple(_message(item) for item in mappings(sent.get("messages")))


def _message(item: dict[str, Any]) -> Message:
    role = text(item.get("role"))
    said = text(item.get("content"))
    if role == "tool":
        name = text(item.get("tool_name")) or text(item.get("name"))
        outcome = ToolOutcome(id=text(item.get("tool_call_id")), name=name, text=said)
        return Message(role=role, results=(outcome,))
    thought = text(item.get("thinking"))
    return Message(
        role=role,
        text=said,
        tool_calls=_tool_calls([item]),
        reasoning=(Reasoning(text=thought),) if thought else (),
        attached=tuple(f"image ({size_of(image)})" for image in listed(item.get("images"))),
    )


def answered(content: Content) -> Answered:
    """Read a reply: a sequence of objects, streamed or not, the last of which has ``done``."""
    error = None
    last: dict[str, Any] = {}
    said: list[dict[str, Any]] = []
    for name, value, failed in content.parts:
        last = mapped(value)
        said.append(mapped(last.get("message")))
        error = error or (failure(name, value) if failed else error_in(last))
    thought = joined(message.get("thinking") for message in said)
    return Answered(
        stop_reason=text(last.get("done_reason")) or None,
        text=joined(message.get("content") for message in said),
        tool_calls=_tool_calls(said),
        reasoning=(Reasoning(text=thought),) if thought else (),
        model=text(last.get("model")),
        usage=_usage(last),
        error=error,
        complete=last.get("done") is True or error is not None,
    )


def _tool_calls(said: list[dict[str, Any]]) -> tuple[ToolUse, ...]:
    calls = [call for message in said for call in mappings(message.get("tool_calls"))]
    return tuple(_tool_use(call, mapped(call.get("function"))) for call in calls)


def _tool_use(call: dict[str, Any], function: dict[str, Any]) -> ToolUse:
    return ToolUse(
        id=text(call.get("id")),
        name=text(function.get("name")),
        arguments=parsed(function.get("arguments")),
    )


def _usage(told: Any) -> Usage | None:
    return counted(told, ("input", ("prompt_eval_count",)), ("output", ("eval_count",)))
