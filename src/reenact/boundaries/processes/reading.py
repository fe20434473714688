"""The files from which a program reads what its process says: reading is waiting.

Without them all works the same, only slower: a thread that waits in a system call counts as at rest
after a few milliseconds, one that says so at once.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any, Final

from reenact.boundaries.processes.account import NAMES
from reenact.boundaries.processes.descriptors import is_readable
from reenact.boundaries.processes.relay import Relay

__all__ = ["watch"]

_DEEP: Final = 8
_PIECE: Final = 65_536


class _Watched(io.FileIO):
    """Tells the relay of its process before it waits."""

    relay: Relay
    stream: int

    def _wait(self) -> AbstractContextManager[None]:
        if is_readable(self.fileno()):
            return nullcontext()
        return self.relay.reading(self.stream)

    def readinto(self, buffer: Any, /) -> Any:
        with self._wait():
            return super().readinto(buffer)

    def readall(self) -> Any:
        pieces = []
        while piece := self.read(_PIECE):
            pieces.append(piece)
        return b"".join(pieces)

    def read(self, size: int | None = -1, /) -> Any:
        if size is None or size < 0:
            return self.readall()
        with self._wait():
            return super().read(size)


_Watched.__name__ = _Watched.__qualname__ = "FileIO"  # as people see it in a repr


def watch(process: Any, relay: Relay) -> None:
    """The program is going to read from ``process``, which is being made."""
    size = _buffer_size(process)
    for stream, name in NAMES.items():
        file = getattr(process, name)
        if file is not None:
            setattr(process, name, _watched(file, size, relay, stream))
            file.close()


def _watched(file: Any, size: int, relay: Relay, stream: int) -> Any:
    raw = _Watched(os.dup(file.fileno()), "rb")
    raw.relay, raw.stream = relay, stream
    if isinstance(file, io.RawIOBase):
        return raw
    buffered = io.BufferedReader(raw, size) if size > 1 else io.BufferedReader(raw)
    if not isinstance(file, io.TextIOWrapper):
        return buffered
    return io.TextIOWrapper(buffered, encoding=file.encoding, errors=file.errors)


def _buffer_size(process: Any) -> int:
    """What its maker was told: nothing keeps it."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_DEEP):
        if frame is None:
            break
        if frame.f_locals.get("self") is process and "bufsize" in frame.f_locals:
            found: int = frame.f_locals["bufsize"]
            return found
        frame = frame.f_back
    return -1
