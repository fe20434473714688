"""The descriptors that a recording holds for long.

A program that makes itself a daemon closes every descriptor there is, and its own files then get
the numbers of ours. So sessions keep it from closing these.
"""

from __future__ import annotations

import os

__all__ = ["close", "forget", "held_between", "hold", "is_held"]

_close = os.close  # before a session makes it the program's
_held: set[int] = set()


def hold(fd: int) -> int:
    """``fd`` is ours from now on. Returns it."""
    _held.add(fd)
    return fd


def is_held(fd: int) -> bool:
    """Is ``fd`` one of ours?"""
    return fd in _held


def held_between(low: int, high: int) -> list[int]:
    """Those of ours from ``low`` to before ``high``, in order."""
    return sorted(fd for fd in _held if low <= fd < high)


def forget(fd: int) -> None:
    """``fd`` is about to be closed by its file object."""
    _held.discard(fd)


def close(fd: int) -> None:
    """Close ``fd``, which may be one of ours."""
    _held.discard(fd)
    _close(fd)
