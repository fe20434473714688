"""What is in a file: its digest and its size, read in pieces."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Any, Final

from reenact.format.event import Data

__all__ = ["Tally", "contents", "failure", "is_regular", "state_at", "state_of"]

_open, _pread, _fstat = open, os.pread, os.fstat
_PIECE: Final = 1 << 20


class Tally:
    """The digest and the size of what is written, as it comes."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._size = 0

    def add(self, data: Any) -> None:
        """``data``, bytes or what has the like inside, comes next."""
        self._hash.update(data)
        self._size += memoryview(data).nbytes

    def state(self) -> Data:
        """What has come so far."""
        return {"digest": f"sha256:{self._hash.hexdigest()}", "size": self._size}


def is_regular(fd: int) -> bool:
    """Is it a file, and not a folder, a pipe or a device?"""
    return stat.S_ISREG(_fstat(fd).st_mode)


def state_of(fd: int) -> Data:
    """What is in the file that is open, whatever has been read of it. Raises :class:`OSError`."""
    tally, at = Tally(), 0
    while piece := _pread(fd, _PIECE, at):
        tally.add(piece)
        at += len(piece)
    return tally.state()


def contents(fd: int) -> bytes:
    """All of it at once. Raises :class:`OSError`."""
    pieces, at = [], 0
    while piece := _pread(fd, _PIECE, at):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


def state_at(place: str) -> Data:
    """What is in the file ``place``, or why that is not known; nothing for what is no file."""
    try:
        if not stat.S_ISREG(os.stat(place).st_mode):
            return {}
        with _open(place, "rb") as file:
            return state_of(file.fileno())
    except OSError as error:
        return failure(error)


def failure(error: OSError) -> Data:
    """What a recording says of a file that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return {"missing": True}
    return {"error": type(error).__name__}
