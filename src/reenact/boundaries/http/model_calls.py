"""Requests to models: what a lens sees in them is recorded with what was sent."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from reenact.boundaries.http.encoding import Headers, coding_of, look
from reenact.boundaries.http.stored_body import hide
from reenact.engine._lazy import lazy_module
from reenact.engine.call import Call
from reenact.engine.session.context import current_attempt
from reenact.engine.session.session import Session
from reenact.format.event import Data
from reenact.lenses.registry import may_ask

if TYPE_CHECKING:
    from reenact.lenses import conversation
    from reenact.lenses.model import Answered
else:
    conversation = lazy_module(
        "reenact.lenses.conversation"
    )  # few programs ask models, and all would pay

__all__ = ["with_meaning"]

_RETRIED = "x-stainless-retry-count"
"""Header of the OpenAI and Anthropic SDKs with the number of the attempt."""


def with_meaning(session: Session, call: Call, headers: Headers) -> Call:
    """Return ``call`` as a model call, or unchanged if no lens recognises it.

    A net tape records only network calls, so it never contains model calls.
    """
    if session.settings.only is not None or not may_ask(call.method, call.url):
        return call
    if call.request.get("type") != "json":
        return call
    asked = conversation.read_request(call.method, call.url, call.request["body"])
    if asked is None:
        return call
    extra: Data = {"lens": asked.lens, "provider": asked.provider, "model": asked.model}
    if session.writes or session.fork is not None:
        extra |= {**call.extra, "inputHash": session.recorder.value_hash(asked.input)}
        if asked.tools is not None:
            extra["toolSchemaHash"] = session.recorder.value_hash(asked.tools)
        extra["attempt"] = current_attempt() + _retries(headers)
    return msgspec.structs.replace(
        call,
        type="llm_request",
        capability="llm.call",
        operation=f"{asked.provider}/{asked.model}",
        request={"request": call.request},
        source="",
        extra=extra,
        says=partial(_says, session, asked.lens),
        plain=call,
    )


def _retries(headers: Headers) -> int:
    for key, value in headers:
        if len(key) == len(_RETRIED) and key.lower() == _RETRIED:
            return int(value) if value.isdecimal() and len(value) < 4 else 0
    return 0


def _says(session: Session, lens: str, response: Any) -> Data:
    """Return the stop reason and the usage of a model reply, or an empty dict if it cannot be read.

    If a secret is spread over several pieces of the stream, the result also contains the response
    without its body.
    """
    body = _text(response) if isinstance(response, dict) else None
    if body is None:
        return {}
    kinds = [value for key, value in response["headers"] if key.lower() == "content-type"]
    read = partial(conversation.read_response, lens, response["status"], kinds[0] if kinds else "")
    answered = read(body)
    if answered is None:
        return {}
    said: Data = {"stopReason": answered.stop_reason, "usage": answered.usage}
    if session.redacts(_told(answered)):
        left = read(session.redacted_text(body.decode("utf-8", "replace")).encode())
        if left is None or session.redacts(_told(left)):
            said["response"] = hide(session, response, "a secret in it comes word by word")
    return said


def _told(answered: Answered) -> bytes:
    """Return all texts of the reply, each in one piece."""
    reasons = (reason.text for reason in answered.reasoning)
    used = (f"{call.name} {call.arguments}" for call in answered.tool_calls)
    return "\n".join((answered.text, *reasons, *used)).encode("utf-8", "replace")


def _text(response: Data) -> bytes | None:
    """Return the decoded body, or None if it is hidden or cannot be decoded."""
    body = response.get("body")
    if body is None:
        return None
    raw: bytes = body.encode() if isinstance(body, str) else body
    coding = None if "decoded" in response else coding_of(response["headers"])
    seen = look(raw, coding) if coding else None
    if seen is None:
        return raw
    return seen.text if seen.end != "hidden" else None
