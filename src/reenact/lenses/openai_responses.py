"""OpenAI Responses: items go in and items come out."""

from __future__ import annotations

from typing import Any

from reenact.lenses.content import Content
from reenact.lenses.failing import error_in, failure
from reenact.lenses.fields import counted, inside, mapped, text, without
from reenact.lenses.meaning import Answered, Asked, Message, Usage
from reenact.lenses.places import Place
from reenact.lenses.response_items import Told, message_of, tell
from reenact.lenses.response_stream import ENDINGS, Gathering

__all__ = ["NAME", "answered", "asked", "messages"]

NAME = "openai.responses"

_LEFT_OUT = frozenset(
    """
    model stream stream_options tools metadata user safety_identifier store background
    prompt_cache_key prompt_cache_retention
    """.split()
)
_QUESTIONS = ("input", "prompt", "previous_response_id", "conversation")


def asked(place: Place, body: dict[str, Any]) -> Asked | None:
    """A request has a model and something to go on from, or is at OpenAI's own address."""
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
    """The messages of a request, for people."""
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
    """What an answer says."""
    if not content.streamed:
        whole = content.only
        return _made(whole, tell(whole.get("output")), _error(whole), complete=content.whole)
    gathering = Gathering()
    error = None
    ended = False
    for name, value, failed in content.parts:
        event = mapped(value)
        gathering.add(event)
        ended = ended or event.get("type") in ENDINGS
        error = error or (failure(name, value) if failed else _told_by(event))
    whole = gathering.head
    return _made(whole, tell(gathering.items()), error or _error(whole), complete=ended)


def _told_by(event: dict[str, Any]) -> str | None:
    if event.get("type") != "error":
        return None
    return error_in(event) or failure(text(event.get("code")), event)


def _error(response: dict[str, Any]) -> str | None:
    """A failed response names its error by ``code`` and ``message``."""
    return error_in(response)


def _made(head: dict[str, Any], told: Told, error: str | None, *, complete: bool) -> Answered:
    return Answered(
        stop_reason=_stop_reason(head),
        text=told.text,
        refusal=told.refusal,
        tool_calls=told.tool_calls,
        reasoning=told.reasoning,
        attached=told.attached,
        model=text(head.get("model")),
        id=text(head.get("id")),
        usage=_usage(head.get("usage")),
        error=error,
        complete=complete,
    )


def _stop_reason(response: dict[str, Any]) -> str | None:
    """The status; of an incomplete response the reason, which says more."""
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
