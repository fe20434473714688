"""Patches that are active while a test has a session."""

from __future__ import annotations

import importlib._bootstrap
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

from reenact.engine.lanes import Lane
from reenact.engine.patches.patch import DeferredPatch, Installable, Patch
from reenact.engine.session.context import OUTSIDE, VARIABLE
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.errors import DivergenceError
from reenact.hermetic.endpoints import remember_bound

__all__ = ["FreezingPatch", "import_patch", "make_patches", "noticing_servers", "runner_patch"]


def make_patches() -> list[Installable]:
    """Return the patches, not installed. Install them after the session was opened."""
    return [import_patch(), runner_patch(), FreezingPatch()]


_PREFIX = "real_"


class FreezingPatch:
    """Patch that lets freezegun read the clocks of the session.

    It replaces ``real_time`` and similar names with the functions of ``time``, which the session
    has patched. It does nothing if freezegun is not imported.
    """

    def __init__(self) -> None:
        self._names: dict[str, Any] = {}
        self._before: dict[str, Any] = {}

    def install(self) -> None:
        api = sys.modules.get("freezegun.api")
        if api is not None:
            self._names = vars(api)
            self._before = {name: value for name, value in self._names.items() if _now(name)}
            self._names.update({name: _now(name) for name in self._before})

    def remove(self) -> None:
        self._names.update(self._before)


def _now(name: str) -> Any:
    """Return the function of ``time`` for a name such as ``real_time``; None for other names."""
    home, _, function = name.partition(_PREFIX)
    found = None if home else getattr(time, function, None)
    return found if callable(found) else None


def import_patch() -> Patch:
    """Return a patch that loads modules outside the session."""
    return Patch(importlib._bootstrap, "_load_unlocked", _load)


def _load(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def load(spec: Any) -> Any:
        if current() is None:
            return original(spec)
        token = VARIABLE.set(OUTSIDE)
        try:
            return original(spec)
        finally:
            VARIABLE.reset(token)

    return load


def runner_patch() -> DeferredPatch:
    """Return the patch of anyio's test runner, through which all its tests and fixtures run."""
    return DeferredPatch(
        "anyio._backends._asyncio", lambda module: module.TestRunner, "_call_in_runner_task", _call
    )


class _Diverged:
    """Divergence as a result.

    An exception would end the task of the runner, which fixtures still need.
    """

    def __init__(self, error: DivergenceError) -> None:
        self.error = error


def _call(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    async def call(self: Any, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None:
            return await original(self, func, *args, **kwargs)
        inside = partial(_in_session, session, session.lanes.current(), func)
        with session.lanes.apart():  # creating the task is not an action of the test
            found = await original(self, inside, *args, **kwargs)
        if isinstance(found, _Diverged):
            raise found.error
        return found

    return call


async def _in_session(
    session: Session, lane: Lane, func: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    token = VARIABLE.set(session)
    try:
        with session.lanes.inside(lane):
            return await func(*args, **kwargs)
    except DivergenceError as error:
        return _Diverged(error)
    finally:
        VARIABLE.reset(token)


@contextmanager
def noticing_servers() -> Iterator[None]:
    """Track the ports that this process binds, inside and outside of sessions."""
    # Libraries can replace `socket.socket` with a subclass.
    home = next(one for one in socket.socket.__mro__ if one.__module__ == "socket")
    patch = Patch(home, "bind", _bind)
    patch.install()
    try:
        yield
    finally:
        patch.remove()


def _bind(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def bind(self: Any, address: Any) -> Any:
        done = original(self, address)
        remember_bound(self, address)
        return done

    return bind
