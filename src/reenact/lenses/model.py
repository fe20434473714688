"""What was asked of a model and what it answered, whatever the API.

All of it is derived: a recording keeps the bytes, and these values are read from them whenever they
are wanted.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Answered", "Asked", "Choice", "Message", "Reasoning", "ToolOutcome", "ToolUse", "Usage"]

Usage = dict[str, int]
"""Tokens by name, those that the provider tells: ``input``, ``output``, ``cacheRead``,
``cacheWrite``, ``reasoning``, ``total``. Whether ``input`` has the cached ones in it is up to the
provider: with OpenAI and Google it does, with Anthropic and Bedrock it does not."""


class Reasoning(msgspec.Struct, frozen=True, kw_only=True):
    """What a model thought, as far as it shows it.

    ``opaque`` is what only the provider can read (a signature, encrypted content), byte for byte:
    sent back changed, it is refused.
    """

    id: str = ""
    text: str = ""
    opaque: str | None = None


class ToolUse(msgspec.Struct, frozen=True, kw_only=True):
    """A model wants a tool called.

    ``id`` is what the result refers to, ``item`` the id that the call has of its own where that is
    another one (OpenAI Responses). ``arguments`` are a JSON value, or text where it is not JSON.
    ``hosted``: the provider has called it itself.
    """

    id: str = ""
    name: str = ""
    arguments: Any = None
    item: str = ""
    opaque: str | None = None
    hosted: bool = False


class ToolOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gave back, as the model is told it. ``id`` is that of the :class:`ToolUse`."""

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
    copies. The messages in ``input`` are read by :func:`reenact.lenses.registry.messages`.
    """

    lens: str
    provider: str
    model: str
    streams: bool
    input: Any
    tools: Any = None


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One of several answers to the same question."""

    stop_reason: str | None = None
    text: str = ""
    refusal: str | None = None
    tool_calls: tuple[ToolUse, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    attached: tuple[str, ...] = ()


class Answered(Choice, frozen=True, kw_only=True):
    """What a model answered: the first choice, and the ``others`` where several were asked for.

    ``model`` and ``id`` are empty where the answer does not name them. ``error`` is what the
    provider said went wrong. ``complete`` is False when the answer breaks off before its end.
    """

    model: str = ""
    id: str = ""
    usage: Usage | None = None
    error: str | None = None
    complete: bool = True
    others: tuple[Choice, ...] = ()
