"""Data folder of a server: its lock and the seeds of its signing keys."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from reenact.errors import UsageError

__all__ = [
    "NEXT",
    "folder_of",
    "make_seed",
    "read_seed",
    "take_over",
]


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


NEXT: Final = ".next"
"""File name suffix of a key that is about to replace the current one."""
_SIZE: Final = 32


def make_seed(path: Path, secret: Callable[[int], bytes]) -> None:
    """Write a new seed, unless there is one from a set-up that was interrupted."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if path.exists():
        return
    beside = path.with_name(f"{path.name}.tmp")
    beside.unlink(missing_ok=True)
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(secret(_SIZE).hex().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)


def read_seed(path: Path) -> bytes:
    """Return the seed.

    Raises :class:`UsageError` if the file is missing, damaged or readable by others. No message
    contains the seed.
    """
    try:
        if path.stat().st_mode & 0o077:
            raise UsageError(f"others can read {path}", hint=f"chmod 600 {path}")
        seed = bytes.fromhex(path.read_text("ascii"))
    except OSError as error:
        raise UsageError(
            f"the key {path} cannot be read: {error.strerror}",
            hint="restore it from a copy; without it nothing can be signed",
        ) from None
    except ValueError:
        seed = b""
    if len(seed) != _SIZE:
        raise UsageError(f"{path} is not a key", hint="restore it from a copy")
    return seed


def take_over(path: Path, retired: str) -> None:
    """Replace the key at ``path`` by the new one next to it, and store the old one as
    ``<name>.<retired>``.

    It can be repeated after an interruption, also by several processes.
    """
    with contextlib.suppress(FileExistsError):
        os.link(path, path.with_name(f"{path.name}.{retired}"))
    with contextlib.suppress(FileNotFoundError):
        path.with_name(f"{path.name}{NEXT}").replace(path)
