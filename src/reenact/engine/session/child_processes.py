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
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from reenact.engine.decision.machine import Machine
from reenact.engine.draws import Draws
from reenact.engine.lanes import Lane, Lanes
from reenact.engine.patches.patch import PatchSet
from reenact.engine.patches.registry import ENGINE_PATCHES
from reenact.engine.recording.recorder import Recorder
from reenact.engine.scheduling.scheduler import Scheduler
from reenact.engine.session.context import current
from reenact.engine.session.factory import make_script
from reenact.engine.session.in_flight import InFlightCalls
from reenact.engine.session.resources import SessionResources
from reenact.engine.session.settings import Settings
from reenact.format.event import Event
from reenact.store.log import forget_syncers, pause_syncers

if TYPE_CHECKING:
    from reenact.engine.decision.recorded_calls import EventReader, RecordedCalls
    from reenact.engine.fork.forked_run import ForkedRun
    from reenact.store.source import SeekableSource

__all__ = [
    "ChildProcesses",
    "LaneEvents",
    "RecordedLanes",
    "install_patches_permanently",
    "session_patches",
    "watch_forks",
]


class ParentSession(Protocol):
    """Parts of a session that its child processes use."""

    children: ChildProcesses
    draws: Draws
    fork: ForkedRun | None
    in_flight: InFlightCalls
    lanes: Lanes
    lock: RLock
    machine: Machine
    recorder: Recorder
    resources: SessionResources | None
    scheduler: Scheduler
    settings: Settings
    writes: bool

    @property
    def is_active(self) -> bool: ...
    def after_fork(self) -> None: ...
    def look_for_fork_point(self) -> None: ...


_open: WeakSet[ParentSession] = WeakSet()
_guard = threading.Lock()
_forking = threading.local()
"""Sessions and lanes that this thread holds during a fork. Two threads can fork at once."""

_hooked = False


def watch_forks(session: ParentSession) -> None:
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
    """Lock every session and number the child's lane in program order."""
    here = current()
    held: list[tuple[ParentSession, Lane | None]] = []
    _guard.acquire()
    for session in list(_open):
        session.lock.acquire()
        takes_part = session is here and session.is_active
        held.append((session, session.children.spawn() if takes_part else None))
    pause_syncers()
    _forking.held = held


def _held() -> list[tuple[ParentSession, Lane | None]]:
    held: list[tuple[ParentSession, Lane | None]] = _forking.held
    _forking.held = []
    _guard.release()
    return held


def _after_in_parent() -> None:
    for session, lane in _held():
        if lane is not None:
            session.children.was_forked(lane)
        session.lock.release()


def _after_in_child() -> None:
    forget_syncers()
    for session, lane in _held():
        session.children.become(lane)
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
    """Events by lane, indexed once so that no job reads the events of others.

    ``source`` is the reader of this process.
    """

    def __init__(self, source: SeekableSource) -> None:
        self._source = source
        self._seqs: defaultdict[str, list[int]] = defaultdict(list)
        for event in source:
            self._seqs[event.lane].append(event.seq)
        self._names = sorted(self._seqs)

    def under(self, lane: str) -> LaneEvents:
        """Return the events of ``lane`` and of the lanes spawned there."""
        found = self._seqs.get(lane, []).copy()
        for name in self._below(lane):
            found += self._seqs[name]
        return LaneEvents(self._source, sorted(found))

    def longest_below(self, lane: str) -> str | None:
        """Return the child of ``lane`` with the most events, or None if no child has any."""
        sizes: defaultdict[str, int] = defaultdict(int)
        for name in self._below(lane):
            number = name.removeprefix(f"{lane}.").partition(".")[0]
            sizes[f"{lane}.{number}"] += len(self._seqs[name])
        return max(sizes, key=lambda name: sizes[name], default=None)

    def _below(self, lane: str) -> list[str]:
        start = bisect_left(self._names, f"{lane}.")
        return self._names[start : bisect_left(self._names, f"{lane}{_AFTER_DOT}")]


