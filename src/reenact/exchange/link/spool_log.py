"""Exchanges as lines of a log: one append makes an exchange durable against a kill of the process.

A log file is ``<number>.jsonl`` in the folder ``log`` of a slot. Each line is one exchange, with its
recording where that is small. Lines are never changed. A file is emptied when the server has all of
its exchanges, so a process that is killed sends some of them again, and the server stores them once.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from reenact.exchange.model import Exchange
from reenact.store.log.writer import write_whole

__all__ = ["LogEntry", "LogFile", "Record", "read_log"]

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_MODE = 0o600


class Record(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One line. ``seq`` orders the exchanges of a slot; ``manifest`` and ``events`` are the files of
    the recording, and empty where there is none; ``content_hash`` and ``count`` are what its manifest
    states of its events."""

    seq: int
    exchange: Exchange
    manifest: str = ""
    events: str = ""
    content_hash: str = ""
    count: int = 0


_decode = msgspec.json.Decoder(Record).decode


class LogFile:
    """One file. The spool's lock covers every method but :meth:`read`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.waiting = 0
        """Entries that the server does not have yet."""
        self.size = 0
        self._fd = -1

    def write(self, line: bytes) -> None:
        """Append ``line``, which ends with a newline. Raises OSError, and then nothing of it was
        written."""
        if self._fd < 0:
            self._fd = os.open(self.path, _FLAGS, _MODE)
        write_whole(self._fd, line, self.size)
        self.size += len(line)

    def read(self, offset: int, size: int) -> bytes:
        """Raises OSError."""
        if self._fd >= 0:
            return os.pread(self._fd, size, offset)
        with self.path.open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def clear(self) -> None:
        """Empty it: the server has everything. Raises OSError."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            self.size = 0
        else:
            self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close it. It can still be read."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class LogEntry:
    """A line that waits to be sent. ``unrecorded`` is why it is sent without its recording."""

    __slots__ = ("_record", "file", "offset", "size", "unrecorded")

    def __init__(self, file: LogFile, offset: int, size: int, record: Record | None) -> None:
        self.file = file
        self.offset = offset
        self.size = size
        self.unrecorded = ""
        self._record = record
        """Kept in memory while few entries wait."""

    @property
    def is_in_memory(self) -> bool:
        return self._record is not None

    def record(self) -> Record:
        """Raises OSError, and :class:`msgspec.MsgspecError` for a damaged line."""
        return self._record or _decode(self.file.read(self.offset, self.size))

    def read(self) -> Exchange:
        """The exchange. Raises as :meth:`record` does."""
        return self.record().exchange

    def measure(self) -> int:
        """Its bytes on disk."""
        return self.size


def read_log(file: LogFile) -> tuple[list[tuple[int, LogEntry]], list[bytes]]:
    """The entries of a file that another process has written, with their numbers, and what in it
    is damaged: the last line may be torn. Raises OSError."""
    entries: list[tuple[int, LogEntry]] = []
    damaged: list[bytes] = []
    for line in file.path.read_bytes().splitlines(keepends=True):
        try:
            record = _decode(line)
        except msgspec.MsgspecError:
            damaged.append(line)
        else:
            entries.append((record.seq, LogEntry(file, file.size, len(line), None)))
        file.size += len(line)
    file.waiting = len(entries)
    return entries, damaged
