"""Processes started by an event loop, which reads them and learns of their end itself.

This module imports asyncio, so :mod:`reenact.boundaries.processes.popen` must not import it: a program
without asyncio would import it, and with it ``logging``, before the session registers its exit handler.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from types import ModuleType
from typing import Any

from reenact.boundaries.processes.relay import relay_of
from reenact.engine.patches import unpatched_loop
from reenact.engine.patches.patch import Installable, Patch
from reenact.engine.session.context import VARIABLE, context_outside_sessions

__all__ = ["asyncio_patches"]


def asyncio_patches(module: ModuleType) -> list[Installable]:
    """The patches of the module ``asyncio.base_subprocess``."""
    transport = module.BaseSubprocessTransport
    return [
        Patch(transport, "_connect_pipes", _connect_pipes),
        Patch(transport, "_process_exited", _process_exited),
    ]


def _connect_pipes(original: Callable[..., Any]) -> Callable[..., Any]:
    """Open the relay after the pipes are connected, because a loop that does not read yet seems to
    be quiescent."""

    @wraps(original)
    def connect(self: Any, *args: Any) -> Coroutine[Any, Any, None]:
        relay = relay_of(self._pid)
        done: Coroutine[Any, Any, None] = original(self, *args)
        return done if relay is None else _then(done, relay.connected.open)

    return connect


async def _then(first: Coroutine[Any, Any, None], call: Callable[[], None]) -> None:
    try:
        await first
    finally:
        call()


def _process_exited(original: Callable[..., None]) -> Callable[..., None]:
    """Deliver the end of a process to the loop in its turn."""

    @wraps(original)
    def exited(self: Any, returncode: int) -> None:
        relay = relay_of(self._pid)
        if relay is None:
            original(self, returncode)
            return

        def tell() -> None:
            relay.forget()
            original(self, returncode)

        def later() -> None:
            # The next step belongs to the program: the loop is not quiescent before it has run.
            context = context_outside_sessions()
            context.run(VARIABLE.set, relay.session)
            unpatched_loop.post(self._loop, tell, context=context)

        waits = relay.when_ended(later)
        relay.is_reaped(returncode)
        if not waits:
            tell()

    return exited
