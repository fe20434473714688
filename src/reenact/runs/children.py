"""Python processes that the program starts: each is told which lane it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from reenact.boundaries.processes.injection import inject_with
from reenact.engine.patches.patch import DeferredPatch
from reenact.engine.session.current import current
from reenact.errors import DivergenceError
from reenact.runs.places import print_place
from reenact.runs.plan import LANE, RUN

__all__ = ["INJECT", "child_patches", "is_multiprocessing", "joining_patch", "with_injection"]

INJECT = str(Path(__file__).with_name("inject"))
"""The folder that makes every Python on whose path it is start Reenact."""

_KEY = "reenact_lane"
_FORKSERVER = "ignore"
"""What ``multiprocessing`` calls a process that only makes others."""


def with_injection(environ: dict[str, str], folder: str) -> dict[str, str]:
    """``environ`` for a process of the run of ``folder``."""
    paths = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if INJECT not in paths:
        paths.insert(0, INJECT)
    return {**environ, RUN: folder, "PYTHONPATH": os.pathsep.join(paths)}


def child_patches(folder: str) -> list[DeferredPatch]:
    """The patches that tell children of this process, which is one of the run of ``folder``, who
    they are."""
    inject_with(lambda environ, lane: {**with_injection(dict(environ), folder), LANE: lane})
    return [
        DeferredPatch(
            "multiprocessing.spawn", lambda module: module, "get_preparation_data", _preparing
        ),
        DeferredPatch(
            "multiprocessing.process", lambda module: module.BaseProcess, "_bootstrap", _running
        ),
    ]


def _running(original: Callable[..., int]) -> Callable[..., int]:
    """A process of multiprocessing prints whatever ends it. What differs is said once, at the end
    of the run: here only where that was."""

    @wraps(original)
    def bootstrap(self: Any, *args: Any, **kwargs: Any) -> int:
        run = self.run

        def run_quietly() -> None:
            try:
                run()
            except DivergenceError as error:
                print_place(error.__traceback__)
                raise SystemExit(1) from None

        self.run = run_quietly
        return original(self, *args, **kwargs)

    return bootstrap


def _preparing(original: Callable[..., Any]) -> Callable[..., Any]:
    """What a process of multiprocessing is told by its parent, when it is not forked."""

    @wraps(original)
    def get_preparation_data(*args: Any, **kwargs: Any) -> Any:
        data = original(*args, **kwargs)
        if args[:1] == (_FORKSERVER,):
            # It is in no session, and must not do what is the program's: its children do.
            for key in ("init_main_from_name", "init_main_from_path"):
                data.pop(key, None)
            return data
        session = current()
        if session is not None:
            with session.lock:
                lane = session.children.spawn()
                session.children.was_forked(lane)
            data[_KEY] = lane.name, lane.pool
        return data

    return get_preparation_data


def is_multiprocessing(argv: Sequence[str]) -> bool:
    """Is this a process that multiprocessing has started, and not forked?"""
    return any("from multiprocessing." in word for word in argv)


def joining_patch(begin: Callable[[str | None, str | None], None]) -> DeferredPatch:
    """``begin(lane, pool)`` as soon as this process learns from its parent what it is to do."""

    def preparing(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def prepare(data: Any) -> Any:
            begin(*data.pop(_KEY, (None, None)))
            return original(data)

        return prepare

    return DeferredPatch("multiprocessing.spawn", lambda module: module, "prepare", preparing)
