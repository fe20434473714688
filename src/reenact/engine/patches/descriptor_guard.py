"""Patches of ``os.close`` and ``os.closerange`` that protect Reenact's file descriptors.

Some programs, such as daemons, close descriptors that they have not opened.

Invariant: a descriptor of a recording looks closed to the program (``EBADF``) and stays open.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import wraps
from typing import Any

from reenact.engine.patches.patch import Patch
from reenact.store.files import held_descriptors, is_held_descriptor

__all__ = ["descriptor_patches"]


def descriptor_patches() -> list[Patch]:
    """The patches of this module."""
    return [Patch(os, "close", _close), Patch(os, "closerange", _closerange)]


def _close(original: Callable[[int], None]) -> Callable[[int], None]:
    @wraps(original)
    def close(fd: Any) -> None:
        if isinstance(fd, int) and is_held_descriptor(fd):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))  # what the program expects
        original(fd)

    return close


def _closerange(original: Callable[[int, int], None]) -> Callable[[int, int], None]:
    @wraps(original)
    def closerange(low: int, high: int) -> None:
        for fd in held_descriptors(low, high):
            original(low, fd)
            low = fd + 1
        original(low, high)

    return closerange
