"""What a script needs to know of an event, without looking at the whole of it."""

from __future__ import annotations

from typing import Any

import msgspec

from reenact.engine.call import PAIRS, Entry
from reenact.format.draws import LONGEST_RUN
from reenact.format.event import Event

__all__ = ["Brief", "belongs", "look", "make_entry", "text"]


_SHORT = 4_096


class Brief(msgspec.Struct, rename="camel", gc=False):
    """A part of an event's data. Anything may stand there, so all is Any."""

    source: Any = ""
    key: Any = ""
    op: Any = ""
    name: Any = ""
    provider: Any = ""
    model: Any = ""
    call_id: Any = ""
    inner: Any = None
    position: Any = None
    cancelled: Any = False
    unfinished: Any = False
    instant: Any = False
    ended: Any = None
    count: Any = None
    aside: Any = False
    raw_hash: Any = ""
    response: msgspec.Raw = msgspec.Raw()
    broken: Any = None
    error: Any = None
    redacted: Any = None

    @property
    def unanswered(self) -> bool:
        """Was the call cancelled, or under way at the end?"""
        return self.cancelled is True or self.unfinished is True

    @property
    def answer(self) -> bytes:
        """The answer, if it is a short value and nothing but that."""
        if self.ended is self.broken is self.error is self.redacted is None:
            encoded = bytes(self.response)
            return encoded if len(encoded) <= _SHORT else b""
        return b""


_brief = msgspec.json.Decoder(Brief)
_NOTHING = Brief()


def look(event: Event) -> Brief:
    """What ``event`` says; nothing when its data is no object, and then nothing matches it."""
    try:
        return _brief.decode(event.payload)
    except (msgspec.DecodeError, RecursionError):
        return _NOTHING


def text(value: Any) -> str:
    """``value`` if it is a text."""
    return value if isinstance(value, str) else ""


def make_entry(event: Event, brief: Brief) -> Entry:
    """The recorded call that ``event`` opens. Its position is -1 where none is written."""
    if event.type == "nondeterministic":
        kind, operation = text(brief.source), text(brief.op)
    else:
        kind, operation = _named(event.type, brief)
    position, key, call_id, inner = brief.position, brief.key, brief.call_id, brief.inner
    return Entry(
        opening=event,
        kind=kind,
        operation=operation,
        key=key if type(key) is str else "",
        position=position if type(position) is int and position >= 0 else -1,
        raw_hash=text(brief.raw_hash),
        answer=brief.answer,
        call_id=call_id if type(call_id) is str else "",
        unanswered=brief.cancelled is True or brief.unfinished is True,
        inner=inner if type(inner) is str else None,
        count=_count(brief.count),
    )


def _count(count: Any) -> int:
    return count if type(count) is int and 1 < count <= LONGEST_RUN else 1


def _named(type: str, brief: Brief) -> tuple[str, str]:
    """The kind and the operation, as :class:`reenact.engine.call.Call` has them."""
    if type == "tool_call":
        return "tool", text(brief.name)
    if type == "llm_request":
        return "llm", f"{text(brief.provider)}/{text(brief.model)}"
    return type, text(brief.op) if type == "state_mutation" else ""


def belongs(event: Event, brief: Brief, opening: Entry) -> bool:
    """Does ``event`` complete ``opening``? In recordings made by hand a parent may be any call
    that encloses it."""
    if PAIRS.get(opening.type) != event.type:
        return False
    given = text(brief.call_id)
    return not given or not opening.call_id or given == opening.call_id
