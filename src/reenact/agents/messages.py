"""Messages between a run and a model, independent of the provider.

Ids, signatures and the provider's own items are opaque. They are stored and sent back unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from reenact.errors import UsageError
from reenact.format.decoders import build_decoders

__all__ = [
    "Delta",
    "Message",
    "ModelReply",
    "ModelRequest",
    "Native",
    "Reasoning",
    "ToolRequest",
    "ToolSpec",
    "Usage",
    "as_messages",
]

Role = Literal["user", "assistant", "tool"]


class Usage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Tokens, as the provider counts them."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
        )

    def to_json(self) -> dict[str, int]:
        """Return the form that is used in events."""
        return {**msgspec.to_builtins(self), "total": self.total}


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request of a model to call a tool. The result refers to ``id``.

    ``item_id`` is the second id of providers that have one (Responses: ``fc_…`` in addition to
    ``call_…``). ``arguments`` is None if the model did not write a JSON object. ``written`` is the
    exact text of the model.
    """

    id: str
    name: str
    arguments: dict[str, Any] | None = msgspec.field(default_factory=dict)
    written: str | None = None
    item_id: str | None = None


class Reasoning(msgspec.Struct, frozen=True, kw_only=True):
    """Thoughts of a model: their visible text, and the signature that proves them."""

    text: str = ""
    id: str | None = None
    signature: str | None = None


class Native(msgspec.Struct, frozen=True):
    """Reply in the provider's own form.

    ``items`` are sent back unchanged to models of the same ``dialect``.
    """

    dialect: str
    items: list[dict[str, Any]]


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message. ``call_id``, ``name`` and ``is_error`` are set in the result of a tool."""

    role: Role
    text: str = ""
    tool_calls: tuple[ToolRequest, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    call_id: str = ""
    name: str = ""
    is_error: bool = False
    native: Native | None = None


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Description of a tool for a model. ``parameters`` is a JSON Schema."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to a model: the complete conversation, and the tools that it can call."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    instructions: str = ""
    params: dict[str, Any] = msgspec.field(default_factory=dict)


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """Reply of a model. ``raw`` is the client's own object."""

    text: str = ""
    tool_calls: tuple[ToolRequest, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    stop_reason: str | None = None
    usage: Usage | None = None
    native: Native | None = None
    raw: Any = None

    def message(self) -> Message:
        """Return the reply as the next message of the conversation."""
        return Message(
            role="assistant",
            text=self.text,
            tool_calls=tuple(self.tool_calls),
            reasoning=tuple(self.reasoning),
            native=self.native,
        )


class Delta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Piece of a reply in progress. The last piece has the complete ``reply``."""

    text: str = ""
    thinking: str = ""
    reply: ModelReply | None = None


build_decoders(Message, ModelReply)


def as_messages(given: Sequence[Message | Mapping[str, Any]]) -> list[Message]:
    """Convert dicts of :func:`msgspec.to_builtins` to messages.

    Raises :class:`UsageError` for the first item that is neither a message nor such a dict.
    """
    return [_as_message(number, one) for number, one in enumerate(given)]


def _as_message(number: int, one: Message | Mapping[str, Any]) -> Message:
    if isinstance(one, Message):
        return one
    try:
        return msgspec.convert(_renamed(one), Message)
    except (msgspec.ValidationError, TypeError) as error:
        raise UsageError(
            f"messages[{number}] is not a message: {error}",
            hint='Message(role="user", text=…), or {"role": "user", "text": …}',
        ) from None


def _renamed(one: Mapping[str, Any]) -> dict[str, Any]:
    """Accept ``content`` as a common alias of ``text``."""
    found = dict(one)
    if isinstance(found.get("content"), str) and "text" not in found:
        found["text"] = found.pop("content")
    return found
