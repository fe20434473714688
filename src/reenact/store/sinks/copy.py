"""Sinks that start a new recording from the events of an existing one."""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Callable

import msgspec

from reenact.errors import ReenactError, SinkError, SinkUnwritable, UsageError
from reenact.format.event import Data, Draft, Event
from reenact.format.json_path import lookup, parse
from reenact.format.manifest import Flag, Manifest, Seed
from reenact.policy.redaction.redactor import Mark
from reenact.store.seal import Restored, Seal
from reenact.store.sinks.base import CopySink, Status, watch_forks
from reenact.store.source import SeekableSource
from reenact.store.stream_journal import Note
from reenact.store.warning import Warn, print_warning

__all__ = ["BranchSink", "Copier", "CopyOnWriteSink"]


class Copier:
    """Writer of events of an old recording into a new sink, in the order in which they are used.

    The sink has been started with a redactor of the old recording's profile. Sealed values are
    opened with ``seal`` and passed on to be sealed again; they never become part of a payload. It
    uses 8 bytes per event of the old recording. Not thread-safe: give it its own reader
    (``source.reopen()``) and hold a lock.
    """

    def __init__(self, source: SeekableSource, sink: CopySink, seal: Seal | None = None) -> None:
        self.unsealed = 0
        """Sealed values that were lost on the way, because their key is not at hand."""
        self._source = source
        self._sink = sink
        self._seal = seal
        self._is_sealed = source.manifest().sealed is not None
        self._new = array("Q", bytes(8 * (len(source) + 1)))
        if Flag.APPROXIMATE in source.manifest().flags:
            sink.flag(Flag.APPROXIMATE)

    def copy(self, seq: int, fields: Data | None = None) -> int:
        """Append event ``seq`` of the old recording and return its new seq, or 0 if the sink
        refused it.

        Type, time, lane, unknown fields and data stay unchanged, except for ``fields`` of the data;
        None removes a field. ``parent`` becomes the new seq of the enclosing event if it has been
        copied, otherwise it is dropped. Raises :class:`UsageError` for the second copy of an event,
        :class:`LookupError` for a missing event, and :class:`RecordingDamaged` if the old recording
        cannot be read any more.
        """
        if self.copied(seq) is not None:
            raise _twice(seq)
        event = self._source.at(seq)
        draft = Draft(
            type=event.type,
            data=_with(event.data, fields),
            ts=event.ts,
            lane=event.lane,
            parent=None if event.parent is None else self.copied(event.parent),
            op=event.type,
            extra=self._source.extra(seq),
        )
        new = self._sink.append_copy(draft, self._received(event))
        self._new[seq] = new
        return new

    def _received(self, event: Event) -> tuple[Mark, ...]:
        if not self._is_sealed:
            return ()
        restored = self._source.restored(event, self._seal)
        self.unsealed += len(restored.absent)
        return _opened(event, restored)

    def append(self, draft: Draft) -> int:
        """Append a new event."""
        return self._sink.append(draft)

    def copied(self, seq: int) -> int | None:
        """The new seq of event ``seq``, None when it has not been copied."""
        return (self._new[seq] or None) if 0 < seq < len(self._new) else None

    def rest(
        self, wanted: Callable[[int], bool] = lambda _: True, fields: Data | None = None
    ) -> int:
        """Copy every remaining event that is ``wanted``, in order, and return their number.

        Stops at the first event that the sink refuses. The sink has already reported the reason.
        """
        count = 0
        for seq in range(1, len(self._new)):
            if self._new[seq] or not wanted(seq):
                continue
            if not self.copy(seq, fields):
                break
            count += 1
        return count


def _with(data: Data, fields: Data | None) -> Data:
    changed = {name for name in fields or () if data.get(name) != (fields or {})[name]}
    if not changed or fields is None:
        return data
    kept = {name: item for name, item in data.items() if name not in changed}
    return kept | {name: fields[name] for name in changed if fields[name] is not None}


