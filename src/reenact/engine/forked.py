"""A session in processes that are forked or started while it is open."""

from __future__ import annotations

from types import ModuleType

from reenact.engine.assembling import make_script
from reenact.engine.closing import closing_patches
from reenact.engine.jobs import job_patches
from reenact.engine.lanes import Lane
from reenact.engine.patches import Installable, LatePatches, Patches
from reenact.engine.threads import thread_patches
from reenact.engine.under_way import UnderWay
from reenact.engine.waits import wait_patches

__all__ = ["Forked"]


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
        LatePatches("asyncio", _of_asyncio),
    ]
)


class Forked(UnderWay):
    """The fourth layer of a session: what it has patched, and what becomes of it in a child."""

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
        return self.lanes.spawn()

    def child_was_forked(self, lane: Lane) -> None:
        """In the parent: what is under ``lane`` is the child's business."""
        if self.machine.script is not None:
            self.machine.script.leave_to_child(lane.name)

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
        self.lanes.after_fork(lane)
        self.conductor.after_fork()
        parts = self._parts
        if parts is not None and parts.source is not None and self.machine.script is not None:
            parts.source = parts.source.reopen()
            script = make_script(self.settings, parts, lane.name)
            assert script is not None
            self.machine.read_from(script)
            if self.conductor.order is not None:
                self.conductor.order = script.order

    def _patches(self) -> list[Patches]:
        own = self.settings.boundaries
        return [_PATCHES] if own is None else [_PATCHES, own]
