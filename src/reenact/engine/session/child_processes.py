"""Sessions in child processes: ``os.fork``, started processes, and pool workers.

A forked child continues in a lane of its own, and its parent skips that lane in the recording.
Before a fork, the hook takes the lock of every open session, so no thread is in the middle of a
change, and the child's lane is numbered in program order. A worker process reads the recorded
events lane by lane, so no job reads the events of another one.

This is about operating system processes. Forks of a recorded run are in
:mod:`reenact.engine.fork`.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING
from weakref import WeakSet

from reenact.engine.decision.recorded_calls import EventReader, RecordedCalls
from reenact.engine.lanes import Lane
from reenact.engine.patches.descriptor_guard import descriptor_patches
from reenact.engine.patches.patch import DeferredPatches, Installable, PatchSet
from reenact.engine.patches.processes import termination_patches
from reenact.engine.patches.thread_pools import job_patches
from reenact.engine.patches.threads import thread_patches, wait_patches
from reenact.engine.session.context import current
from reenact.engine.session.resources import make_script
from reenact.engine.session.state import InFlightCalls
from reenact.format.event import Event
from reenact.store.log.writer import forget_syncers, pause_syncers

if TYPE_CHECKING:
    from reenact.engine.session.session import Session
    from reenact.store.source import SeekableSource

__all__ = [
    "LaneEvents",
    "ProcessForks",
    "RecordedLanes",
    "install_patches_permanently",
    "watch_forks",
]

_open: WeakSet[Session] = WeakSet()
_guard = threading.Lock()
_forking = threading.local()
"""What this thread, which is about to fork, holds: two threads may fork at the same time."""

_hooked = False


def watch_forks(session: Session) -> None:
    """Tell ``session`` about every fork while it is open."""
    global _hooked
    if not _hooked:
        _hooked = True
        os.register_at_fork(
            before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
        )
    with _guard:
        _open.add(session)


def _before() -> None:
    """Nobody is in the middle of anything, and the child's lane is taken in program order."""
    here = current()
    held: list[tuple[Session, Lane | None]] = []
    _guard.acquire()
    for session in list(_open):
        session.lock.acquire()
        takes_part = session is here and session.is_active
        held.append((session, session.spawn_process() if takes_part else None))
    pause_syncers()
    _forking.held = held


def _held() -> list[tuple[Session, Lane | None]]:
    held: list[tuple[Session, Lane | None]] = _forking.held
    _forking.held = []
    _guard.release()
    return held


def _after_in_parent() -> None:
    for session, lane in _held():
        if lane is not None:
            session.child_was_forked(lane)
        session.lock.release()


def _after_in_child() -> None:
    forget_syncers()
    for session, lane in _held():
        session.became_child(lane)
        session.lock.release()


_AFTER_DOT = chr(ord(".") + 1)


class LaneEvents:
    """Some events of a recording, in their order. See :class:`reenact.engine.decision.recorded_calls.EventReader`."""

    def __init__(self, source: SeekableSource, seqs: list[int]) -> None:
        self._source = source
        self._seqs = iter(seqs)

    def next(self) -> Event | None:
        seq = next(self._seqs, None)
        return None if seq is None else self._source.at(seq)

    def at(self, seq: int) -> Event:
        return self._source.at(seq)


class RecordedLanes:
    """Which events are in which lane: found out once, so that no job reads what others did.

    ``source`` is this process's own reader.
    """

    def __init__(self, source: SeekableSource) -> None:
        self._source = source
        self._seqs: defaultdict[str, list[int]] = defaultdict(list)
        for event in source:
            self._seqs[event.lane].append(event.seq)
        self._names = sorted(self._seqs)

    def under(self, lane: str) -> LaneEvents:
        """What was done in ``lane``, and in what was spawned there."""
        found = self._seqs.get(lane, []).copy()
        for name in self._below(lane):
            found += self._seqs[name]
        return LaneEvents(self._source, sorted(found))

    def longest_below(self, lane: str) -> str | None:
        """The child of ``lane`` that did most; None where none did anything."""
        sizes: defaultdict[str, int] = defaultdict(int)
        for name in self._below(lane):
            number = name.removeprefix(f"{lane}.").partition(".")[0]
            sizes[f"{lane}.{number}"] += len(self._seqs[name])
        return max(sizes, key=lambda name: sizes[name], default=None)

    def _below(self, lane: str) -> list[str]:
        start = bisect_left(self._names, f"{lane}.")
        return self._names[start : bisect_left(self._names, f"{lane}{_AFTER_DOT}")]


def _of_asyncio(module: ModuleType) -> list[Installable]:
    from reenact.engine.patches.event_loop import OrderedCoroutines, task_patches, timer_patches

    return [*task_patches(), *timer_patches(), OrderedCoroutines()]


_PATCHES = PatchSet(
    lambda: [
        *thread_patches(),
        *job_patches(),
        *wait_patches(),
        *descriptor_patches(),
        *termination_patches(),
        DeferredPatches("asyncio", _of_asyncio),
    ]
)


