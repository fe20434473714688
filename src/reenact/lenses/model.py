"""Requests to models and their replies, independent of the API.

All values are derived: a recording stores the bytes, and the values are read from them on demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

__all__ = ["Answered", "Asked", "Choice", "Message", "Reasoning", "ToolOutcome", "ToolUse", "Usage"]

Usage = dict[str, int]
"""Token counts that the provider reports: ``input``, ``output``, ``cacheRead``, ``cacheWrite``,
``reasoning``, ``total``. ``input`` includes cached tokens for OpenAI and Google, but not for
Anthropic and Bedrock."""


class Reasoning(msgspec.Struct, frozen=True, kw_only=True):
    """Visible thoughts of a model.

    ``opaque`` is content that only the provider can read (a signature, encrypted content), byte for
    byte. The provider refuses it if it is changed.
    """

    id: str = ""
    text: str = ""
    opaque: str | None = None


class ToolUse(msgspec.Struct, frozen=True, kw_only=True):
    """Request of a model to call a tool.

    The result refers to ``id``. ``item`` is the call's own id if it differs (OpenAI Responses).
    ``arguments`` are a JSON value, or text if it is not JSON. ``hosted`` means that the provider
    called the tool itself.
    """

    id: str = ""
    name: str = ""
    arguments: Any = None
    item: str = ""
    opaque: str | None = None
    hosted: bool = False


class ToolOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a tool, as sent to the model. ``id`` is the id of the :class:`ToolUse`."""

    id: str = ""
    name: str = ""
    text: str = ""
    failed: bool = False


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation. ``attached`` describes pictures, sounds and files."""

    role: str
    text: str = ""
    tool_calls: tuple[ToolUse, ...] = ()
    results: tuple[ToolOutcome, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    attached: tuple[str, ...] = ()


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a model.

    ``input`` is the conversation and every parameter that bears on the answer, as they were sent;
    ``tools`` are the tool schemas, None if there are none. Both are parts of the request, not
    copies. The messages in ``input`` are read by :func:`reenact.lenses.conversation.messages`.
    """

    lens: str
    provider: str
    model: str
    streams: bool
    input: Any
    tools: Any = None


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a message of the model, or one of several answers to the same question."""

    stop_reason: str | None = None
    text: str = ""
    refusal: str | None = None
    tool_calls: tuple[ToolUse, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    attached: tuple[str, ...] = ()

    def as_message(self, role: str, results: tuple[ToolOutcome, ...] = ()) -> Message:
        """Return the content as a message of a conversation."""
        return Message(
            role=role,
            text=self.text or self.refusal or "",
            tool_calls=self.tool_calls,
            results=results,
            reasoning=self.reasoning,
            attached=self.attached,
        )


class Answered(Choice, frozen=True, kw_only=True):
    """Reply of a model: the first choice, and the ``others`` if several were requested.

    ``model`` and ``id`` are empty if the reply does not contain them. ``error`` is the error of the
    provider. ``complete`` is False if the reply is truncated.
    """

    model: str = ""
    id: str = ""
    usage: Usage | None = None
    error: str | None = None
    complete: bool = True
    others: tuple[Choice, ...] = ()

    @classmethod
    def of(cls, choices: Sequence[Choice], **more: Any) -> Answered:
        """Return the reply with these choices. ``more`` are the other attributes."""
        first = choices[0] if choices else Choice()
        parts = {name: getattr(first, name) for name in Choice.__struct_fields__}
        return cls(**{**parts, **more}, others=tuple(choices[1:]))
