"""OpenAI Responses: requests and responses that consist of items."""

from __future__ import annotations

from typing import Any

from reenact.lenses.content import Content, error_in, failure
from reenact.lenses.fields import (
    counted,
    described_url,
    inside,
    joined,
    listed,
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
    "ENDINGS",
    "NAME",
    "Gathering",
    "answered",
    "asked",
    "choice_of",
    "message_of",
    "messages",
]

ENDINGS = ("response.completed", "response.incomplete", "response.failed", "error")

_PIECES = {
    "response.output_text.delta": ("message", "content", "text"),
    "response.refusal.delta": ("message", "content", "refusal"),
    "response.reasoning_text.delta": ("reasoning", "content", "text"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary", "text"),
    "response.function_call_arguments.delta": ("function_call", "", "arguments"),
    "response.custom_tool_call_input.delta": ("custom_tool_call", "", "input"),
    "response.mcp_call_arguments.delta": ("mcp_call", "", "arguments"),
}
"""For each event that has a piece: the type of its item, the list in there that has the parts, and
the field of the part."""


class Gathering:
    """Response that is assembled from the events of a stream.

    The last event contains the complete response. A truncated stream is assembled from its
    completed items, and from the pieces of incomplete ones.
    """

    def __init__(self) -> None:
        self.head: dict[str, Any] = {}
        """The response as the last event with one has it."""
        self._items: dict[int, _Item] = {}

    def add(self, event: dict[str, Any]) -> None:
        response = event.get("response")
        if isinstance(response, dict):
            self.head = response
            return
        kind = event.get("type")
        if kind in ("response.output_item.added", "response.output_item.done"):
            self._at(event).set(mapped(event.get("item")), kind.endswith("done"))
        elif isinstance(kind, str) and kind in _PIECES:
            self._at(event).add(_PIECES[kind], event)

    def _at(self, event: dict[str, Any]) -> _Item:
        index = event.get("output_index")
        return self._items.setdefault(index if type(index) is int else -1, _Item())

    def items(self) -> list[Any]:
        """Return the output of the response, or the items that were received before it."""
        output = listed(self.head.get("output"))
        return output or [item.whole() for _, item in sorted(self._items.items())]


class _Item:
    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self._ended = False
        self._kind = ""
        self._pieces: dict[tuple[str, int, str], list[str]] = {}

    def set(self, item: dict[str, Any], ended: bool) -> None:
        self._known, self._ended = item, ended

    def add(self, place: tuple[str, str, str], event: dict[str, Any]) -> None:
        self._kind, parts, field = place
        index = event.get("summary_index" if parts == "summary" else "content_index")
        at = index if type(index) is int else 0
        self._pieces.setdefault((parts, at, field), []).append(text(event.get("delta")))

    def whole(self) -> dict[str, Any]:
        if self._ended:
            return self._known
        found: dict[str, Any] = {"type": self._kind, **self._known}
        lists: dict[str, list[Any]] = {}
        for (parts, _, field), pieces in sorted(self._pieces.items()):
            told = "".join(pieces)
            if parts:
                lists.setdefault(parts, []).append({field: told})
            else:
                found[field] = told
        return {**found, **lists}


_OWN_CALLS = ("computer_call", "local_shell_call", "shell_call", "apply_patch_call")
_ARGUMENTS = ("arguments", "input", "action", "operation", "code", "queries", "query")
_TEXTS = ("text", "output_text", "input_text", "summary_text", "reasoning_text", "refusal", "")


def choice_of(output: Any) -> Choice:
    """Read the items of a reply."""
    said: list[str] = []
    refusals: list[str] = []
    attached: list[str] = []
    for item in _of(output, "message"):
        for part in mappings(item.get("content")):
            said.append(text(part.get("text")))
            refusals.append(text(part.get("refusal")))
            attached += [_described(part)] if _described(part) else []
    attached += [_picture(item) for item in _of(output, "image_generation_call")]
    return Choice(
        text="".join(said),
        refusal="".join(refusals) or None,
        tool_calls=tuple(call for item in mappings(output) if (call := _tool_call(item))),
        reasoning=tuple(_reasoning(item) for item in _of(output, "reasoning")),
        attached=tuple(attached),
    )


def _of(output: Any, kind: str) -> list[dict[str, Any]]:
    return [item for item in mappings(output) if item.get("type") == kind]


def message_of(item: dict[str, Any]) -> Message:
    """Read an item of a conversation as a message."""
    kind = text(item.get("type"))
    if kind == "reasoning":
        return Message(role="assistant", reasoning=(_reasoning(item),))
    if kind.endswith(("_call_output", "_approval_response")):
        return Message(role="tool", results=(_outcome(item),))
    call = _tool_call(item)
    if call is not None:
        return Message(role="assistant", tool_calls=(call,))
    content = item.get("content")
    parts = [described for part in mappings(content) if (described := _described(part))]
    return Message(
        role=text(item.get("role")) or kind, text=text_of(content), attached=tuple(parts)
    )


def _outcome(item: dict[str, Any]) -> ToolOutcome:
    output = item.get("output")
    failed = item.get("status") == "failed" or item.get("approve") is False
    return ToolOutcome(id=_call_id(item), text=text_of(output), failed=failed)


def _tool_call(item: dict[str, Any]) -> ToolUse | None:
    """Read a call for the program, or a call that the provider made itself (``hosted``)."""
    kind = text(item.get("type"))
    if kind in ("function_call", "custom_tool_call"):
        name = text(item.get("name"))
        arguments = item.get("input") if kind == "custom_tool_call" else item.get("arguments")
        sent = arguments if kind == "custom_tool_call" else parsed(arguments)
        return ToolUse(id=_call_id(item), item=text(item.get("id")), name=name, arguments=sent)
    if not kind.endswith("_call") or kind == "image_generation_call":
        return None
    given = next((item[name] for name in _ARGUMENTS if item.get(name)), None)
    return ToolUse(
        id=_call_id(item),
        item=text(item.get("id")),
        name=text(item.get("name")) or kind.removesuffix("_call"),
        arguments=parsed(given),
        hosted=kind not in _OWN_CALLS,
    )


def _call_id(item: dict[str, Any]) -> str:
    return text(item.get("call_id")) or text(item.get("id"))


def _reasoning(item: dict[str, Any]) -> Reasoning:
    """Read a reasoning item: its text if it is shown, otherwise the summary."""
    shown = [text_of(item.get(name)) for name in ("content", "summary")]
    return Reasoning(
        id=text(item.get("id")),
        text=shown[0] or shown[1],
        opaque=text(item.get("encrypted_content")) or None,
    )


def _described(part: dict[str, Any]) -> str:
    kind = text(part.get("type"))
    if kind in _TEXTS:
        return ""
    audio = mapped(part.get("input_audio"))
    url = joined(part.get(name) for name in ("image_url", "file_url", "file_id", "filename"))
    return described_url(kind, url, audio.get("data"))


def _picture(item: dict[str, Any]) -> str:
    return f"image {text(item.get('id'))} ({size_of(item.get('result'))})"


NAME = "openai.responses"

_LEFT_OUT = frozenset(
    """
    model stream stream_options tools metadata user safety_identifier store background
    prompt_cache_key prompt_cache_retention
    """.split()
)
_QUESTIONS = ("input", "prompt", "previous_response_id", "conversation")


def asked(place: Place, body: dict[str, Any]) -> Asked | None:
    """Read a request. It needs some input, and a model or a stored prompt."""
    if not any(body.get(name) for name in _QUESTIONS):
        return None
    model = text(body.get("model")) or place.part("/deployments/", "/responses")
    if not model and not body.get("prompt"):
        return None
    return Asked(
        lens=NAME,
        provider=place.provider("openai-compatible"),
        model=model,
        streams=body.get("stream") is True,
        input=without(body, _LEFT_OUT),
        tools=body.get("tools") or None,
    )


def messages(sent: dict[str, Any]) -> tuple[Message, ...]:
    """Return the messages of a request for display."""
    found = []
    if text(sent.get("instructions")):
        found.append(Message(role="system", text=sent["instructions"]))
    items = sent.get("input")
    if isinstance(items, str):
        return (*found, Message(role="user", text=items))
    if isinstance(items, list):
        found += [message_of(item) for item in items if isinstance(item, dict)]
    return tuple(found)


def answered(content: Content) -> Answered:
    """Read a reply."""
    if not content.streamed:
        whole = content.only
        return _made(whole, choice_of(whole.get("output")), error_in(whole), complete=content.whole)
    gathering = Gathering()
    error = None
    ended = False
    for name, value, failed in content.parts:
        event = mapped(value)
        gathering.add(event)
        ended = ended or event.get("type") in ENDINGS
        error = error or (failure(name, value) if failed else _told_by(event))
    whole = gathering.head
    return _made(whole, choice_of(gathering.items()), error or error_in(whole), complete=ended)


def _told_by(event: dict[str, Any]) -> str | None:
    if event.get("type") != "error":
        return None
    return error_in(event) or failure(text(event.get("code")), event)


def _made(head: dict[str, Any], choice: Choice, error: str | None, *, complete: bool) -> Answered:
    return Answered.of(
        [choice],
        stop_reason=_stop_reason(head),
        model=text(head.get("model")),
        id=text(head.get("id")),
        usage=_usage(head.get("usage")),
        error=error,
        complete=complete,
    )


def _stop_reason(response: dict[str, Any]) -> str | None:
    """Return the status, or the more specific reason of an incomplete response."""
    reason = inside(response, "incomplete_details", "reason")
    return text(reason) or text(response.get("status")) or None


def _usage(told: Any) -> Usage | None:
    return counted(
        told,
        ("input", ("input_tokens",)),
        ("output", ("output_tokens",)),
        ("cacheRead", ("input_tokens_details", "cached_tokens")),
        ("reasoning", ("output_tokens_details", "reasoning_tokens")),
        ("total", ("total_tokens",)),
    )
