"""Pipes and files between the program and a process, and their descriptors."""

from __future__ import annotations

import io
import os
import select
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any, Final

import msgspec

from reenact.boundaries.processes.relay import NAMES, Relay
from reenact.format.canonical import digest_bytes
from reenact.format.event import Data

__all__ = [
    "Ends",
    "Given",
    "close_quietly",
    "file_given",
    "is_readable",
    "take_ends",
    "watch",
    "with_pipes",
    "write_all",
]


def write_all(fd: int, data: bytes) -> bool:
    """Write all of ``data``. Return False if it cannot be written.

    A closed reader and all other errors are treated alike, because a full disk must not end the
    relayed process.
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            _wait_writable(fd)
        except OSError:
            return False
    return True


def _wait_writable(fd: int) -> None:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    poll.poll()


def is_readable(fd: int) -> bool:
    """Return whether reading ``fd`` would return immediately."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def close_quietly(fds: Iterable[int]) -> None:
    """Close descriptors that are possibly closed already."""
    for fd in fds:
        try:
            os.close(fd)
        except OSError:
            pass  # it is


Given = dict[str, Any]
"""The arguments of ``Popen._execute_child``, by name."""

_LARGE: Final = 16 << 20
"""Bytes of a file beyond which only its size is compared."""

_OUTPUTS = {1: ("c2pread", "c2pwrite"), 2: ("errread", "errwrite")}


class Ends(msgspec.Struct):
    """Descriptors of the program.

    ``targets`` receive the output of the process, by stream. ``seen`` are the streams that the
    program reads itself. ``source`` provides the standard input of the process. If streams 1 and 2
    of a process have the same target, it has only stream 1 and ``joined`` is set.
    """

    targets: dict[int, int] = {}
    seen: frozenset[int] = frozenset()
    source: int | None = None
    joined: bool = False

    def close(self) -> None:
        """Close the descriptors if the process was not started."""
        close_quietly({*self.targets.values(), *([] if self.source is None else [self.source])})


def take_ends(given: Given, devnull: int | None) -> Ends:
    """Return the descriptors of ``given`` that are relayed. The caller must close them.

    A terminal is passed to the process itself, and the null device is not recorded.
    """
    joined = _is_joined(given)
    targets: dict[int, int] = {}
    seen: set[int] = set()
    for stream, (read, write) in _OUTPUTS.items():
        if stream == 2 and joined:
            continue
        if given[read] != -1:
            targets[stream] = given[write]
            seen.add(stream)
        else:
            fd = stream if given[write] == -1 else given[write]
            if fd != devnull and _is_written(fd):
                targets[stream] = os.dup(fd)
    return Ends(targets, frozenset(seen), _source(given), joined)


def _is_joined(given: Given) -> bool:
    """Do both go to one place?"""
    if given["errread"] != -1:
        return False
    out, err = given["c2pwrite"], given["errwrite"]
    if out == err != -1:
        return True
    if given["c2pread"] != -1:
        return False
    one, other = _identity(1 if out == -1 else out), _identity(2 if err == -1 else err)
    return one is not None and one == other


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_written(fd: int) -> bool:
    """Return whether ``fd`` is open and not a terminal."""
    try:
        return not stat.S_ISCHR(os.fstat(fd).st_mode)
    except OSError:
        return False


def _source(given: Given) -> int | None:
    if given["p2cwrite"] != -1:
        end: int = given["p2cread"]
        return end
    fd = given["p2cread"]
    if fd == -1:
        return None
    # Another process's output, or asyncio's way to write.
    mode = os.fstat(fd).st_mode
    return os.dup(fd) if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else None


def file_given(given: Given, hides: Callable[[bytes], bool]) -> Data | None:
    """Describe a regular file that is the standard input, from its current offset.

    Returns None if it is not a regular file, or if ``hides`` reports that its digest would reveal a
    secret.
    """
    fd = given["p2cread"]
    if fd == -1 or not stat.S_ISREG(os.fstat(fd).st_mode):
        return None
    start = os.lseek(fd, 0, os.SEEK_CUR)
    size = max(0, os.fstat(fd).st_size - start)
    if size > _LARGE:
        return {"size": size}
    try:
        content = os.pread(fd, size, start)
    except OSError:  # not open for reading
        return None
    return None if hides(content) else {"size": size, "digest": digest_bytes(content)}


class Pipes(msgspec.Struct):
    """Reenact's pipes to a process. ``outputs`` and ``sink`` are Reenact's ends."""

    given: Given
    outputs: dict[int, int]
    sink: int | None
    theirs: list[int]
    """Their ends that starting the process does not close."""

    def close(self) -> None:
        """Close the pipes if the process was not started."""
        close_quietly({*self.outputs.values(), *([] if self.sink is None else [self.sink])})


def with_pipes(given: Given, ends: Ends) -> Pipes:
    """Replace ``ends`` in ``given`` by new pipes."""
    given = dict(given)
    outputs: dict[int, int] = {}
    theirs: list[int] = []
    for stream in ends.targets:
        read, write = _OUTPUTS[stream]
        outputs[stream], given[write] = os.pipe()
        if given[read] == -1:
            theirs.append(given[write])
    if ends.joined and 1 in ends.targets:
        given["errwrite"] = given["c2pwrite"]
    sink: int | None = None
    if ends.source is not None:
        given["p2cread"], sink = os.pipe()
        if given["p2cwrite"] == -1:
            theirs.append(given["p2cread"])
    return Pipes(given, outputs, sink, theirs)


_DEEP: Final = 8
_PIECE: Final = 65_536


class _Watched(io.FileIO):
    """Pipe that notifies the relay of its process before it waits."""

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
    """Replace the files of ``process``, which is being created, by files that notify the relay."""
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
    """Return the ``bufsize`` argument of the constructor from its frame, because ``Popen`` does not
    store it."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_DEEP):
        if frame is None:
            break
        if frame.f_locals.get("self") is process and "bufsize" in frame.f_locals:
            found: int = frame.f_locals["bufsize"]
            return found
        frame = frame.f_back
    return -1
