"""OpenAI Chat Completions, and the many servers that speak it."""

from __future__ import annotations

from typing import Any

from reenact.lenses.chat_stream import Gathering
from reenact.lenses.content import Content
from reenact.lenses.failing import error_in, failure
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
from reenact.lenses.meaning import (
    Answered,
    Asked,
    Choice,
    Message,
    Reasoning,
    ToolOutcome,
    ToolUse,
    Usage,
)
from reenact.lenses.places import Place

__all__ = ["NAME", "answered", "asked", "messages"]

NAME = "openai.chat"

_LEFT_OUT = frozenset(
    """
    model stream stream_options tools functions metadata user safety_identifier store
    prompt_cache_key prompt_cache_retention
    """.split()
)


def asked(place: Place, body: dict[str, Any]) -> Asked | None:
    """A request has messages; the model may be in the path (Azure)."""
    if not isinstance(body.get("messages"), list):
        return None
    model = text(body.get("model")) or place.part("/deployments/", "/chat/completions")
    return Asked(
        lens=NAME,
        provider=place.provider("openai-compatible"),
        model=model,
        streams=body.get("stream") is True,
        input=without(body, _LEFT_OUT),
        tools=body.get("tools") or body.get("functions") or None,
    )


def messages(sent: dict[str, Any]) -> tuple[Message, ...]:
    """The messages of a request, for people."""
    return tuple(_message(item) for item in mappings(sent.get("messages")))


def _message(item: dict[str, Any]) -> Message:
    role = text(item.get("role"))
    said = _text_of(item.get("content"))
    if role in ("tool", "function"):
        result = ToolOutcome(
            id=text(item.get("tool_call_id")), name=text(item.get("name")), text=said
        )
        return Message(role=role, results=(result,))
    return Message(
        role=role,
        text=said or text(item.get("refusal")),
        tool_calls=_tool_calls(item),
        reasoning=_reasoning(item),
        attached=_attached(item),
    )


def answered(content: Content) -> Answered:
    """What an answer says."""
    if content.streamed:
        return _streamed(content)
    whole = content.only
    choices = [
        _choice(mapped(item.get("message")), item.get("finish_reason"))
        for item in mappings(whole.get("choices"))
    ]
    return _made(whole, choices, error_in(whole), complete=content.whole)


def _streamed(content: Content) -> Answered:
    gathering = Gathering()
    error = None
    for name, value, failed in content.parts:
        error = error or (failure(name, value) if failed else error_in(value))
        gathering.add(mapped(value))
    choices = [_choice(message, reason) for message, reason in gathering.choices()]
    return _made(gathering.head, choices, error, complete=content.done or error is not None)


def _made(
    head: dict[str, Any], choices: list[Choice], error: str | None, *, complete: bool
) -> Answered:
    first = choices[0] if choices else Choice()
    return Answered(
        stop_reason=first.stop_reason,
        text=first.text,
        refusal=first.refusal,
        tool_calls=first.tool_calls,
        reasoning=first.reasoning,
        attached=first.attached,
        model=text(head.get("model")),
        id=text(head.get("id")),
        usage=_usage(head.get("usage")),
        error=error,
        complete=complete,
        others=tuple(choices[1:]),
    )


def _choice(message: dict[str, Any], reason: Any) -> Choice:
    return Choice(
        stop_reason=text(reason) or None,
        text=_text_of(message.get("content")),
        refusal=text(message.get("refusal")) or None,
        tool_calls=_tool_calls(message),
        reasoning=_reasoning(message),
        attached=_attached(message),
    )


def _text_of(content: Any) -> str:
    """A text, or the texts of a list of parts."""
    if isinstance(content, str):
        return content
    return joined(item.get("text") or item.get("refusal") for item in mappings(content))


def _tool_calls(message: dict[str, Any]) -> tuple[ToolUse, ...]:
    calls = [_tool_call(item) for item in mappings(message.get("tool_calls"))]
    old = message.get("function_call")
    if isinstance(old, dict):
        calls.append(ToolUse(name=text(old.get("name")), arguments=parsed(old.get("arguments"))))
    return tuple(calls)


def _tool_call(item: dict[str, Any]) -> ToolUse:
    custom = mapped(item.get("custom"))
    if custom:
        return ToolUse(
            id=text(item.get("id")), name=text(custom.get("name")), arguments=custom.get("input")
        )
    function = mapped(item.get("function"))
    return ToolUse(
        id=text(item.get("id")),
        name=text(function.get("name")),
        arguments=parsed(function.get("arguments")),
    )


def _reasoning(message: dict[str, Any]) -> tuple[Reasoning, ...]:
    """Not in OpenAI's own API, but in those of DeepSeek, OpenRouter, Mistral, vLLM …"""
    details = [_detail(item) for item in mappings(message.get("reasoning_details"))]
    if details:
        return tuple(details)
    shown = text(message.get("reasoning_content")) or text(message.get("reasoning"))
    shown = shown or joined(
        _text_of(item.get("thinking")) for item in mappings(message.get("content"))
    )
    return (Reasoning(text=shown),) if shown else ()


def _detail(item: dict[str, Any]) -> Reasoning:
    return Reasoning(
        id=text(item.get("id")),
        text=text(item.get("text")) or text(item.get("summary")),
        opaque=text(item.get("data")) or text(item.get("signature")) or None,
    )


def _attached(message: dict[str, Any]) -> tuple[str, ...]:
    found = [_described(item) for item in mappings(message.get("content"))]
    audio = message.get("audio")
    if isinstance(audio, dict):
        found.append(f"audio {text(audio.get('id'))} ({size_of(audio.get('data'))})")
    found += [_described(item) for item in mappings(message.get("images"))]
    return tuple(item for item in found if item)


def _described(part: dict[str, Any]) -> str:
    kind = text(part.get("type"))
    if kind in ("text", "refusal", "thinking", ""):
        return ""
    inner = part.get(kind)
    url = text(inner) or text(inside(inner, "url")) or text(inside(inner, "file_id"))
    if url.startswith("data:"):
        return f"{kind} {url[5:].partition(',')[0][:80]} ({size_of(url.partition(',')[2])})"
    return f"{kind} {url[:200]}" if url else f"{kind} ({size_of(_data(inner))})"


def _data(inner: Any) -> Any:
    return inside(inner, "data") or inside(inner, "file_data")


def _usage(told: Any) -> Usage | None:
    return counted(
        told,
        ("input", ("prompt_tokens",)),
        ("output", ("completion_tokens",)),
        ("cacheRead", ("prompt_tokens_details", "cached_tokens")),
        ("reasoning", ("completion_tokens_details", "reasoning_tokens")),
        ("total", ("total_tokens",)),
    )
