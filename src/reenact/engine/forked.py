"""A session in processes that are forked or started while it is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

from reenact.engine.assembling import make_script
from reenact.engine.closing import closing_patches
from reenact.engine.jobs import job_patches
from reenact.engine.lanes import Lane
from reenact.engine.patches import Installable, LatePatches, Patches
from reenact.engine.recorded_lanes import RecordedLanes
from reenact.engine.script import Events, Script
from reenact.engine.stopped import stopped_patches
from reenact.engine.threads import thread_patches
from reenact.engine.under_way import UnderWay
from reenact.engine.waits import wait_patches

__all__ = ["Forked", "keep_patches"]


def _of_asyncio(module: ModuleType) -> list[Installable]:
    from reenact.engine.spawning import task_patches
    from reenact.engine.tasks import OrderedCoroutines
    from reenact.engine.timers import timer_patches

    return [*task_patches(), *timer_patches(), OrderedCoroutines()]


_PATCHES = Patches(
    lambda: [
        *thread_patches(),
        *job_patches(),
        *wait_patches(),
        *closing_patches(),
        *stopped_patches(),
        LatePatches("asyncio", _of_asyncio),
    ]
)


def keep_patches(boundaries: Patches) -> None:
    """Install what sessions install, in their order, for as long as the process lives."""
    for patches in (_PATCHES, boundaries):
        patches.acquire()


class Forked(UnderWay):
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
        self._under_way.clear()
        self._deferred.clear()
        self._desks.clear()
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
        self.conductor.after_fork()

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

    def _script_of(self, lane: str, events: Events | None = None) -> Script:
        assert self._parts is not None
        script = make_script(self.settings, self._parts, lane, events)
        assert script is not None
        return script

    def _read(self, script: Script) -> None:
        """From now on what is asked for is in ``script``."""
        self.machine.read_from(script)
        if self.conductor.order is not None:
            self.conductor.order = script.order
        if self.branching is not None:
            self.look_for_point()

    def look_for_point(self) -> None:
        """Is nothing left to be enacted here of a run that is forked elsewhere?"""
        with self.lock:
            self.conductor.look_for_limit()

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

    def _patches(self) -> list[Patches]:
        own = self.settings.boundaries
        if own is None:
            return [_PATCHES]
        contains = self.mode == "replay" or self.settings.refuses_drivers
        if not contains or own.in_replay is None:
            return [_PATCHES, own]
        # Last, and so first to be removed: they wrap what the others have put in place.
        return [_PATCHES, own, own.in_replay]
