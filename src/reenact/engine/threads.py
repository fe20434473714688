"""Giving every thread its lane when it is started.

Threads that are plumbing (the workers of an executor, asyncio's own helpers) take no number: how
many there are depends on timing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any

from reenact.engine.current import OUTSIDE, VARIABLE, current
from reenact.engine.lanes import Lane
from reenact.engine.patches import Patch
from reenact.engine.waits import starting

if TYPE_CHECKING:
    from reenact.engine.conductor import Conductor
    from reenact.engine.session import Session

__all__ = ["PLUMBING", "is_within", "thread_patches"]

_OURS = ("reenact",)
PLUMBING = (
    "asyncio",
    "concurrent.futures",
    "multiprocessing",
    "anyio._backends",
    "logging",
    *_OURS,
)
"""Packages whose threads and tasks do nothing that the program has asked for by itself."""


def thread_patches() -> list[Patch]:
    """The patches of this module."""
    return [Patch(threading.Thread, "start", _start)]


def _start(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def start(self: Any) -> None:
        session = current()
        apart = VARIABLE.get() is OUTSIDE
        if (session is None and not apart) or not _can_start(self):
            original(self)
        elif session is None or _is_of(self, PLUMBING):
            _start_outside(original, self, session)
        else:
            _start_in_lane(original, self, session, session.lanes.spawn())

    return start


def _can_start(thread: Any) -> bool:
    """Otherwise starting it raises, and nothing is spawned."""
    return getattr(thread, "_initialized", False) and thread.ident is None


def _is_of(thread: Any, packages: tuple[str, ...]) -> bool:
    """Is ``thread`` one of ``packages``, or does it run code of theirs? A function of ours may be
    what the program wants to be run (``Thread(target=session.call)``): threads of our own have
    classes of their own."""
    if is_within(type(thread).__module__, packages):
        return True
    target = getattr(getattr(thread, "_target", None), "__module__", None) or ""
    return is_within(target, packages) and not is_within(target, _OURS)


def is_within(module: str, packages: tuple[str, ...]) -> bool:
    """Is ``module`` one of ``packages``, or in one of them?"""
    return any(module == name or module.startswith(f"{name}.") for name in packages)


def _start_outside(original: Callable[..., Any], thread: Any, session: Session | None) -> None:
    """``thread`` is in no session, whatever the process has. Who joins it may be."""
    conductor = None if session is None or _is_of(thread, _OURS) else session.conductor
    # A loop that waits for one of its own threads is not cut off.
    helps = conductor is not None and _is_of(thread, ("asyncio",))

    def run_outside(run: Callable[[], None]) -> None:
        VARIABLE.set(OUTSIDE)
        try:
            run()
        finally:
            if conductor is not None:
                conductor.thread_ended(thread)
                if helps:
                    conductor.helper_goes()

    if conductor is not None and helps:
        conductor.helper_comes()
    _start_as(original, thread, run_outside, conductor)


def _start_in_lane(original: Callable[..., Any], thread: Any, session: Session, lane: Lane) -> None:
    conductor = session.conductor

    def run_in_lane(run: Callable[[], None]) -> None:
        turn.wait()
        conductor.job_begins(lane)
        VARIABLE.set(session)
        try:
            with session.lanes.inside(lane):
                run()
        finally:
            conductor.lane_ends(lane)
            conductor.job_ends(thread)

    turn = conductor.thread_waits(lane, thread)
    try:
        _start_as(original, thread, run_in_lane, conductor)
    except BaseException:
        conductor.job_dropped(lane, thread)
        raise


def _start_as(
    original: Callable[..., Any],
    thread: Any,
    run: Callable[[Callable[[], None]], None],
    conductor: Conductor | None,
) -> None:
    """Start ``thread`` with ``run(its own run)``. Nothing of that stays with it."""
    own, had = thread.run, vars(thread).get("run")

    def restore() -> None:
        if had is None:
            vars(thread).pop("run", None)
        else:
            thread.run = had

    def run_once() -> None:
        restore()
        run(own)

    thread.run = run_once
    try:
        with starting(), nullcontext() if conductor is None else conductor.thread_starts():
            original(thread)
    except BaseException:
        restore()
        raise
