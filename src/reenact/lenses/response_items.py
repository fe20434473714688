"""The items of OpenAI Responses: what they say, in answers and in conversations."""

from __future__ import annotations

from typing import Any, NamedTuple

from reenact.lenses.fields import joined, mapped, mappings, parsed, size_of, text
from reenact.lenses.meaning import Message, Reasoning, ToolOutcome, ToolUse

__all__ = ["Told", "message_of", "tell"]

_OWN_CALLS = ("computer_call", "local_shell_call", "shell_call", "apply_patch_call")
_ARGUMENTS = ("arguments", "input", "action", "operation", "code", "queries", "query")
_TEXTS = ("text", "output_text", "input_text", "summary_text", "reasoning_text", "refusal", "")


class Told(NamedTuple):
    """What an answer says, part by part."""

    text: str
    refusal: str | None
    tool_calls: tuple[ToolUse, ...]
    reasoning: tuple[Reasoning, ...]
    attached: tuple[str, ...]


def tell(output: Any) -> Told:
    """What the items of an answer say."""
    said: list[str] = []
    refusals: list[str] = []
    attached: list[str] = []
    for item in _of(output, "message"):
        for part in mappings(item.get("content")):
            said.append(text(part.get("text")))
            refusals.append(text(part.get("refusal")))
            attached += [_described(part)] if _described(part) else []
    attached += [_picture(item) for item in _of(output, "image_generation_call")]
    return Told(
        text="".join(said),
        refusal="".join(refusals) or None,
        tool_calls=tuple(call for item in mappings(output) if (call := _tool_call(item))),
        reasoning=tuple(_reasoning(item) for item in _of(output, "reasoning")),
        attached=tuple(attached),
    )


def _of(output: Any, kind: str) -> list[dict[str, Any]]:
    return [item for item in mappings(output) if item.get("type") == kind]


def message_of(item: dict[str, Any]) -> Message:
    """An item of a conversation as a message."""
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
        role=text(item.get("role")) or kind, text=_text_of(content), attached=tuple(parts)
    )


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return joined(item.get("text") or item.get("refusal") for item in mappings(content))


def _outcome(item: dict[str, Any]) -> ToolOutcome:
    output = item.get("output")
    failed = item.get("status") == "failed" or item.get("approve") is False
    return ToolOutcome(id=_call_id(item), text=_text_of(output), failed=failed)


def _tool_call(item: dict[str, Any]) -> ToolUse | None:
    """A call that the program is to make, or one that the provider made itself (``hosted``)."""
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
    """The text where it is shown, or else the summary."""
    shown = [_text_of(item.get(name)) for name in ("content", "summary")]
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
    if url.startswith("data:"):
        return f"{kind} {url[5:].partition(',')[0][:80]} ({size_of(url.partition(',')[2])})"
    return f"{kind} {url[:200]}" if url else f"{kind} ({size_of(audio.get('data'))})"


def _picture(item: dict[str, Any]) -> str:
    return f"image {text(item.get('id'))} ({size_of(item.get('result'))})"
