"""Connections of Reenact itself, which are no part of the program: an agent's to its server.

A replay of the whole process refuses what goes out past the boundaries, in every thread. These are
exempt, while they are being made, in the thread that makes them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["connecting", "is_own"]


class _Here(threading.local):
    depth = 0


_here = _Here()


@contextmanager
def connecting() -> Iterator[None]:
    """What this thread looks up and connects to in the block is ours. No code of the program may
    run in it."""
    _here.depth += 1
    try:
        yield
    finally:
        _here.depth -= 1


def is_own() -> bool:
    """Is this thread making a connection of our own?"""
    return _here.depth > 0
