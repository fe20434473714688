"""How files of a recording are opened and created.

Only regular files are read: a FIFO would block for ever and a device can act when it is opened, so
both are refused before that. Files and folders are created for their owner alone, whatever the umask.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from reenact.errors import RecordingDamaged

__all__ = [
    "PRIVATE_FILE",
    "PRIVATE_FOLDER",
    "create_private",
    "make_private_folder",
    "open_regular",
    "read_regular",
    "regular_descriptor",
    "write_private",
]

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700

_KINDS: Final = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def regular_descriptor(path: Path) -> int:
    """Open a regular file for reading. A symbolic link is followed.

    Raises OSError, and :class:`RecordingDamaged` for anything that is neither a file nor a folder.
    """
    _check(path, os.stat(path).st_mode)
    # It can have been replaced since: opening it does not wait, and the descriptor is checked again.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _check(path, os.fstat(fd).st_mode)
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_regular(path: Path, buffering: int = -1) -> BinaryIO:
    """Open a regular file for reading. Raises as :func:`regular_descriptor`."""
    fd = regular_descriptor(path)
    try:
        return open(fd, "rb", buffering=buffering)
    except BaseException:
        os.close(fd)
        raise


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file. Raises as :func:`regular_descriptor`."""
    with open_regular(path, 0) as file:
        return file.read()


def _check(path: Path, mode: int) -> None:
    for is_kind, name in _KINDS:
        if is_kind(mode):
            raise RecordingDamaged(
                f"{path} is {name}, expected a regular file",
                place=f"file {path.name}",
                hint="do not trust this recording; get another copy",
            )


def create_private(path: Path | str, flags: int = os.O_TRUNC) -> int:
    """Create a file that its owner alone can read, and return its descriptor for writing."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, PRIVATE_FILE)


def write_private(path: Path | str, content: bytes) -> None:
    """Write a file that its owner alone can read. A file that is already there keeps its mode."""
    with open(create_private(path), "wb") as file:
        file.write(content)


def make_private_folder(path: Path, *, exist_ok: bool = True) -> None:
    """Create a folder that its owner alone can enter. Missing parents get the usual mode."""
    path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=exist_ok)
