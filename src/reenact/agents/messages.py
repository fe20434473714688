"""What a run says to a model and hears from it, in words that belong to no provider.

Ids, signatures and what a provider wants back word for word are opaque: they are kept as they came.
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
        """The form in which it stands in events."""
        return {**msgspec.to_builtins(self), "total": self.total}


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A model wants a tool to be called. ``id`` is what the result refers to.

    ``item_id`` is a second id, of providers that have one (Responses: ``fc_…`` beside ``call_…``).
    ``arguments`` are None where the model wrote something that is no JSON object; ``written`` is
    what it wrote, to the letter.
    """

    id: str
    name: str
    arguments: dict[str, Any] | None = msgspec.field(default_factory=dict)
    written: str | None = None
    item_id: str | None = None


class Reasoning(msgspec.Struct, frozen=True, kw_only=True):
    """What a model thought: its text as far as it shows it, and the signature that proves it."""

    text: str = ""
    id: str | None = None
    signature: str | None = None


class Native(msgspec.Struct, frozen=True):
    """What a provider said, in its own form: ``items`` are sent back as they came to whoever speaks
    the same ``dialect``."""

    dialect: str
    items: list[dict[str, Any]]


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message. ``call_id``, ``name`` and ``is_error`` are those of a tool's result."""

    role: Role
    text: str = ""
    tool_calls: tuple[ToolRequest, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    call_id: str = ""
    name: str = ""
    is_error: bool = False
    native: Native | None = None


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is told about a tool; ``parameters`` is a JSON Schema."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is asked: the whole conversation, and the tools that it may call."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    instructions: str = ""
    params: dict[str, Any] = msgspec.field(default_factory=dict)


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """What a model answered. ``raw`` is the client's own object, for whoever wants more."""

    text: str = ""
    tool_calls: tuple[ToolRequest, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    stop_reason: str | None = None
    usage: Usage | None = None
    native: Native | None = None
    raw: Any = None

    def message(self) -> Message:
        """The message that the conversation goes on with."""
        return Message(
            role="assistant",
            text=self.text,
            tool_calls=tuple(self.tool_calls),
            reasoning=tuple(self.reasoning),
            native=self.native,
        )


class Delta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of an answer that is still coming. The last one has the whole ``reply``."""

    text: str = ""
    thinking: str = ""
    reply: ModelReply | None = None


build_decoders(Message, ModelReply)


def as_messages(given: Sequence[Message | Mapping[str, Any]]) -> list[Message]:
    """Messages, or the dicts that :func:`msgspec.to_builtins` makes of them.

    Raises :class:`UsageError` that names the first one that is neither.
    """
    return [_as_message(number, one) for number, one in enumerate(given)]


def _as_message(number: int, one: Message | Mapping[str, Any]) -> Message:
    if isinstance(one, Message):
        return one
    try:
        return msgspec.convert(_renamed(one), Message)
    except (msgspec.ValidationError, TypeError) as error:
        raise UsageError(
            f"messages[{number}] is no message: {error}",
            hint='Message(role="user", text=…), or {"role": "user", "text": …}',
        ) from None


def _renamed(one: Mapping[str, Any]) -> dict[str, Any]:
    """``content`` is what most call the text."""
    found = dict(one)
    if isinstance(found.get("content"), str) and "text" not in found:
        found["text"] = found.pop("content")
    return found
