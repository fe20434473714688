"""Python processes that the program starts: each is told which lane it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from reenact.engine.current import current
from reenact.engine.patches import LatePatch
from reenact.runs.plan import LANE, RUN

__all__ = ["INJECT", "child_patches", "is_multiprocessing", "joining_patch", "with_injection"]

INJECT = str(Path(__file__).with_name("inject"))
"""The folder that makes every Python on whose path it is start Reenact."""

_KEY = "reenact_lane"


def with_injection(environ: dict[str, str], folder: str) -> dict[str, str]:
    """``environ`` for a process of the run of ``folder``."""
    paths = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if INJECT not in paths:
        paths.insert(0, INJECT)
    return {**environ, RUN: folder, "PYTHONPATH": os.pathsep.join(paths)}


def child_patches(folder: str) -> list[LatePatch]:
    """The patches that tell children of this process, which is one of the run of ``folder``, who
    they are."""
    return [
        LatePatch(
            "subprocess",
            lambda module: module.Popen,
            "__init__",
            lambda original: _popen(original, folder),
        ),
        LatePatch(
            "multiprocessing.spawn", lambda module: module, "get_preparation_data", _preparing
        ),
    ]


def _popen(original: Callable[..., Any], folder: str) -> Callable[..., Any]:
    from inspect import signature

    parameters = signature(original)

    @wraps(original)
    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        session = current()
        if session is None:
            original(self, *args, **kwargs)
            return
        bound = parameters.bind(self, *args, **kwargs)
        given = bound.arguments.get("env")
        environ = with_injection(dict(os.environ if given is None else given), folder)
        bound.arguments["env"] = {**environ, LANE: _child_lane(session)}
        original(*bound.args, **bound.kwargs)

    return start


def _child_lane(session: Any) -> str:
    with session.lock:
        lane = session.spawn_process()
        session.child_was_forked(lane)
        name: str = lane.name
    return name


def _preparing(original: Callable[..., Any]) -> Callable[..., Any]:
    """What a process of multiprocessing is told by its parent, when it is not forked."""

    @wraps(original)
    def get_preparation_data(*args: Any, **kwargs: Any) -> Any:
        data = original(*args, **kwargs)
        session = current()
        if session is not None:
            data[_KEY] = _child_lane(session)
        return data

    return get_preparation_data


def is_multiprocessing(argv: Sequence[str]) -> bool:
    """Is this a process that multiprocessing has started, and not forked?"""
    return any("from multiprocessing." in word for word in argv)


def joining_patch(begin: Callable[[str | None], None]) -> LatePatch:
    """``begin(lane)`` as soon as this process learns from its parent what it is to do."""

    def preparing(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def prepare(data: Any) -> Any:
            begin(data.pop(_KEY, None))
            return original(data)

        return prepare

    return LatePatch("multiprocessing.spawn", lambda module: module, "prepare", preparing)
