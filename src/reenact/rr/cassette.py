"""Open cassette: the operations that its mode allows, its budget, its counters and its end.

A reader loads and checks all entries and serves each one once. A writer turns entries into events
while the budget lasts.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from reenact.engine.call import Call
from reenact.engine.call import Entry as Recorded
from reenact.engine.decision.matcher import LaneMatcher, LookupMatcher
from reenact.engine.decision.recorded_calls import RecordedCalls
from reenact.engine.session.settings import MODES
from reenact.errors import RecordingError, ReenactError, RrError, SessionClosed, UsageError
from reenact.format.canonical import canonical, digest, digest_bytes
from reenact.format.event import ROOT_LANE, Data, Draft, Event, parse
from reenact.policy.matching import Comparer, Rules
from reenact.policy.model import Budgets
from reenact.policy.redaction.redactor import PLACEHOLDER, blind
from reenact.rr import entries
from reenact.rr.config import LIMITS, MATCH_MODES, EntrySink, Ready, failed
from reenact.rr.entries import (
    ENTRY_INVALID,
    EVENT,
    KIND_MISMATCH,
    MISS,
    MODE_FORBIDS_APPEND,
    MODE_FORBIDS_NEXT,
    OP_MISMATCH,
    OPEN_FAILED,
    OVER_CASSETTE_BYTES,
    OVER_ENTRIES,
    OVER_KEY_BYTES,
    OVER_REQ_BYTES,
    OVER_RESP_BYTES,
    Entry,
)
from reenact.store.payload_encoder import prepare
from reenact.store.sinks.base import watch_forks
from reenact.store.sinks.copy import CopyOnWriteSink
from reenact.store.source import SeekableSource

__all__ = ["Cassette", "Meter", "Serving", "Stats", "Writing", "check_key_is_left", "entry_data"]

_NUMBERS = dict(
    zip(
        LIMITS,
        (OVER_CASSETTE_BYTES, OVER_ENTRIES, OVER_REQ_BYTES, OVER_RESP_BYTES, OVER_KEY_BYTES),
        strict=True,
    )
)


class Meter:
    """Counter for the entries of a cassette and their stored bytes.

    It counts the bytes of the event payloads, including large ones that are stored next to the
    file. The container's own bytes do not count.
    """

    def __init__(self, budgets: Budgets) -> None:
        self.entries = 0
        self.bytes = 0
        self._budgets = budgets

    def check(self, entry: Entry, size: int, place: str) -> None:
        """May ``entry``, whose payload has ``size`` bytes, come? Raises 2003 to 2007."""
        self.check_key(entry.key, place)
        self._check("max_req_bytes", len(entry.req), place)
        self._check("max_resp_bytes", len(entry.resp), place)
        self._check("max_entries", self.entries + 1, place)
        self._check("max_cassette_bytes", self.bytes + size, place)

    def check_key(self, key: bytes, place: str) -> None:
        """May a key be so long? Raises 2007."""
        self._check("max_key_bytes", len(key), place)

    def add(self, size: int) -> None:
        """An entry has come."""
        self.entries += 1
        self.bytes += size

    def _check(self, name: str, actual: int, place: str) -> None:
        limit: int | None = getattr(self._budgets, LIMITS[name])
        if limit is not None and actual > limit:
            raise RrError(
                _NUMBERS[name],
                f"{place}: {name} is {limit}, and this needs {actual}",
                hint=f"make it smaller, or raise {name}; the smaller limit of cfg and policy holds",
            )


class Writing:
    """Appends entries. Not thread-safe: the cassette's lock covers it."""

    def __init__(self, ready: Ready, sink: EntrySink, meter: Meter) -> None:
        self.appended = 0
        """Number of written entries."""
        self._path = ready.path
        self._size_of = ready.size_of
        self._clock = ready.parts.clock
        self._redactor = ready.parts.redactor
        self._sink = sink
        self._meter = meter

    def append(self, entry: Entry) -> None:
        """Write ``entry``. Raises :class:`RrError` 2002 to 2008, and then nothing was written."""
        draft = Draft(type=EVENT, data=entry_data(entry), ts=self._clock(), op=entry.op)
        # Measured in its stored form, so that every written cassette can also be opened.
        payload = prepare(draft, self._redactor).payload
        written = entries.read(parse(payload), "what would be written")
        check_key_is_left(entry.key, written.key)
        size = self._size_of(written, payload, self._meter.entries)
        self._meter.check(written, size, f"append to {self._path.name}")
        if not self._sink.append(draft):
            raise self.failed("the reason is in a previous warning")
        self._meter.add(size)
        self.appended += 1

    def failed(self, why: str) -> RrError:
        """Return the error for an entry that cannot be written."""
        return RrError(
            OPEN_FAILED,
            f"the entry was not written to {self._path}: {why}",
            hint="close the handle; previous entries remain",
        )


