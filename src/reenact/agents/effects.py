"""What a run wants to be done. The loop says it, a shell for threads or one for tasks does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from reenact.agents.compaction import Summarize
from reenact.agents.messages import Message, ModelRequest, ToolRequest

__all__ = ["Aborted", "AskModel", "Compact", "Effect", "Model", "Outcome", "RunTools", "Wait"]

Model = Callable[[ModelRequest], Any]
"""Returns a :class:`ModelReply`, or an iterator of :class:`Delta` whose last piece is, or has, the
reply (a generator may return it); for tasks an awaitable, or an asynchronous iterator of the same."""


class Aborted(Exception):
    """Somebody has asked the run to stop."""


class AskModel(msgspec.Struct, frozen=True):
    """Gives a :class:`ModelReply`, or raises what the model raised."""

    model: Model
    request: ModelRequest
    attempt: int


class Outcome(msgspec.Struct, frozen=True):
    """What a tool came to, as the model is told it."""

    text: str
    is_error: bool = False


class RunTools(msgspec.Struct, frozen=True):
    """Gives an :class:`Outcome` for each request, in their order."""

    requests: tuple[ToolRequest, ...]


class Wait(msgspec.Struct, frozen=True):
    """Gives nothing, so many seconds later; a replay does not wait."""

    seconds: float


class Compact(msgspec.Struct, frozen=True):
    """Gives a :class:`Decided`: made by ``summarize`` or by the model, or the recorded one."""

    reason: str
    messages: tuple[Message, ...]
    keep: int
    ask: AskModel
    summarize: Summarize | None = None


Effect = AskModel | RunTools | Wait | Compact
