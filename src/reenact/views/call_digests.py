"""Digests of the calls in a recording, computed without decoding complete events."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from functools import lru_cache
from typing import Any

import msgspec

from reenact.engine.call import DRAWS, PAIRS, SCHEDULE
from reenact.format.draw_runs import LONGEST_RUN
from reenact.format.event import Event
from reenact.store.source import SeekableSource
from reenact.views.content import NOT_SAID, is_noise
from reenact.views.recorded_calls import RecordedCall

__all__ = [
    "DigestReader",
    "DigestedCall",
    "Members",
    "data_members",
    "digest_of",
    "number",
    "text",
]

_OPENINGS = {closing: opening for opening, closing in PAIRS.items()}
_MARKS = ("run_start", "run_end")
_FEW, _MANY = 4, 64
"""Events per batch: small at first to report an early difference quickly, then larger."""


class DigestedCall(msgspec.Struct, gc=False):
    """One call, or the beginning or the end of the run. ``last`` is the seq of the event that
    completed it, None where none did; ``digest`` is empty until that is known."""

    lane: str
    kind: str
    name: str
    first: int
    last: int | None = None
    position: int = 0
    digest: bytes = b""


class _Open(msgspec.Struct):
    """A call that waits for its answer."""

    seen: DigestedCall
    type: str
    call_id: str
    said: bytes


class DigestReader:
    """Incremental reader of calls and their digests.

    ``draws`` includes clock readings and random values. ``everything`` includes all event data in
    the digests.
    """

    def __init__(
        self, source: SeekableSource, *, draws: bool = False, everything: bool = False
    ) -> None:
        self.lanes: dict[str, list[DigestedCall]] = {}
        """In the order of the log; in program order once all is read."""
        self.left_out: Counter[str] = Counter()
        """Draws, by their source: how many values."""
        self.answered: list[DigestedCall] = []
        """The model calls that were answered, in the order of their answers."""
        self.jumped: set[str] = set()
        """Lanes in which the log contains a call before an earlier one."""
        self._source = source
        self._draws = draws
        self._everything = everything
        self._seq = 0
        self._at_a_time = _FEW
        self._positions: defaultdict[str, int] = defaultdict(int)
        self._open: dict[int, _Open] = {}
        self._unlinked: defaultdict[tuple[str, str], list[_Open]] = defaultdict(list)

    def read_on(self) -> bool:
        """Read some more; False when all is read."""
        if self._seq < 0:
            return False
        for _ in range(self._at_a_time):
            event = self._source.next()
            if event is None:
                self._finish()
                return False
            self._seq = event.seq
            self._place(event)
        self._at_a_time = min(2 * self._at_a_time, _MANY)
        return True

    def read_all(self) -> None:
        """Read to the end."""
        while self.read_on():
            pass

    def step(self, seen: DigestedCall) -> RecordedCall:
        """Return the call with its events."""
        opening = self._source.at(seen.first)
        same = seen.last == seen.first
        closing = opening if same else None if seen.last is None else self._source.at(seen.last)
        return RecordedCall(opening=opening, closing=closing, kind=seen.kind, name=seen.name)

    def _finish(self) -> None:
        for one in self._open.values():
            one.seen.digest = hashlib.sha256(b"open" + one.said).digest()
        for lane in self.jumped:
            self.lanes[lane].sort(key=lambda seen: seen.position)
        self._open.clear()
        self._unlinked.clear()
        self._seq = -1

    def _place(self, event: Event) -> None:
        kind = event.type
        if kind == "nondeterministic":
            self._single(event)
        elif kind in PAIRS:
            self._begin(event)
        elif kind in _OPENINGS:
            self._end(event)
        elif kind in _MARKS:
            self._mark(event)
        elif kind == "state_mutation":
            members = data_members(event)
            if not _is_aside(members):
                self._add(event, members, done=True)

    def _single(self, event: Event) -> None:
        members = data_members(event)
        source = text(members.get("source"))
        if source == SCHEDULE or _is_aside(members):
            return
        if source in DRAWS and not self._draws:
            many = _count(members)
            self.left_out[source] += many
            self._positions[event.lane] += many
            return
        self._add(event, members, done=True)

    def _begin(self, event: Event) -> None:
        members = data_members(event)
        seen = self._add(event, members, done=False)
        call_id = text(members.get("callId"))
        found = _Open(
            seen, event.type, call_id, digest_of(event, members, everything=self._everything)
        )
        self._open[event.seq] = found
        self._unlinked[event.lane, call_id or event.type].append(found)

    def _end(self, event: Event) -> None:
        """Complete the open call of the event: by its seq, by the call id, or the oldest open one."""
        members = data_members(event)
        call_id = text(members.get("callId"))
        found = self._open.get(event.parent or 0)
        if found is None or not _belongs(event, call_id, found):
            waiting = self._unlinked.get((event.lane, call_id or _OPENINGS[event.type]), ())
            found = next((one for one in waiting if _belongs(event, call_id, one)), None)
            if found is None:
                return
        seen = found.seen
        del self._open[seen.first]
        self._unlinked[seen.lane, found.call_id or found.type].remove(found)
        seen.last = event.seq
        if found.type == "llm_request":
            self.answered.append(seen)
        seen.digest = hashlib.sha256(
            found.said + digest_of(event, members, everything=self._everything)
        ).digest()

    def _mark(self, event: Event) -> None:
        digest = digest_of(event, data_members(event), everything=self._everything)
        seq = event.seq
        seen = DigestedCall(
            event.lane, event.type, "", seq, seq, self._positions[event.lane], digest
        )
        self.lanes.setdefault(event.lane, []).append(seen)

    def _add(self, event: Event, members: Members, *, done: bool) -> DigestedCall:
        lane = event.lane
        kind, name = _names(event.type, members)
        expected = self._positions[lane]
        position = number(members.get("position"), expected)
        if position != expected:
            self.jumped.add(lane)
        seen = DigestedCall(lane, kind, name, event.seq, None, position)
        if done:
            seen.last, seen.digest = (
                event.seq,
                digest_of(event, members, everything=self._everything),
            )
        self._positions[lane] += _count(members)
        self.lanes.setdefault(lane, []).append(seen)
        return seen


def _is_aside(members: Members) -> bool:
    """Return whether a call has no position in its lane, and is never compared."""
    return bytes(members.get("aside", b"")) == b"true"


def _names(type: str, members: Members) -> tuple[str, str]:
    """Return the kind of a call, and the name of the called operation."""
    if type == "nondeterministic":
        source = text(members.get("source"))
        return source or type, text(members.get("op")) or source
    if type == "llm_request":
        return "llm", f"{text(members.get('provider'))}/{text(members.get('model'))}"
    if type == "tool_call":
        return "tool", text(members.get("name"))
    return type, text(members.get("op")) or text(members.get("type"))


def _belongs(event: Event, call_id: str, opening: _Open) -> bool:
    if PAIRS[opening.type] != event.type:
        return False
    return not call_id or not opening.call_id or call_id == opening.call_id


def _count(members: Members) -> int:
    many = number(members.get("count"), 1)
    return many if 1 < many <= LONGEST_RUN else 1


Members = dict[str, msgspec.Raw]
"""The data of an event, not looked into."""

_LEFT_OUT = NOT_SAID - {"volatile", "lens"}
"""Both fields affect the decoding of the others."""

_members = msgspec.json.Decoder(Members)
_noise = lru_cache(maxsize=1024)(is_noise)


def data_members(event: Event) -> Members:
    """Return the data members of ``event``; empty if the data is not an object."""
    try:
        return _members.decode(event.payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def digest_of(event: Event, members: Members, *, everything: bool) -> bytes:
    """Return a digest that is equal for events with equal content.

    ``everything`` includes all data.
    """
    if everything or not members:
        said = event.payload
    else:
        kept = {name: item for name, item in members.items() if name not in _LEFT_OUT}
        response = kept.pop("response", None)
        said = _joined(kept) if response is None else _joined(kept) + _response(response)
    return hashlib.sha256(event.type.encode("utf-8", "surrogatepass") + said).digest()


def _joined(members: Members) -> bytes:
    """Join the members with NUL, which cannot occur in JSON."""
    names = str([*members]).encode("utf-8", "surrogatepass")
    return b"\0".join((names, *map(bytes, members.values()), b""))


def _response(encoded: msgspec.Raw) -> bytes:
    """Return an HTTP response without the headers that change in every run."""
    whole = bytes(encoded)
    if not whole.startswith(b"{"):
        return whole
    members = _members.decode(whole)
    headers = members.pop("headers", None)
    if headers is None or "status" not in members:
        return whole
    return _joined(members) + _kept(bytes(headers))


@lru_cache(maxsize=64)
def _kept(headers: bytes) -> bytes:
    """Return the headers that are significant."""
    found = msgspec.json.decode(headers)
    if not isinstance(found, list):
        return headers
    return msgspec.json.encode([pair for pair in found if not _is_noise(pair)])


def _is_noise(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and type(pair[0]) is str and _noise(pair[0])


def text(encoded: msgspec.Raw | None) -> str:
    """Return the decoded text, or an empty string if it is not a text."""
    found = b"" if encoded is None else bytes(encoded)
    return str(msgspec.json.decode(found)) if found.startswith(b'"') else ""


def number(encoded: msgspec.Raw | None, otherwise: int) -> int:
    """Return the decoded number if it is a non-negative integer, otherwise ``otherwise``."""
    found = None if encoded is None else msgspec.json.decode(encoded)
    return found if type(found) is int and found >= 0 else otherwise
