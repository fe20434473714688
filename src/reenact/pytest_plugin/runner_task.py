"""Tests of anyio's pytest plugin, which run in a task of its own.

That task may be older than the session, when a fixture of the module or of the whole run has needed
it. What runs in it for a test is in the session of the test and in the lane of who waits for it,
whoever made it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from reenact.engine.lanes import Lane
from reenact.engine.patches.patch import DeferredPatch
from reenact.engine.session.context import VARIABLE
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.errors import DivergenceError

__all__ = ["runner_patch"]


def runner_patch() -> DeferredPatch:
    """The patch of the one place where everything passes."""
    return DeferredPatch(
        "anyio._backends._asyncio", lambda module: module.TestRunner, "_call_in_runner_task", _call
    )


class _Diverged:
    """A divergence on its way out of the task, which it would end: the fixtures need it still."""

    def __init__(self, error: DivergenceError) -> None:
        self.error = error


def _call(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    async def call(self: Any, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None:
            return await original(self, func, *args, **kwargs)
        inside = partial(_in_session, session, session.lanes.current(), func)
        with session.lanes.apart():  # making the task is not what the test does
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
