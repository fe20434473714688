"""Request part of an event, and the operation that it requests.

A replay compares only requests. Results, times and the bookkeeping fields of a recording are not
compared. Pure.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from reenact.format.event import Data

__all__ = [
    "BOOKKEEPING",
    "FUNCTION_LENS",
    "ObservedRequest",
    "kind_of",
    "operation_of",
    "request_of",
]

BOOKKEEPING: Final = frozenset(
    "key rawHash timing volatile redacted withheld attempt call inner position changed".split()
)
"""Fields of an event that are about the recording, not about the call."""

FUNCTION_LENS: Final = "function"
"""The lens of calls that no lens looks at: their meaning is what the function is called with."""

_OPAQUE = frozenset({"callId"})
"""The id of a call is another one in every run."""

_KINDS = {
    "llm_request": "llm",
    "llm_response": "llm",
    "tool_call": "tool",
    "tool_result": "tool",
}


class ObservedRequest(msgspec.Struct, frozen=True):
    """Present request of the program. ``request`` has the form of :func:`request_of`.

    It is not redacted. ``key`` is its key.
    """

    type: str
    operation: str
    lane: str
    request: Data
    key: str


def request_of(type: str, data: Data) -> Data:
    """Return the compared part of an event.

    Fields that are missing, because the payload was withheld or written by hand, are left out.
    """
    names: tuple[str, ...]
    if type == "nondeterministic":
        names = ("source", "op", "request") if "request" in data else ("source", "key")
    elif type == "tool_call":
        names = ("name", "args")
    elif type == "llm_request" and data.get("lens") == FUNCTION_LENS:
        names = ("provider", "model", "request")  # no part of the arguments has to name the model
    elif type == "llm_request" and "lens" in data:
        names = ("request",)  # over HTTP; the rest is what a lens saw in it
    else:
        left_out = BOOKKEEPING | _OPAQUE
        if type == "tool_result":
            left_out |= {"name"}  # repeats the name of the call, for readers of the log
        return {name: item for name, item in data.items() if name not in left_out}
    return {name: data[name] for name in names if name in data}


def operation_of(type: str, data: Data) -> str:
    """Return a short name of an operation: ``search``, ``openai/gpt-5``, ``network GET``.

    Empty for an event without an operation.
    """
    if type == "nondeterministic":
        return " ".join(filter(None, (_text(data.get("source")), _text(data.get("op")))))
    if type == "tool_call":
        return _text(data.get("name"))
    if type in ("llm_request", "llm_response"):
        return "/".join(filter(None, (_text(data.get("provider")), _text(data.get("model")))))
    return _text(data.get("type")) if type == "state_mutation" else ""


def kind_of(type: str, data: Data) -> str:
    """Return ``llm``, ``tool``, the source of a nondeterministic event, else the event's type."""
    if type == "nondeterministic":
        return _text(data.get("source")) or type
    return _KINDS.get(type, type)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
