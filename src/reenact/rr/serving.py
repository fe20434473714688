"""The reading half of a cassette: everything loaded and checked, each entry served once."""

from __future__ import annotations

from collections import Counter

import msgspec

from reenact.engine.call import Call
from reenact.engine.call import Entry as Recorded
from reenact.engine.decision.matcher import LaneMatcher, LookupMatcher
from reenact.engine.decision.recorded_calls import RecordedCalls
from reenact.errors import RecordingError, RrError
from reenact.format.canonical import canonical, digest_bytes
from reenact.format.event import Event
from reenact.format.lane import ROOT
from reenact.policy.matching import Comparer, Rules
from reenact.policy.redaction import PLACEHOLDER, blind
from reenact.rr import entries
from reenact.rr.entries import EVENT, Entry
from reenact.rr.meter import Meter
from reenact.rr.numbers import ENTRY_INVALID, KIND_MISMATCH, MISS, OP_MISMATCH
from reenact.rr.opening import Ready, failed
from reenact.store.copy_sink import LateSink
from reenact.store.source import SeekableSource

__all__ = ["Serving"]

_SHOWN = 80


class _Identity(msgspec.Struct, frozen=True):
    """What an entry is found by. Redacted, as the recorded side is; ``digest`` is over all three."""

    kind: str
    op: str
    digest: str


class Serving:
    """What was recorded, and what of it has been used. Not thread-safe: the cassette's lock
    covers it.

    Making one reads the whole ``source`` and counts it with ``meter``. Raises :class:`RrError`
    2002 to 2008 and 2014.
    """

    def __init__(self, ready: Ready, source: SeekableSource, meter: Meter) -> None:
        self.used = 0
        """How many entries have been served."""
        self._name = ready.path.name
        self._ready = ready
        self._meter = meter
        self._comparer = Comparer(Rules(), ready.parts.redactor)
        self._known: Counter[str] = Counter()
        matcher = LaneMatcher if ready.match_mode == "transcript" else LookupMatcher
        self._matcher: LaneMatcher | LookupMatcher = matcher(self._script(source), _key_of)
        self._late = self._copies(source)

    def _copies(self, source: SeekableSource) -> LateSink | None:
        """Where an entry goes when it is served, if what is new has to come behind it.

        In a transcript what is new stands where it was missing. For look-ups the file keeps its
        order and what is new comes at its end: everything goes there at once.
        """
        late = self._ready.parts.copy_sink
        if late is None or self._ready.mode != "record_missing":
            return None
        if self._ready.match_mode == "transcript":
            return late
        for seq in range(1, len(source) + 1):
            late.copy(seq)
        return None

    def _script(self, source: SeekableSource) -> RecordedCalls:
        script = RecordedCalls(source, by_lane=False)
        script.keep_all()
        try:
            for event in source:
                self._check(event)
            script.read_all()
        except RecordingError as error:
            raise failed(self._ready.path, error) from None
        for recorded in script.entries or ():
            found = self._identity(recorded.kind, recorded.operation, recorded.key)
            recorded.kind, recorded.operation, recorded.key = found.kind, found.op, found.digest
            self._known[found.digest] += 1
        return script

    def _check(self, event: Event) -> None:
        place = self._place(event.seq)
        if event.type != EVENT:
            raise RrError(
                ENTRY_INVALID,
                f"{place} is a {event.type}, not an entry",
                hint="a cassette that a session recorded is replayed with reenact.session",
            )
        entry = entries.read(event.data, place)
        size = self._ready.size_of(entry, event.payload, event.seq - 1)
        self._meter.check(entry, size, place)
        self._meter.add(size)

    def _place(self, seq: int) -> str:
        return f"event {seq} of {self._name}"

    def _identity(self, kind: str, op: str, key: str) -> _Identity:
        normal = self._comparer.normal({"source": kind, "op": op, "key": key})
        if normal["key"] != key and blind(normal["key"]) == PLACEHOLDER:
            # Only X07 cassettes have keys of which redaction leaves nothing. They stay distinct.
            normal["key"] = key
        return _Identity(normal["source"], normal["op"], digest_bytes(canonical(normal)))

    def next(self, kind: str, op: str, key: bytes) -> Entry:
        """The entry for this call. Raises 2007 and 2009 to 2011, and then nothing has moved."""
        self._meter.check_key(key, f"next on {self._name}")
        found = self._find(self._identity(kind, op, entries.key_text(key)), key)
        try:
            entry = entries.read(found.opening.data, self._place(found.seq))
        except RecordingError as error:
            raise failed(self._ready.path, error) from None
        self._matcher.take(found)
        self.used += 1
        if self._late is not None:
            self._late.copy(found.seq)
        return entry

    def _find(self, asked: _Identity, key: bytes) -> Recorded:
        found = self._matcher.at_cursor(_call(asked), asked.digest, ROOT)
        if found is None:
            raise self._miss(asked, key)
        if found.kind != asked.kind:
            raise self._mismatch(
                KIND_MISMATCH, found, "kind", _shown(found.kind), _shown(asked.kind)
            )
        if found.operation != asked.op:
            raise self._mismatch(
                OP_MISMATCH, found, "op", _shown(found.operation), _shown(asked.op)
            )
        if key and found.key != asked.digest:  # in a transcript no key means any
            raise self._mismatch(MISS, found, "key", "another", f"one of {len(key)} bytes")
        return found

    def _miss(self, asked: _Identity, key: bytes) -> RrError:
        times = self._known[asked.digest]
        if self._ready.match_mode == "transcript":
            why = f"all {self.used} entries have been used"
        elif times:
            why = f"it was recorded {times} time(s), and all have been used"
        else:
            why = "it was never recorded"
        return RrError(
            MISS,
            f"{self._name} has no entry for {_shown(asked.kind)} {_shown(asked.op)} with this key "
            f"({len(key)} bytes): {why}",
            hint="make the live call and append it, in the mode record_missing; or record again",
        )

    def _mismatch(
        self, number: int, found: Recorded, what: str, expected: str, observed: str
    ) -> RrError:
        return RrError(
            number,
            f"{self._place(found.seq)} comes next, and its {what} is {expected}; asked for was "
            f"{observed}",
            hint="the calls come in another order than they were recorded in: look with "
            f"'reenact show {self._ready.path} {found.seq}', or match by lookup",
        )


def _shown(name: str) -> str:
    return repr(name[:_SHOWN])


def _call(asked: _Identity) -> Call:
    return Call(
        type=EVENT,
        capability="",
        operation=asked.op,
        request={},
        source=asked.kind,
        key=asked.digest,
    )


def _key_of(recorded: Recorded) -> str:
    return recorded.key
