"""Compaction of a conversation. The decision is recorded and replayed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from reenact.agents.messages import Message, ModelRequest, Usage
from reenact.engine.call import Call
from reenact.errors import UsageError
from reenact.format.decoders import build_decoders
from reenact.format.event import Data

__all__ = [
    "CLIPS",
    "PROMPT",
    "Compaction",
    "Decided",
    "Summarize",
    "compacted",
    "cut",
    "decision_call",
    "read_decision",
    "summary_request",
]

PROMPT: Final = (
    "Summarise the conversation so far for yourself: what was asked, what was found, what was done, "
    "and what is left to do. Keep names, numbers and ids exactly. Answer with the summary only."
)

CLIPS: Final = (None, 2_000, 200)
"""Maximum characters per message in a summary request, for each successive attempt."""

Summarize = Callable[[Sequence[Message]], str | Awaitable[str]]


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the compaction of a long conversation.

    The last ``keep`` messages stay, or more if a tool result would lose its call. ``summarize``, or
    by default the model, replaces the other messages by a summary.

    Compaction happens when the model reports that the conversation is too long, and before a call
    if the previous call took more than ``limit`` tokens. It happens at most ``most`` times in a
    run.
    """

    keep: int = 4
    limit: int | None = None
    most: int = 3
    summarize: Summarize | None = None


class Decided(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last ``keep`` messages stay, and ``summary`` stands for those before. ``usage`` is what
    making it took."""

    keep: int
    summary: str
    usage: Usage | None = None

    def to_data(self) -> Data:
        """Return the recorded form of the decision."""
        found: Data = msgspec.to_builtins(self)
        return found


build_decoders(Decided)


def cut(messages: Sequence[Message], keep: int) -> int:
    """Return how many of the last messages stay.

    It is ``keep``, or more so that the first of them is not a tool result without its call. It is
    less than ``keep`` if nothing would be left to summarise. If no cut is possible, all messages
    stay.
    """
    most = len(messages)
    kept: int
    for kept in (*range(keep, most), *range(min(keep, most) - 1, 0, -1)):
        if kept == 0 or messages[most - kept].role != "tool":
            return kept
    return most


def compacted(messages: Sequence[Message], decided: Decided) -> list[Message]:
    """Return the conversation after the decision."""
    kept = list(messages[len(messages) - decided.keep :]) if decided.keep else []
    summary = Message(role="user", text=f"Summary of the conversation so far:\n{decided.summary}")
    return [summary, *kept]


def summary_request(
    messages: Sequence[Message], instructions: str, params: Data, clip: int | None
) -> ModelRequest:
    """Build the request for a summary by the model.

    The conversation is sent as one text, because calls and results belong together in messages.
    ``clip`` is the maximum length of each message.
    """
    lines = [_line(one, clip) for one in messages]
    ask = Message(role="user", text="\n".join([PROMPT, "", *lines]))
    return ModelRequest(messages=(ask,), instructions=instructions, params=params)


def _line(message: Message, clip: int | None) -> str:
    text = message.text if clip is None else message.text[:clip]
    calls = [
        f"[calls {one.name} with {one.written or one.arguments}]" for one in message.tool_calls
    ]
    who = f"{message.role} {message.name}".rstrip()
    return f"{who}: {' '.join(filter(None, [text, *calls]))}"


def decision_call(reason: str, messages: int) -> Call:
    """Return the call of the decision. Model calls for the summary are nested in it."""
    return Call(
        type="nondeterministic",
        capability="llm.call",
        operation="compact",
        request={"reason": reason, "messages": messages},
        source="compaction",
        nests=True,
    )


def read_decision(data: object, messages: int) -> Decided:
    """Read a recorded decision about a conversation of ``messages`` messages."""
    try:
        found = msgspec.convert(data, Decided)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"the recorded compaction cannot be read: {error}", hint="record the run again"
        ) from None
    return msgspec.structs.replace(found, keep=min(max(found.keep, 0), messages))
