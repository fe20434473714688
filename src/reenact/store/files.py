"""Small files written whole or not at all, and claims on files that end with their process."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from reenact.errors import SinkUnwritable
from reenact.store.file_access import PRIVATE_FILE, regular_descriptor
from reenact.store.log import sync_file

__all__ = [
    "alone_in",
    "claim",
    "claimed",
    "create_claimed",
    "holding",
    "replace_file",
    "size_of",
    "unwritable",
]


_CREATE: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_REPLACE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
_SHARED_FILE: Final = 0o666


def replace_file(path: Path, content: bytes, *, sync: bool = True, private: bool = True) -> None:
    """Write a temporary file, sync, rename. A ``private`` file is readable by its owner only."""
    beside = path.with_name(f"{path.name}.tmp")
    mode = PRIVATE_FILE if private else _SHARED_FILE
    try:
        with open(os.open(beside, _REPLACE, mode), "wb") as file:
            file.write(content)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    if sync:
        sync_file(path.parent)


def claim(fd: int) -> bool:
    """Take the exclusive lock on an open file; False when another process has it.

    The kernel frees it when the last copy of ``fd`` is closed, so a killed writer leaves none.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def create_claimed(path: Path) -> int:
    """Create a file that must not exist, open for appending, with its lock taken.

    The file is ours by its creation, so the lock is waited for: all that can hold it is somebody
    who just asks whether it is held.
    """
    fd = os.open(path, _CREATE, PRIVATE_FILE)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[bool]:
    """Hold the lock of a folder for the duration; yields False when another process has it."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield claim(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def holding(folder: Path, *, shared: bool) -> Iterator[None]:
    """Hold the lock of a folder for the duration; waits for it, so it must only be held briefly."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)  # a child that was forked meanwhile has a copy of it
        os.close(fd)


def claimed(path: Path) -> bool:
    """Does a living process hold the claim on ``path``?"""
    try:
        fd = regular_descriptor(path)
    except FileNotFoundError:
        return False
    try:
        return not claim(fd)
    finally:
        os.close(fd)


def size_of(folder: Path | str) -> int:
    """The bytes of all files below ``folder``. Raises OSError."""
    total = 0
    with os.scandir(folder) as found:
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                total += size_of(entry.path)
            else:
                total += entry.stat(follow_symlinks=False).st_size
    return total


def unwritable(path: Path, error: OSError | ValueError) -> SinkUnwritable:
    """The refusal for a place that cannot be written. (A name with a NUL is a ValueError.)"""
    reason = getattr(error, "strerror", None) or str(error)
    return SinkUnwritable(
        f"cannot write a recording at {path}: {reason}",
        hint="choose a place that exists, has room and is yours to write",
        errno=getattr(error, "errno", None),
    )