def entry_data(entry: Entry) -> Data:
    """The data of the event that holds ``entry``, before it is redacted."""
    names = {"source": entry.kind, "op": entry.op, "key": entries.key_text(entry.key)}
    fields = entries.fields_of(entry)
    return {**names, **fields, "valueHash": digest(fields["response"])}


def check_key_is_left(given: bytes, written: bytes) -> None:
    """Raise :class:`RrError` 2008 for a key that is nothing but a secret: it would match every
    other one."""
    if given != written and blind(written.decode("utf-8", "replace")) == PLACEHOLDER:
        raise RrError(
            ENTRY_INVALID,
            "redaction removes the complete key, so entries could not be distinguished",
            hint="write a digest as sha256:<64 hex>, which is kept; or a key without secrets",
        )


_SHOWN = 80


class _Identity(msgspec.Struct, frozen=True):
    """Redacted lookup key of an entry. ``digest`` covers all three fields."""

    kind: str
    op: str
    digest: str


class Serving:
    """Recorded entries and their use. Not thread-safe: the cassette's lock protects it.

    The constructor reads the complete ``source`` and counts it with ``meter``. Raises
    :class:`RrError` 2002 to 2008 and 2014.
    """

    def __init__(self, ready: Ready, source: SeekableSource, meter: Meter) -> None:
        self.used = 0
        """Number of served entries."""
        self._name = ready.path.name
        self._ready = ready
        self._meter = meter
        self._comparer = Comparer(Rules(), ready.parts.redactor)
        self._known: Counter[str] = Counter()
        matcher = LaneMatcher if ready.match_mode == "transcript" else LookupMatcher
        self._matcher: LaneMatcher | LookupMatcher = matcher(self._script(source), _key_of)
        self._late = self._copies(source)

    def _copies(self, source: SeekableSource) -> CopyOnWriteSink | None:
        """Sink for served entries, if new entries have to follow them.

        In a transcript, a new entry is written where it was missing. For lookups, the file keeps
        its order and new entries are appended, so all recorded entries are written at once.
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
        found = self._matcher.at_cursor(_call(asked), asked.digest, ROOT_LANE)
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
            hint="the order of the calls differs from the recording: see "
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


_SERVES: Final = frozenset({"replay", "record_missing"})


class Stats(msgspec.Struct, frozen=True):
    """Counters for ``rr.stats``, in its order.

    Modes are X07 numbers; ``used`` counts served entries.
    """

    v: int
    mode: int
    match_mode: int
    cassettes: int
    entries: int
    used: int
    bytes: int


class Cassette:
    """Made by :func:`reenact.rr.open`. Thread-safe. A forked child reads on and writes nothing."""

    def __init__(self, ready: Ready) -> None:
        self._ready = ready
        self._meter = Meter(ready.budgets)
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._closed = False
        source, sink = ready.parts.source, ready.sink
        self._serving = None if source is None else Serving(ready, source, self._meter)
        self._writing = None if sink is None else Writing(ready, sink, self._meter)
        watch_forks(self)

    def next(self, kind: str | bytes, op: str | bytes, key: str | bytes) -> Entry:
        """See :func:`reenact.rr.next`."""
        with self._lock:
            self._check_open()
            if self._ready.mode not in _SERVES:
                raise self._forbidden(MODE_FORBIDS_NEXT, "serves nothing", "replay, record_missing")
            asked = _asked(kind, op, key)
            self._check_listed(asked[0], asked[1])
            if self._serving is None:
                self._meter.check_key(asked[2], f"next on {self._ready.path.name}")
                raise RrError(
                    MISS,
                    f"{self._ready.path.name} did not exist when it was opened",
                    hint="make the live call and append it",
                )
            return self._serving.next(*asked)

    def append(self, given: Entry | Mapping[str, Any]) -> None:
        """See :func:`reenact.rr.append`."""
        with self._lock:
            self._check_open()
            if self._writing is None:
                raise self._forbidden(
                    MODE_FORBIDS_APPEND, "writes nothing", "record, record_missing, rewrite"
                )
            if self._is_forked():
                raise self._writing.failed("this process was forked from the one that opened it")
            entry = entries.check(given)
            self._check_listed(entry.kind, entry.op)
            self._writing.append(entry)

    def stats(self) -> Stats:
        """See :func:`reenact.rr.stats`."""
        with self._lock:
            self._check_open()
            return Stats(
                v=1,
                mode=MODES.index(self._ready.mode),
                match_mode=MATCH_MODES.index(self._ready.match_mode),
                cassettes=0 if self._ready.mode == "off" else 1,
                entries=self._meter.entries,
                used=0 if self._serving is None else self._serving.used,
                bytes=self._meter.bytes,
            )

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed(
                f"{self._ready.path.name} was closed by another thread meanwhile",
                hint="wait for other threads before you close a handle",
            )

    def _check_listed(self, kind: str, op: str) -> None:
        refusal = self._ready.access.unlisted(kind, op)
        if refusal is not None:
            raise refusal

    def _forbidden(self, number: int, what: str, modes: str) -> RrError:
        return RrError(
            number, f"the mode {self._ready.mode} {what}", hint=f"open it in one of: {modes}"
        )

    def close(self, error: BaseException | None = None) -> bool:
        """False the second time. With ``error``, what a rewrite has written is given up.

        Raises :class:`RrError` 2002 when the cassette cannot be completed.
        """
        with self._lock:
            if self._closed:
                return False
            self._closed = True
            try:
                self._finish(error)
            except ReenactError as problem:
                raise failed(self._ready.path, problem) from None
            finally:
                self._ready.parts.close()
        return True

    def _finish(self, error: BaseException | None) -> None:
        sink, writing = self._ready.sink, self._writing
        if sink is None or writing is None:
            return
        if self._is_forked():
            sink.leave()
        elif self._ready.mode == "rewrite" and (error is not None or not writing.appended):
            sink.discard()
            if writing.appended:
                self._ready.settings.warn(
                    f"{self._ready.path} is unchanged, because the scope ended with an error"
                )
        else:
            name = None if error is None else type(error).__name__
            sink.finalize("ok" if error is None else "error", name)

    def _is_forked(self) -> bool:
        return os.getpid() != self._pid

    def after_fork(self) -> None:
        """Replace the lock in a forked child, where its holder does not exist."""
        self._lock = threading.RLock()


def _asked(kind: Any, op: Any, key: Any) -> tuple[str, str, bytes]:
    kind_text, op_text = entries.name_text(kind), entries.name_text(op)
    if kind_text is None or op_text is None:
        raise UsageError("kind and op are text", hint="rr.next(handle, 'http', 'get', b'key')")
    if not isinstance(key, (str, bytes)):
        raise UsageError(
            f"a key is bytes (or text), not {type(key).__name__}",
            hint="b'' for none, where the match mode is transcript",
        )
    return kind_text, op_text, entries.raw_bytes(key)
