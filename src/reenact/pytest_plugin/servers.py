"""Servers that fixtures start inside the test process.

They are part of what is tested. What a test asks them stays inside the program: it is not recorded,
and is asked again in a replay, where their ports are other ones.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from reenact.engine.patches.patch import Patch
from reenact.hermetic.endpoints import remember_bound

__all__ = ["noticing_servers"]


@contextmanager
def noticing_servers() -> Iterator[None]:
    """Until the end, ports that are bound are known as ours, in a session and outside of any."""
    # Some replace the class by one of their own, which has this one as its base.
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
