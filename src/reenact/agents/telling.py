"""What a run tells on its channel while a model answers and tools work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from reenact.agents.bus import Channel
from reenact.agents.effects import Outcome
from reenact.agents.messages import Delta, ModelReply, ToolRequest
from reenact.agents.toolbox import told

__all__ = ["Tell", "Teller", "reply_in"]

Tell = Callable[[Any], Any]
"""Takes a piece of an answer; returns the whole answer, if it is the last one."""

_LONGEST: Final = 8_000
_CUT: Final = "…(truncated)…"
"""Of a tool's text on the bus: the whole of it is in the recording."""


class Teller:
    """The words of a run, in the shapes that observers know."""

    def __init__(self, channel: Channel) -> None:
        self.emit = channel.emit

    def piece(self, piece: Delta | Any) -> Any:
        """A piece of an answer has come. Returns the whole answer, if it is the last one."""
        if isinstance(piece, Delta) and piece.thinking:
            self.emit("thinking", {"phase": "delta", "delta": piece.thinking})
        if isinstance(piece, Delta) and piece.text:
            self.emit("assistant", {"phase": "delta", "delta": piece.text})
        return reply_in(piece)

    def reply(self, reply: ModelReply) -> None:
        """An answer is there."""
        for thought in reply.reasoning:
            if thought.text:
                self.emit("thinking", {"phase": "end", "text": thought.text})
        if reply.text:
            self.emit("assistant", {"phase": "end", "text": reply.text})

    def starts(self, request: ToolRequest) -> None:
        """A tool is about to be called."""
        args = request.written if request.arguments is None else request.arguments
        self._tool(request, {"phase": "start", "args": args})

    def updates(self, request: ToolRequest, piece: Any) -> None:
        """A tool has something to say before its end."""
        self._tool(request, {"phase": "update", "partialResult": _short(told(piece))})

    def ends(self, request: ToolRequest, outcome: Outcome) -> None:
        """A tool has come to an end."""
        said = {"phase": "result", "isError": outcome.is_error, "result": _short(outcome.text)}
        self._tool(request, said)

    def _tool(self, request: ToolRequest, said: dict[str, Any]) -> None:
        self.emit("tool", {"name": request.name, "toolCallId": request.id, **said})


def reply_in(piece: Delta | Any) -> Any:
    """The whole answer, where ``piece`` is the last one."""
    return piece.reply if isinstance(piece, Delta) else piece


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + _CUT
