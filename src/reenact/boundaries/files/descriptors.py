"""Files that are opened by ``os.open``: known by the numbers of their descriptors."""

from __future__ import annotations

import os
from typing import Any, Final

import msgspec

from reenact.boundaries.files.noting import check_allowed
from reenact.boundaries.files.reading import open_for_reading
from reenact.boundaries.files.roots import Watched, watched
from reenact.boundaries.files.states import is_regular
from reenact.boundaries.files.writing import note_written
from reenact.boundaries.rebinding import like_builtin

__all__ = ["standing_in_close", "standing_in_open", "take_over"]

_fstat = os.fstat
_CHANGES: Final = os.O_WRONLY | os.O_RDWR | os.O_TRUNC


class _Open(msgspec.Struct, frozen=True):
    """A file that was opened to be written. ``inode`` tells it from a later one that has the same
    number, should it have been closed without us."""

    file: Watched
    inode: tuple[int, int]


_open: dict[int, _Open] = {}


def standing_in_open(original: Any) -> Any:
    """``os.open``."""

    def open(_: Any, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        def opening() -> int:
            return int(original(path, flags, mode, dir_fd=dir_fd))

        file = watched(path, 1, dir_fd)
        if file is None:
            return opening()
        if flags & _CHANGES:
            check_allowed(file, "file_write")
            fd = opening()
            if flags & os.O_RDWR and not flags & os.O_TRUNC:
                open_for_reading(file, lambda: fd, _itself)
            if is_regular(fd):
                _open[fd] = _Open(file, _inode(fd))
            return fd
        return open_for_reading(file, opening, _itself, _itself)

    return like_builtin(open, original)


def _itself(fd: int) -> int:
    return fd


def standing_in_close(original: Any) -> Any:
    """``os.close``."""

    def close(_: Any, fd: Any) -> None:
        file = take_over(fd)
        original(fd)
        if file is not None:
            note_written(file)

    return like_builtin(close, original)


def take_over(fd: Any) -> Watched | None:
    """The file that was opened as ``fd`` to be written, if there is one. It is forgotten: whoever
    asks notes what is written to it."""
    known = _open.pop(fd, None) if isinstance(fd, int) else None
    if known is None:
        return None
    try:
        return known.file if _inode(fd) == known.inode else None
    except OSError:
        return None


def _inode(fd: int) -> tuple[int, int]:
    found = _fstat(fd)
    return found.st_dev, found.st_ino