def install_patches_permanently(boundaries: PatchSet) -> None:
    """Install what sessions install, in their order, for as long as the process lives."""
    for patches in (_PATCHES, boundaries):
        patches.acquire()


class ProcessForks(InFlightCalls):
    """The fourth layer of a session: what it has patched, and what becomes of it in a child."""

    _recorded: RecordedLanes | None = None

    @property
    def is_active(self) -> bool:
        """Is it open, and does it do anything?"""
        return self._state == "open" and self.mode != "off"

    def spawn_process(self) -> Lane:
        """The lane of a process that is about to be started, with the lock held. What the program
        was handed so far stands in the log before anything that the process writes."""
        if self.writes:
            self._flush()
            self.draws.end(self.lanes.current())
            self.recorder.tell_run()
            if self._parts is not None and self._parts.share is not None:
                self._parts.share()
        return self.lanes.spawn()

    def child_was_forked(self, lane: Lane) -> None:
        """In the parent: what is under ``lane`` is the child's business."""
        if self.machine.script is not None:
            self.machine.script.leave_to_child(lane.name)
            self.look_for_point()

    def became_child(self, lane: Lane | None) -> None:
        """In the child: one thread is left, and none of the parent's calls is ours."""
        for patches in self._patches():
            patches.after_fork()
        self._in_flight.clear()
        self._deferred.clear()
        self._loop_schedulers.clear()
        if self._state == "open":
            self.draws.after_fork()
        if lane is None or self._state != "open":
            return
        self.machine.count_anew()
        self._recorded = None
        if self._parts is not None and self._parts.source is not None:
            self._parts.source = self._parts.source.reopen()
        if lane.pool is not None:
            lane = self._as_worker(lane, lane.pool)
        elif self.machine.script is not None:
            self._read(self._script_of(lane.name))
        self.lanes.after_fork(lane)
        self.scheduler.after_fork()

    def _as_worker(self, lane: Lane, pool: str) -> Lane:
        """This process works for ``pool``, in ``lane``; in a replay in that of the worker of which
        most is recorded."""
        if self.machine.script is None:
            return lane
        lanes = self._recorded_lanes()
        name = lanes.longest_below(pool) or lane.name
        self._read(self._script_of(name, lanes.under(name)))
        return Lane(name)

    def leave_to_workers(self, lane: Lane) -> None:
        """In the parent: how much of what is under ``lane`` is done is nobody's business."""
        if self.settings.ledger is not None:
            self.settings.ledger.stub(lane.name)

    @contextmanager
    def doing_job(self, name: str) -> Iterator[None]:
        """In a worker: what runs here is the job of lane ``name``, which another process gave."""
        lane, own = Lane(name), self.machine.script
        self.draws.end(self.lanes.current())  # a worker may be ended without a word after it
        with self.lock:
            if own is not None:
                self._read(self._script_of(name, self._recorded_lanes().under(name)))
        try:
            with self.lanes.inside(lane):
                yield
        finally:
            if self._state == "open":
                self.draws.end(lane)
            with self.lock:
                if own is not None:
                    self._read(own)

    def _recorded_lanes(self) -> RecordedLanes:
        if self._recorded is None:
            assert self._parts is not None
            assert self._parts.source is not None
            self._recorded = RecordedLanes(self._parts.source)
        return self._recorded

    def _script_of(self, lane: str, events: EventReader | None = None) -> RecordedCalls:
        assert self._parts is not None
        script = make_script(self.settings, self._parts, lane, events)
        assert script is not None
        return script

    def _read(self, script: RecordedCalls) -> None:
        """From now on what is asked for is in ``script``."""
        self.machine.read_from(script)
        if self.scheduler.order is not None:
            self.scheduler.order = script.order
        if self.fork is not None:
            self.look_for_point()

    def look_for_point(self) -> None:
        """Is nothing left to be enacted here of a run that is forked elsewhere?"""
        with self.lock:
            self.scheduler.look_for_limit()

    def keep_patches(self, *, in_replay: bool = False) -> Callable[[], None]:
        """Keep what sessions of every mode patch until the returned function is called, so that
        the next session opens in a tenth of the time. With ``in_replay`` also what replays patch."""
        own = self.settings.boundaries
        left_out = None if in_replay or own is None else own.in_replay
        kept = [one for one in self._patches() if self.mode != "off" and one is not left_out]
        for patches in kept:
            patches.acquire()

        def release() -> None:
            for patches in reversed(kept):
                patches.release()

        return release

    def _patches(self) -> list[PatchSet]:
        own = self.settings.boundaries
        if own is None:
            return [_PATCHES]
        contains = self.mode == "replay" or self.settings.refuses_drivers
        if not contains or own.in_replay is None:
            return [_PATCHES, own]
        # Last, and so first to be removed: they wrap what the others have put in place.
        return [_PATCHES, own, own.in_replay]
