"""Google Gemini: ``generateContent``, at the Gemini API and at Vertex AI."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reenact.lenses.content import Content, error_in, failure
from reenact.lenses.fields import (
    counted,
    inside,
    joined,
    mapped,
    mappings,
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

NAME = "google.generate"

_STREAMING = ":streamGenerateContent"
_LEFT_OUT = frozenset(("model", "tools", "labels"))
_MEDIA = (("inlineData", "data"), ("fileData", "fileUri"))


def asked(place: Place, body: dict[str, Any]) -> Asked | None:
    """Read a request. It has contents, and the model is in the path."""
    if not body.get("contents"):
        return None
    before, _, _ = place.path.rpartition(":")
    return Asked(
        lens=NAME,
        provider=place.provider("google"),
        model=before.rpartition("/")[2],
        streams=place.path.endswith(_STREAMING),
        input=without(body, _LEFT_OUT),
        tools=body.get("tools") or None,
    )


def messages(sent: dict[str, Any]) -> tuple[Message, ...]:
    """Return the messages of a request for display."""
    system = sent.get("systemInstruction") or sent.get("system_instruction")
    found = [_message("system", system)] if system else []
    contents = sent.get("contents")
    if isinstance(contents, dict):
        contents = [contents]
    if isinstance(contents, str):
        return (*found, Message(role="user", text=contents))
    return (*found, *(_message(text(item.get("role")), item) for item in mappings(contents)))


def _message(role: str, content: Any) -> Message:
    parts = list(mappings(inside(content, "parts")))
    results = tuple(_outcome(part) for part in parts if _has(part, "functionResponse"))
    return _choice(parts, None).as_message(role or "user", results)


def answered(content: Content) -> Answered:
    """Read a reply.

    A stream is a sequence of responses with further parts, and the last contains the stop reason.
    """
    head: dict[str, Any] = {}
    candidates: dict[int, _Candidate] = {}
    error = None
    for name, value, failed in content.parts:
        response = mapped(value)
        error = error or (failure(name, value) if failed else error_in(response))
        head |= {field: item for field, item in response.items() if item}
        for item in mappings(response.get("candidates")):
            index = item.get("index")
            at = index if type(index) is int else 0
            candidates.setdefault(at, _Candidate()).add(item)
    choices = [_choice(one.parts, one.reason) for _, one in sorted(candidates.items())]
    ended = all(choice.stop_reason for choice in choices) if choices else bool(head)
    complete = error is not None or (content.whole and (ended or not content.streamed))
    return _made(head, choices, error, complete=complete)


class _Candidate:
    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = []
        self.reason: Any = None

    def add(self, item: dict[str, Any]) -> None:
        self.parts += mappings(inside(item, "content", "parts"))
        self.reason = item.get("finishReason") or self.reason


def _made(
    head: dict[str, Any], choices: list[Choice], error: str | None, *, complete: bool
) -> Answered:
    blocked = text(inside(head, "promptFeedback", "blockReason")) or None
    return Answered.of(
        choices or [Choice(stop_reason=blocked)],
        model=text(head.get("modelVersion")),
        id=text(head.get("responseId")),
        usage=_usage(head.get("usageMetadata")),
        error=error,
        complete=complete,
    )


def _choice(parts: Iterable[dict[str, Any]], reason: Any) -> Choice:
    said: list[str] = []
    calls: list[ToolUse] = []
    attached: list[str] = []
    for part in parts:
        if part.get("thought") is not True:
            said.append(text(part.get("text")))
        if _has(part, "functionCall"):
            calls.append(_tool_use(part))
        attached += _attached(part)
    return Choice(
        stop_reason=text(reason) or None,
        text="".join(said),
        tool_calls=tuple(calls),
        reasoning=_reasoning(parts),
        attached=tuple(attached),
    )


def _has(part: dict[str, Any], name: str) -> bool:
    return isinstance(part.get(name), dict)


def _tool_use(part: dict[str, Any]) -> ToolUse:
    call = part["functionCall"]
    return ToolUse(
        id=text(call.get("id")),
        name=text(call.get("name")),
        arguments=call.get("args"),
        opaque=text(part.get("thoughtSignature")) or None,
    )


def _reasoning(parts: Iterable[dict[str, Any]]) -> tuple[Reasoning, ...]:
    """Return the thoughts, each joined from consecutive parts, and the signatures of parts that are
    not function calls."""
    found: list[Reasoning] = []
    pieces: list[str] = []
    for part in parts:
        if part.get("thought") is True:
            pieces.append(text(part.get("text")))
        signature = text(part.get("thoughtSignature"))
        if signature and not _has(part, "functionCall"):
            found.append(Reasoning(text="".join(pieces), opaque=signature))
            pieces = []
        elif part.get("thought") is not True and any(pieces):
            found.append(Reasoning(text="".join(pieces)))
            pieces = []
    return (*found, Reasoning(text="".join(pieces))) if any(pieces) else tuple(found)


def _outcome(part: dict[str, Any]) -> ToolOutcome:
    told = part["functionResponse"]
    response = mapped(told.get("response"))
    said = joined(response.get(name) for name in ("output", "result", "error"))
    return ToolOutcome(
        id=text(told.get("id")),
        name=text(told.get("name")),
        text=said or shown(response),
        failed=bool(response.get("error")),
    )


def _attached(part: dict[str, Any]) -> list[str]:
    found = []
    for name, field in _MEDIA:
        media = part.get(name)
        if isinstance(media, dict):
            kind, data = text(media.get("mimeType")), media.get(field)
            found.append(
                f"{kind} {text(data)[:200]}" if name == "fileData" else f"{kind} ({size_of(data)})"
            )
    for name in ("executableCode", "codeExecutionResult"):
        if _has(part, name):
            found.append(f"{name} {joined(part[name].values(), ' ')[:200]}")
    return found


def _usage(told: Any) -> Usage | None:
    return counted(
        told,
        ("input", ("promptTokenCount",)),
        ("output", ("candidatesTokenCount",)),
        ("cacheRead", ("cachedContentTokenCount",)),
        ("reasoning", ("thoughtsTokenCount",)),
        ("total", ("totalTokenCount",)),
    )
