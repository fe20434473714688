"""What is known of a call for finding it, and the texts in which it is found."""

from __future__ import annotations

import msgspec

__all__ = ["CALL", "Call", "Said"]

CALL = "call"
"""The role of the text that says what was called."""


class Said(msgspec.Struct, frozen=True):
    """A text, and what it is of the call: ``user``, ``answer``, ``request``, ``result`` …

    ``retold``: a conversation sends it again with every call; only the first one counts.
    """

    role: str
    text: str
    retold: bool = False


class Call(msgspec.Struct, kw_only=True):
    """A call, or the beginning or the end of a run. ``closed`` is the seq of the event that
    completed it. What is not known is empty, or 0."""

    seq: int
    ts: int
    type: str
    """Of the event that began it."""
    lane: str
    log: str = ""
    """The segment that it is in, of a capture that is still being made."""
    closed: int = 0
    kind: str = ""
    """``llm``, ``tool``, ``network`` …"""
    name: str = ""
    provider: str = ""
    model: str = ""
    method: str = ""
    url: str = ""
    host: str = ""
    status: int = 0
    """Of HTTP; of a process and a run, its exit code."""
    failed: bool = False
    diverged: str = ""
    """The code of a divergence."""
    call_id: str = ""
    lens: str = ""
    said: list[Said] = []
