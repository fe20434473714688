"""The folder of a server, and whose it is."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reenact.errors import UsageError

__all__ = ["folder_of"]


@contextmanager
def folder_of(data: Path, *, alone: bool) -> Iterator[None]:
    """``data``, made where it is missing. ``alone``: no other server uses it until the block ends.
    Otherwise others may, if they are not alone either. Raises :class:`UsageError`."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(
            f"{data} cannot be used: {error.strerror}", hint="name another folder with --data"
        ) from None
    try:
        _lock(fd, data, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


def _lock(fd: int, data: Path, kind: int) -> None:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(
            f"another server uses {data}", hint="stop it, or name another folder with --data"
        ) from None