def session_patches(settings: Settings, mode: str) -> list[PatchSet]:
    """Return the patches that a session with ``settings`` installs, in order of installation."""
    own = settings.boundaries
    if own is None:
        return [ENGINE_PATCHES]
    contains = mode == "replay" or settings.refuses_drivers
    if not contains or own.in_replay is None:
        return [ENGINE_PATCHES, own]
    # Last, and so first to be removed: they wrap what the others have installed.
    return [ENGINE_PATCHES, own, own.in_replay]


def install_patches_permanently(boundaries: PatchSet) -> None:
    """Install the patches of a session for the lifetime of the process."""
    for patches in (ENGINE_PATCHES, boundaries):
        patches.acquire()


class ChildProcesses:
    """Lanes and recorded calls of forked and started processes, for one session."""

    def __init__(self, session: ParentSession) -> None:
        self._session = session
        self._recorded: RecordedLanes | None = None

    def spawn(self) -> Lane:
        """Return the lane of a process that is about to start. The caller holds the lock.

        Everything the program has received so far is written first, so that it precedes the
        events of the process.
        """
        session = self._session
        if session.writes:
            session.in_flight.flush()
            session.draws.end(session.lanes.current())
            session.recorder.tell_run()
            if session.resources is not None and session.resources.share is not None:
                session.resources.share()
        return session.lanes.spawn()

    def was_forked(self, lane: Lane) -> None:
        """Skip the recorded events under ``lane`` in the parent: the child replays them."""
        session = self._session
        if session.machine.script is not None:
            session.machine.script.leave_to_child(lane.name)
            session.look_for_fork_point()

    def become(self, lane: Lane | None) -> None:
        """Continue in the forked child, in ``lane``; None if the child is not of the session."""
        session = self._session
        session.after_fork()
        if lane is None or not session.is_active:
            return
        session.machine.count_anew()
        self._recorded = None
        if session.resources is not None and session.resources.source is not None:
            session.resources.source = session.resources.source.reopen()
        if lane.pool is not None:
            lane = self.as_worker(lane, lane.pool)
        elif session.machine.script is not None:
            self._read(self._script_of(lane.name))
        session.lanes.after_fork(lane)
        session.scheduler.after_fork()

    def as_worker(self, lane: Lane, pool: str) -> Lane:
        """Return the lane of this process as a worker of ``pool``.

        In a replay that is the lane of the recorded worker with the most events.
        """
        if self._session.machine.script is None:
            return lane
        lanes = self._recorded_lanes()
        name = lanes.longest_below(pool) or lane.name
        self._read(self._script_of(name, lanes.under(name)))
        return Lane(name)

    def leave_to_workers(self, lane: Lane) -> None:
        """Accept in the parent that workers leave some events under ``lane`` unused."""
        if self._session.settings.ledger is not None:
            self._session.settings.ledger.stub(lane.name)

    @contextmanager
    def doing_job(self, name: str) -> Iterator[None]:
        """Run the block, in a worker process, as the job of lane ``name``."""
        session = self._session
        lane, own = Lane(name), session.machine.script
        session.draws.end(session.lanes.current())  # a worker can be killed after any job
        with session.lock:
            if own is not None:
                self._read(self._script_of(name, self._recorded_lanes().under(name)))
        try:
            with session.lanes.inside(lane):
                yield
        finally:
            if session.is_active:
                session.draws.end(lane)
            with session.lock:
                if own is not None:
                    self._read(own)

    def _recorded_lanes(self) -> RecordedLanes:
        if self._recorded is None:
            resources = self._session.resources
            assert resources is not None
            assert resources.source is not None
            self._recorded = RecordedLanes(resources.source)
        return self._recorded

    def _script_of(self, lane: str, events: EventReader | None = None) -> RecordedCalls:
        assert self._session.resources is not None
        script = make_script(self._session.settings, self._session.resources, lane, events)
        assert script is not None
        return script

    def _read(self, script: RecordedCalls) -> None:
        """Continue with the recorded calls of ``script``."""
        session = self._session
        session.machine.read_from(script)
        if session.scheduler.order is not None:
            session.scheduler.order = script.order
        if session.fork is not None:
            session.look_for_fork_point()
