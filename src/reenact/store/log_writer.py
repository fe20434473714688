"""An append-only file of complete lines, and the sums that prove it whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from weakref import WeakSet

from reenact.format.manifest import Checkpoints
from reenact.store.files import close_descriptor, hold_descriptor, open_regular, sync_file

__all__ = [
    "Durability",
    "Log",
    "Syncer",
    "Tally",
    "forget_syncers",
    "pause_syncers",
    "whole_lines",
    "whole_size",
    "write_whole",
]

Durability = Literal["none", "interval", "event"]

_CHUNK = 1 << 20


class Tally:
    """Count, size and running hash of lines, with checkpoints that tell *where* a log differs.

    Checkpoints start at every line; when there are too many, every second one is dropped.
    """

    MOST_CHECKPOINTS = 256

    __slots__ = ("_checkpoints", "_every", "_hash", "lines", "size")

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._every = 1
        self._checkpoints: list[str] = []
        self.lines = 0
        self.size = 0

    def add(self, line: bytes) -> None:
        self._hash.update(line)
        self.size += len(line)
        self.lines += 1
        if self.lines % self._every == 0:
            self._checkpoints.append(self.short_digest())
            if len(self._checkpoints) > self.MOST_CHECKPOINTS:
                self._every *= 2
                self._checkpoints = self._checkpoints[1::2]

    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"

    def short_digest(self) -> str:
        """The form in which checkpoints are kept."""
        return self._hash.hexdigest()[:8]

    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self._every, " ".join(self._checkpoints))


def write_whole(fd: int, content: bytes, size: int) -> None:
    """Append to a file of ``size`` bytes, all or nothing: what came out short is cut off again."""
    try:
        written = os.write(fd, content)
        while written < len(content):
            written += os.write(fd, content[written:])
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, size)
        raise


class Log:
    """Append-only file of complete lines. ``append`` writes one line at once; the caller holds the
    lock.

    A failed or short write is truncated, so the file only contains complete lines. A kill can still
    tear the last line; readers drop such a tail.
    """

    def __init__(self, fd: int, path: Path) -> None:
        self.fd = hold_descriptor(fd)
        self.path = path
        self.tally = Tally()

    def append(self, line: bytes) -> None:
        write_whole(self.fd, line, self.tally.size)
        self.tally.add(line)

    def cut_tail(self) -> None:
        """Cut off an unterminated last line."""
        os.ftruncate(self.fd, whole_size(self.path))

    def close(self) -> None:
        if self.fd >= 0:
            close_descriptor(self.fd)
            self.fd = -1


_join = threading.Thread.join  # before a session makes it a wait of the program


class _Syncing(threading.Thread):
    """One of ours, not of the program: so it is in no session."""


class Syncer:
    """Group commit: a background thread that makes written data durable every ``interval`` seconds.

    ``touch`` costs one attribute lookup while a commit is due. Sessions pause the thread around a
    fork, because Python 3.12 and later warn about a fork in a process with several threads.
    """

    def __init__(self, fd: int, files: list[Path], *, interval: float = 0.1) -> None:
        self._fd = fd
        self._files = files
        self._interval = interval
        self._lock = threading.RLock()
        self._due = threading.Event()
        self._stop = threading.Event()
        self._pending = False
        self._thread: threading.Thread | None = None

    def touch(self) -> None:
        if self._pending:
            return
        with self._lock:
            self._pending = True
            if self._thread is None and not self._start():
                self._pending = False
                self.commit()
                return
            self._due.set()

    def _start(self) -> bool:
        """Start the thread. False where Python starts none any more, because it is ending."""
        thread = _Syncing(target=self._run, name="reenact-sync", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        _syncers.add(self)
        self._thread = thread
        return True

    def _run(self) -> None:
        while True:
            self._due.wait()
            self._stop.wait(self._interval)
            self._due.clear()
            self._pending = False
            self.commit()
            # Checked after the commit: a stop request during the wait above had its event cleared.
            if self._stop.is_set():
                return

    def commit(self) -> None:
        """Make everything written so far durable, as far as the disk lets us."""
        while self._files:
            with contextlib.suppress(OSError):
                sync_file(self._files.pop())
        with contextlib.suppress(OSError):
            os.fdatasync(self._fd)

    def pause(self) -> None:
        """Make everything durable and end the thread; the next ``touch`` starts another."""
        with self._lock:
            if self._thread is None or self._stop.is_set():
                return
            self._end()
            self._thread = None
            self._stop.clear()
            self._due.clear()
            if self._pending:  # since its last commit
                self._pending = False
                self.commit()

    def close(self) -> None:
        """Stop the thread; returns when it no longer touches the file."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        self._stop.set()
        self._due.set()
        if self._thread is not None:
            _join(self._thread)


_syncers: WeakSet[Syncer] = WeakSet()


def pause_syncers() -> None:
    """For who is about to fork: end our threads. Nothing must be written until that is done."""
    for syncer in list(_syncers):
        syncer.pause()


def forget_syncers() -> None:
    """Drop all syncers in a forked child, where their threads do not exist and locks can stay held."""
    _syncers.clear()


def whole_size(path: Path) -> int:
    """Return the number of bytes of ``path`` that are complete lines."""
    with open_regular(path) as file:
        place = file.seek(0, os.SEEK_END)
        while place > 0:
            start = max(0, place - _CHUNK)
            file.seek(start)
            newline = file.read(place - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            place = start
    return 0


def whole_lines(path: Path, size: int | None = None) -> Iterator[bytes]:
    """The complete lines in the first ``size`` bytes; an unterminated tail is left out."""
    left = size if size is not None else sys.maxsize
    with open_regular(path, _CHUNK) as file:
        for line in file:
            left -= len(line)
            if left >= 0 and line.endswith(b"\n"):
                yield line