def _opened(event: Event, restored: Restored) -> tuple[Mark, ...]:
    """The values that the key opened, where they stood."""
    marked = event.data.get("redacted")
    paths = marked if isinstance(marked, list) else ()
    return tuple(
        Mark(path, "sealed", lookup(restored.data, parse(path)))
        for path in paths
        if path not in restored.absent
    )


def _twice(seq: int) -> UsageError:
    return UsageError(
        f"event {seq} has been copied already", hint="an event of a recording is used once"
    )


class CopyOnWriteSink:
    """Sink that adds missing events to a recording, and leaves it untouched if there are none.

    ``sink`` has not been started. If there is a ``source`` (the old recording), the sink replaces
    it and redacts with its profile. Until the first new event, :meth:`copy` only remembers events.
    The first new event starts the sink and copies the remembered events; later events are written
    directly. Unused events are copied at the end if they ``is_kept``, with ``rest_fields`` of their
    data changed. The old recording stays unchanged until the new one is complete.

    The contract of :class:`reenact.store.sinks.base.Sink` applies with one exception: an unwritable path
    can be detected late. It is then a warning, and an error of :meth:`finalize`.
    """

    def __init__(
        self,
        sink: CopySink,
        source: SeekableSource | None = None,
        *,
        seal: Seal | None = None,
        warn: Warn = print_warning,
        is_kept: Callable[[Event], bool] = lambda _: True,
        rest_fields: Data | None = None,
    ) -> None:
        self._sink = sink
        self._old = source
        self._seal = seal
        self._warn = warn
        self._is_kept = is_kept
        self._rest_fields = rest_fields
        self._seed: Seed | None = None
        self._reader: SeekableSource | None = None
        self._copier: Copier | None = None
        self._order = array("Q")
        self._fields: dict[int, Data] = {}
        self._notes: deque[tuple[int, Draft]] = deque()
        self._flags: set[Flag] = set()
        self._used = bytearray()
        self._writing = False
        self._failure: str | None = None
        self._manifest: Manifest | None = None
        self._discarded = False
        self._forked = False
        self._lock = threading.Lock()

    def start(self, seed: Seed) -> None:
        """Start immediately without an old recording, otherwise store ``seed`` for later.

        The new recording uses the redaction profile of the old one.
        """
        if self._seed is not None:
            raise UsageError("this sink has been started already")
        if self._old is None:
            self._sink.start(seed)
            self._writing = True
        else:
            self._reader = self._old.reopen()
            self._used = bytearray(len(self._reader) + 1)
            seed = msgspec.structs.replace(seed, redaction=self._old.manifest().redaction)
        self._seed = seed
        watch_forks(self)

    def copy(self, seq: int, fields: Data | None = None) -> int:
        """Copy event ``seq`` of the old recording, which was used now, and return its new seq.

        ``fields`` of its data are changed as in :meth:`Copier.copy`. Raises :class:`UsageError` the
        second time and :class:`LookupError` for a missing event. In a forked child nothing happens,
        because the parent copies all unused events.
        """
        with self._lock:
            if not self._use(seq):
                return 0
            if self._copier is not None:
                return self._try_copy(self._copier, seq, fields)
            self._order.append(seq)
            if fields:
                self._fields[seq] = fields
            return len(self._order) + len(self._notes)

    def copy_inside(self, lane: str, first: int, stop: int) -> None:
        """Copy the events from ``first`` to before ``stop`` that are in ``lane`` or below it, and
        were not used; as they are, deliveries included."""
        with self._lock:
            inside = self._unused_below(f"{lane}.", range(first, min(stop, len(self._used))))
        for seq in inside:
            self.copy(seq)

    def _unused_below(self, below: str, seqs: range) -> list[int]:
        reader = self._reader
        if reader is None:
            return []
        unused = (seq for seq in seqs if not self._used[seq])
        return [seq for seq in unused if f"{reader.at(seq).lane}.".startswith(below)]

    def keep_of_rest(self, is_kept: Callable[[Event], bool], *, counts: bool) -> None:
        """Of what was not used, keep what ``is_kept``, as it is. ``counts``: the rest matters, so
        that there is something to write even if nothing is new."""
        self._is_kept, self._rest_fields = is_kept, None
        if counts and not self._writing:
            self._begin()

    def leave_out(self, seq: int) -> None:
        """Event ``seq`` of the old recording is not to be in the new one."""
        with self._lock:
            self._use(seq)

    def _use(self, seq: int) -> bool:
        """Mark ``seq``; False where that is not our business."""
        self._check_open()
        if self._forked or self._failure is not None:
            return False
        if not 0 < seq < len(self._used):
            raise LookupError(f"event {seq} of {max(len(self._used) - 1, 0)}")
        if self._used[seq]:
            raise _twice(seq)
        self._used[seq] = 1
        return True

    def note(self, event: Draft) -> int:
        """Append an event that is worth writing only if there are new ones, too. As long as there
        is none it has no seq, and 0 is returned."""
        with self._lock:
            self._check_open()
            if not self._writing:
                if self._failure is None and not self._forked:
                    self._notes.append((len(self._order), event))
                return 0
        return self._sink.append(event)

    def flag(self, flag: Flag) -> None:
        """Set a flag of the manifest, now or when the sink is started."""
        with self._lock:
            self._flags.add(flag)
            if self._writing:
                self._sink.flag(flag)

    def begin(self, event: Draft, position: int) -> Note | None:
        """Open a note for a call in progress, which counts as a new event."""
        if self._writing or self._begin():
            return self._sink.begin(event, position)
        return None

    def append(self, event: Draft) -> int:
        """Append a new event, after everything that was used before it."""
        if self._writing or self._begin():
            return self._sink.append(event)
        return 0

    def _begin(self) -> bool:
        """Get the sink to where new events go; False when they cannot be recorded."""
        with self._lock:
            self._check_open()
            if self._writing or self._failure is not None:
                return self._writing
            if self._forked:
                self._fail("this child was forked before there was anything to record")
                return False
            if self._seed is None or self._reader is None:
                return False
            self._writing = self._catch_up(self._seed, self._reader)
            return self._writing

    def _catch_up(self, seed: Seed, reader: SeekableSource) -> bool:
        """Start the sink and copy what was used so far."""
        try:
            self._sink.start(seed)
        except ReenactError as error:
            self._fail(error.message)
            return False
        for flag in self._flags:
            self._sink.flag(flag)
        copier = Copier(reader, self._sink, self._seal)
        self._write_remembered(copier)
        self._order, self._fields = array("Q"), {}
        self._copier = copier
        return self._failure is None

    def _write_remembered(self, copier: Copier) -> None:
        for place, seq in enumerate(self._order):
            self._write_notes(place)
            if not self._try_copy(copier, seq, self._fields.get(seq)):
                return
        self._write_notes(len(self._order))

    def _write_notes(self, place: int) -> None:
        while self._notes and self._notes[0][0] == place:
            self._sink.append(self._notes.popleft()[1])

    def _try_copy(self, copier: Copier, seq: int, fields: Data | None) -> int:
        try:
            return copier.copy(seq, fields)
        except ReenactError as error:
            self._fail(error.message)
            return 0

    def _fail(self, reason: str) -> None:
        """From here on nothing counts; another thread may still be appending."""
        self._failure = reason
        self._writing = False
        self._warn(f"{reason}; the program continues without being recorded")

    def _check_open(self) -> None:
        if self._seed is None:
            raise UsageError("start the sink before using it")
        if self._manifest is not None or self._discarded:
            raise SinkError("this recording is closed", hint="append before finalize")

    def finalize(self, status: Status = "ok", error: str | None = None) -> Manifest:
        """Copy what has not been used and close the new recording, or return the old manifest.

        Raises :class:`SinkUnwritable` when what was new could not be recorded.
        """
        with self._lock:
            if self._manifest is not None:
                return self._manifest
            self._check_open()
            if self._forked:
                self._sink.leave()
                raise SinkError("a forked child does not finalise its parent's recording")
            if self._copier is not None and self._failure is None:
                self._copy_rest(self._copier)
            if self._failure is not None:
                self._give_up()
                raise SinkUnwritable(
                    f"what was missing was not recorded: {self._failure}",
                    hint="the old recording is unchanged",
                )
            self._close_reader()
            if self._old is None or self._copier is not None:
                self._manifest = self._sink.finalize(status, error)
            else:
                self._sink.discard()  # an exception from outside may have come in _catch_up
                self._manifest = self._old.manifest()
            return self._manifest

    def _copy_rest(self, copier: Copier) -> None:
        if self._reader is None:  # done, and finalising is tried again
            return
        reader = self._reader
        try:
            copier.rest(
                lambda seq: not self._used[seq] and self._is_kept(reader.at(seq)), self._rest_fields
            )
        except ReenactError as error:
            self._fail(error.message)
        if copier.unsealed:
            self._warn(
                f"{copier.unsealed} sealed value(s) of the old recording are lost, because the key "
                "is not at hand; a replay sees the placeholder instead"
            )

    def leave(self) -> None:
        """In a forked child: this process has no more to add."""
        self._sink.leave()

    def after_fork(self) -> None:
        """Mark this process as a forked child. The sink handles the fork itself once it has been
        started.
        """
        if self._manifest is None and not self._discarded:
            self._forked = True
            self._lock = threading.Lock()

    def discard(self) -> None:
        """Give up what is new; the old recording stays as it is."""
        if self._forked:
            self.leave()
            return
        with self._lock:
            if self._manifest is None and self._seed is not None:
                self._give_up()

    def _give_up(self) -> None:
        self._discarded = True
        self._close_reader()
        self._sink.discard()

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class BranchSink:
    """Sink for a fork: copies the events of ``source`` before a point, then takes used and new
    ones.

    ``source`` is a separate reader, which the caller closes. Events before ``cut`` are copied
    unchanged at the start. ``cut`` is 0 in a process that joins a recording in which this has been
    done.
    """

    def __init__(
        self, sink: CopySink, source: SeekableSource, cut: int, *, seal: Seal | None = None
    ) -> None:
        self._sink = sink
        self._source = source
        self._cut = cut
        self._seal = seal
        self._copier: Copier | None = None
        watch_forks(self)

    def start(self, seed: Seed) -> None:
        """Start the sink, and copy what comes before the point."""
        self._sink.start(seed)
        copier = self._copier = Copier(self._source, self._sink, self._seal)
        for seq in range(1, self._cut):
            copier.copy(seq)

    def copy(self, seq: int, fields: Data | None = None) -> int:
        """Append event ``seq`` of ``source``, which was used after the fork point.

        Inner events of a tool are left out. :meth:`Copier.copy` describes ``fields``.
        """
        assert self._copier is not None
        return self._copier.copy(seq, {**(fields or {}), "inner": None})

    def leave_out(self, seq: int) -> None:
        """Do nothing: an event that is not copied is left out."""

    def note(self, event: Draft) -> int:
        """Append the event, because a fork always has new events."""
        return self._sink.append(event)

    def append(self, event: Draft) -> int:
        """Append a new event."""
        return self._sink.append(event)

    def begin(self, event: Draft, position: int) -> Note | None:
        """Open a note for a call in progress."""
        return self._sink.begin(event, position)

    def flag(self, flag: Flag) -> None:
        self._sink.flag(flag)

    def after_fork(self) -> None:
        """In a forked child: it reads with a reader of its own."""
        if self._copier is not None:
            self._source = self._source.reopen()
            self._copier = Copier(self._source, self._sink, self._seal)

    def finalize(self, status: Status = "ok", error: str | None = None) -> Manifest:
        return self._sink.finalize(status, error)

    def leave(self) -> None:
        self._sink.leave()

    def discard(self) -> None:
        self._sink.discard()
