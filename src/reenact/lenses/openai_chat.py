"""OpenAI Chat Completions, and the many servers with the same API."""

from __future__ import annotations

from typing import Any

from reenact.lenses.content import Content, error_in, failure
from reenact.lenses.fields import (
    counted,
    described_url,
    inside,
    joined,
    mapped,
    mappings,
    parsed,
    size_of,
    text,
    text_of,
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
    "Gathering",
    "answered",
    "asked",
    "messages",
]

_TEXTS = frozenset(("content", "refusal", "reasoning_content", "reasoning"))
_HEAD = ("id", "model")


class Gathering:
    """Messages that are assembled from chunks.

    Text is kept in pieces until it is requested, because appending each piece would take quadratic
    time.
    """

    def __init__(self) -> None:
        self.head: dict[str, Any] = {}
        """``id`` and ``model`` from the first chunk that has them, ``usage`` from the last."""
        self._choices: dict[int, _Choice] = {}

    def add(self, chunk: dict[str, Any]) -> None:
        for name in _HEAD:
            if chunk.get(name) and name not in self.head:
                self.head[name] = chunk[name]
        if chunk.get("usage"):
            self.head["usage"] = chunk["usage"]
        for item in mappings(chunk.get("choices")):
            index = item.get("index")
            at = index if type(index) is int else 0
            self._choices.setdefault(at, _Choice()).add(item)

    def choices(self) -> list[tuple[dict[str, Any], Any]]:
        """Return the assembled messages with their finish reasons, in order."""
        return [(choice.message(), choice.reason) for _, choice in sorted(self._choices.items())]


class _Choice:
    def __init__(self) -> None:
        self.reason: Any = None
        self._texts: dict[str, list[str]] = {}
        self._parts: list[Any] = []
        self._calls: list[_Call] = []
        self._places: dict[int, _Call] = {}
        self._details: dict[Any, dict[str, Any]] = {}
        self._audio: dict[str, Any] = {}
        self._old: _Call | None = None

    def add(self, item: dict[str, Any]) -> None:
        self.reason = item.get("finish_reason") or self.reason
        for name, value in mapped(item.get("delta")).items():
            if not value:
                continue
            if name in _TEXTS and isinstance(value, str):
                self._texts.setdefault(name, []).append(value)
            else:
                self._add_other(name, value)

    def _add_other(self, name: str, value: Any) -> None:
        if name == "tool_calls":
            for fragment in mappings(value):
                self._call(fragment).add(fragment)
        elif name == "content":
            self._parts += mappings(value)
        elif name == "reasoning_details":
            for detail in mappings(value):
                self._detail(detail)
        elif name == "audio":
            self._audio |= mapped(value)
        elif name == "function_call" and isinstance(value, dict):
            self._old = self._old or _Call()
            self._old.add({"function": value})

    def _call(self, fragment: dict[str, Any]) -> _Call:
        """Return the call of a fragment: by its index or, without an index, a new call for each id."""
        index = fragment.get("index")
        if type(index) is int:
            known = self._places.get(index)
        else:
            known = self._calls[-1] if self._calls and not fragment.get("id") else None
        if known is None:
            known = _Call()
            self._calls.append(known)
            if type(index) is int:
                self._places[index] = known
        return known

    def _detail(self, detail: dict[str, Any]) -> None:
        index = detail.get("index")
        key = index if type(index) is int else -1 - len(self._details)
        known = self._details.setdefault(key, {"pieces": []})
        known["pieces"].append(text(detail.get("text")) or text(detail.get("summary")))
        known |= {name: item for name, item in detail.items() if text(item)}

    def message(self) -> dict[str, Any]:
        found: dict[str, Any] = {name: "".join(told) for name, told in self._texts.items()}
        if self._parts:
            found["content"] = [*self._parts, {"type": "text", "text": found.get("content", "")}]
        found["tool_calls"] = [call.whole() for call in self._calls]
        if self._old is not None:
            found["function_call"] = self._old.whole()["function"]
        found["reasoning_details"] = [
            {**known, "text": joined(known["pieces"])} for known in self._details.values()
        ]
        if self._audio:
            found["audio"] = self._audio
        return found


class _Call:
    """Tool call of a stream. Its id and name are sent once, its arguments in pieces."""

    def __init__(self) -> None:
        self._id = ""
        self._kind = "function"
        self._names: list[str] = []
        self._arguments: list[str] = []
        self._value: Any = ""

    def add(self, fragment: dict[str, Any]) -> None:
        self._id = self._id or text(fragment.get("id"))
        for kind, name in (("function", "arguments"), ("custom", "input")):
            inner = fragment.get(kind)
            if not isinstance(inner, dict):
                continue
            self._kind = kind
            if text(inner.get("name")):
                self._names.append(inner["name"])
            if text(inner.get(name)):
                self._arguments.append(inner[name])
            elif inner.get(name):
                self._value = inner[name]

    def whole(self) -> dict[str, Any]:
        arguments = "".join(self._arguments) or self._value
        inner = {"name": "".join(self._names)}
        field = "arguments" if self._kind == "function" else "input"
        return {"id": self._id, self._kind: {**inner, field: arguments}}


NAME = "openai.chat"

_LEFT_OUT = frozenset(
    """
    model stream stream_options tools functions metadata user safety_identifier store
    prompt_cache_key prompt_cache_retention
    """.split()
)


def asked(place: Place, body: dict[str, Any]) -> Asked | None:
    """Read a request. It has messages, and the model can be in the path (Azure)."""
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
    """Return the messages of a request for display."""
    return tuple(_message(item) for item in mappings(sent.get("messages")))


def _message(item: dict[str, Any]) -> Message:
    role = text(item.get("role"))
    if role in ("tool", "function"):
        result = ToolOutcome(
            id=text(item.get("tool_call_id")),
            name=text(item.get("name")),
            text=text_of(item.get("content")),
        )
        return Message(role=role, results=(result,))
    return _choice(item, None).as_message(role)


def answered(content: Content) -> Answered:
    """Read a reply."""
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
    return Answered.of(
        choices,
        model=text(head.get("model")),
        id=text(head.get("id")),
        usage=_usage(head.get("usage")),
        error=error,
        complete=complete,
    )


def _choice(message: dict[str, Any], reason: Any) -> Choice:
    return Choice(
        stop_reason=text(reason) or None,
        text=text_of(message.get("content")),
        refusal=text(message.get("refusal")) or None,
        tool_calls=_tool_calls(message),
        reasoning=_reasoning(message),
        attached=_attached(message),
    )


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
    """Read the reasoning fields of DeepSeek, OpenRouter, Mistral, vLLM and others.

    OpenAI has none.
    """
    details = [_detail(item) for item in mappings(message.get("reasoning_details"))]
    if details:
        return tuple(details)
    shown = text(message.get("reasoning_content")) or text(message.get("reasoning"))
    shown = shown or joined(
        text_of(item.get("thinking")) for item in mappings(message.get("content"))
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
    return described_url(kind, url, inside(inner, "data") or inside(inner, "file_data"))


def _usage(told: Any) -> Usage | None:
    return counted(
        told,
        ("input", ("prompt_tokens",)),
        ("output", ("completion_tokens",)),
        ("cacheRead", ("prompt_tokens_details", "cached_tokens")),
        ("reasoning", ("completion_tokens_details", "reasoning_tokens")),
        ("total", ("total_tokens",)),
    )
