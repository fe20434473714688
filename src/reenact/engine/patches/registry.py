"""Registry of all patches of the interpreter and the standard library.

One table: each group names the area, the reason, the module that has to be imported before the group
is installed, and the function that makes its patches. ``reenact run
--explain-boundaries`` prints it. Patches of libraries belong to boundaries and are listed there.

Invariant: groups are installed in the order of the table and removed in reverse order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Final

import msgspec

from reenact.engine.patches.descriptor_guard import descriptor_patches
from reenact.engine.patches.patch import DeferredPatches, ListedPatch, PatchSet
from reenact.engine.patches.processes import termination_patches
from reenact.engine.patches.thread_pools import job_patches
from reenact.engine.patches.threads import thread_patches, wait_patches

__all__ = ["ENGINE_PATCHES", "PATCH_GROUPS", "PatchGroup"]


class PatchGroup(msgspec.Struct, frozen=True):
    """Patches of one area of the interpreter."""

    name: str
    reason: str
    make: Callable[[ModuleType], Sequence[ListedPatch]]
    module: str
    """The module that ``make`` is called with, as soon as the program has imported it."""

    def places(self) -> list[str]:
        """Return the dotted names that the group replaces. Imports the module."""
        return [place for patch in self.make(import_module(self.module)) for place in patch.places]


def _thread_executors(module: ModuleType) -> Sequence[ListedPatch]:
    from reenact.engine.patches.executors import thread_executor_patches

    return thread_executor_patches(module)


def _process_executors(module: ModuleType) -> Sequence[ListedPatch]:
    from reenact.engine.patches.executors import process_patches

    return process_patches(module)


def _process_pools(module: ModuleType) -> Sequence[ListedPatch]:
    from reenact.engine.patches.process_pools import pool_patches

    return pool_patches(module)


def _event_loops(module: ModuleType) -> Sequence[ListedPatch]:
    from reenact.engine.patches.event_loop import OrderedCoroutines, task_patches, timer_patches

    return [*task_patches(), *timer_patches(), OrderedCoroutines()]


PATCH_GROUPS: Final = (
    PatchGroup("threads", "a started thread gets a lane", lambda _: thread_patches(), "threading"),
    PatchGroup(
        "thread executors",
        "a submitted job gets a lane",
        _thread_executors,
        "concurrent.futures.thread",
    ),
    PatchGroup(
        "process executors",
        "a job in a worker process gets a lane",
        _process_executors,
        "concurrent.futures.process",
    ),
    PatchGroup(
        "process pools",
        "a job in a worker process gets a lane",
        _process_pools,
        "multiprocessing.pool",
    ),
    PatchGroup("thread pools", "a job gets a lane", lambda _: job_patches(), "threading"),
    PatchGroup(
        "waits", "wake-ups follow the recorded order", lambda _: wait_patches(), "threading"
    ),
    PatchGroup(
        "descriptors",
        "the program cannot close the files of a recording",
        lambda _: descriptor_patches(),
        "os",
    ),
    PatchGroup(
        "termination",
        "the end of a worker process is a delivery",
        lambda _: termination_patches(),
        "os",
    ),
    PatchGroup(
        "event loops",
        "a task gets a lane, and timers follow the recorded order",
        _event_loops,
        "asyncio",
    ),
)
"""All patches of the engine, in the order of installation."""

ENGINE_PATCHES: Final = PatchSet(
    lambda: [DeferredPatches(group.module, group.make) for group in PATCH_GROUPS]
)
