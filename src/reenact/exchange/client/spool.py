"""Exchanges on disk until the server has them: in a log, or in folders with large recordings.

The slot of a process has four folders: ``log/`` for log files, ``making/`` for folders that are being
written, ``ready/`` for folders that were offered, ``gone/`` for folders that are being removed. A line
of a log is one exchange, with its recording if that is small. It is written with one append and never
changed. A log file is emptied when the server has all of its exchanges. A folder enters and leaves
``ready/`` with one rename. So every offered exchange is complete whenever the process is killed.
Nothing is synced while a request waits, so a crash of the machine can lose exchanges.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from reenact._system import entropy, id_bytes
from reenact.exchange.client.workers import Notices
from reenact.exchange.model import Exchange
from reenact.store.files import (
    EVENTS,
    MANIFEST,
    folder_size,
    make_private_folder,
    replace_file,
    write_whole,
)
from reenact.store.sinks.buffered import Contents

__all__ = [
    "CAPTURE",
    "EXCHANGE",
    "PACKED",
    "REASON",
    "DeadLetters",
    "Entry",
    "FolderEntry",
    "LogEntry",
    "LogFile",
    "Record",
    "Spool",
    "read_log",
]

REASON = "reason.json"


class DeadLetters:
    """Bounded folder of rejected exchanges, shared by the processes of an app."""

    def __init__(self, folder: Path, *, most: int) -> None:
        self._folder = folder
        self._most = most

    @property
    def count(self) -> int:
        return len(self._found())

    def put(self, path: Path, reason: str) -> None:
        """Move the folder ``path`` here, with a file that states the ``reason``. Raises OSError."""
        make_private_folder(self._folder)
        replace_file(path / REASON, msgspec.json.encode({"reason": reason}), sync=False)
        path.rename(self._folder / f"{path.name}-{entropy(8).hex()}")
        self._prune()

    def _prune(self) -> None:
        for path in self._found()[: -self._most]:
            shutil.rmtree(path, ignore_errors=True)

    def _found(self) -> list[Path]:
        """Return the entries, oldest first. A different process can prune at the same time."""
        stamped: list[tuple[int, Path]] = []
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            try:
                stamped.append((path.stat().st_mtime_ns, path))
            except FileNotFoundError:
                continue
        return [path for _, path in sorted(stamped)]


_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_MODE = 0o600


class Record(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Line of a log. ``seq`` orders the exchanges of a slot. ``manifest`` and ``events`` are the
    files of the recording, or empty. ``content_hash`` and ``count`` come from its manifest."""

    seq: int
    exchange: Exchange
    manifest: str = ""
    events: str = ""
    content_hash: str = ""
    count: int = 0


_decode_record = msgspec.json.Decoder(Record).decode


class LogFile:
    """Log file. The spool's lock covers every method except :meth:`read`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.waiting = 0
        """Number of entries that the server has not confirmed."""
        self.size = 0
        self._fd = -1

    def write(self, line: bytes) -> None:
        """Append ``line``, which ends with a newline. Raises OSError if nothing was written."""
        if self._fd < 0:
            self._fd = os.open(self.path, _FLAGS, _MODE)
        write_whole(self._fd, line, self.size)
        self.size += len(line)

    def read(self, offset: int, size: int) -> bytes:
        """Read a part of the file. Raises OSError."""
        if self._fd >= 0:
            return os.pread(self._fd, size, offset)
        with self.path.open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def clear(self) -> None:
        """Empty the file. Raises OSError."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            self.size = 0
        else:
            self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file. :meth:`read` still works."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class LogEntry:
    """Line that waits to be sent. ``unrecorded`` is the reason why it is sent without its
    recording."""

    __slots__ = ("_record", "file", "offset", "size", "unrecorded")

    def __init__(self, file: LogFile, offset: int, size: int, record: Record | None) -> None:
        self.file = file
        self.offset = offset
        self.size = size
        self.unrecorded = ""
        self._record = record
        """Cached record while few entries wait."""

    @property
    def is_in_memory(self) -> bool:
        return self._record is not None

    def record(self) -> Record:
        """Return the record. Raises OSError, and :class:`msgspec.MsgspecError` for a damaged line."""
        return self._record or _decode_record(self.file.read(self.offset, self.size))

    def read(self) -> Exchange:
        """Return the exchange. Raises like :meth:`record`."""
        return self.record().exchange

    def measure(self) -> int:
        """Return the size on disk."""
        return self.size


def read_log(file: LogFile) -> tuple[list[tuple[int, LogEntry]], list[bytes]]:
    """Return the entries of a file with their numbers, and its damaged lines. The last line can be
    truncated. Raises OSError."""
    entries: list[tuple[int, LogEntry]] = []
    damaged: list[bytes] = []
    for line in file.path.read_bytes().splitlines(keepends=True):
        try:
            record = _decode_record(line)
        except msgspec.MsgspecError:
            damaged.append(line)
        else:
            entries.append((record.seq, LogEntry(file, file.size, len(line), None)))
        file.size += len(line)
    file.waiting = len(entries)
    return entries, damaged


EXCHANGE = "exchange.json"
CAPTURE = "capture"
PACKED = "packed"
_MAKING, _READY, _GONE, _LOG = "making", "ready", "gone", "log"
_LARGEST_LOG = 8 << 20
"""Size at which a new log file is started, so that the old one can be removed earlier."""
_IN_MEMORY = 500
"""Number of entries with cached records, about one request."""
_decode = msgspec.json.Decoder(Exchange).decode


class FolderEntry(msgspec.Struct, frozen=True):
    """Exchange in the folder ``path``, which belongs to the spool."""

    path: Path

    @property
    def exchange(self) -> Path:
        """Path of the exchange."""
        return self.path / EXCHANGE

    def read(self) -> Exchange:
        """Return the exchange. Raises OSError, and :class:`msgspec.MsgspecError` for a damaged
        file."""
        return _decode(self.exchange.read_bytes())

    def measure(self) -> int:
        """Return the size on disk."""
        return folder_size(self.path)


Entry = FolderEntry | LogEntry


class Spool:
    """Spool of one process. Any thread can call ``offer`` and ``place``; only the sender calls
    other methods.

    ``offered`` is called after each stored exchange, with True for an exchange of a replay.
    """

    def __init__(
        self,
        folder: Path,
        dead_letters: DeadLetters,
        notices: Notices,
        *,
        max_bytes: int,
        offered: Callable[[bool], None] = lambda urgent: None,
    ) -> None:
        self._folder = folder
        self._dead_letters = dead_letters
        self._notices = notices
        self._max_bytes = max_bytes
        self._offered = offered
        self._making = str(folder / _MAKING)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()  # covers what follows
        self._entries: dict[Entry, int] = {}
        self._bytes = 0
        self._seq = 0
        self._log: LogFile | None = None
        self.dropped = 0

    # The app's side

    def place(self) -> Path:
        """Return a path for a capture. Nothing is created."""
        return Path(f"{self._making}/{id_bytes(8).hex()}")

    def offer(self, exchange: Exchange, capture: Path | Contents | None) -> bool:
        """Store an exchange, and take the folder ``capture``. Returns False if it was dropped."""
        if isinstance(capture, Path) and capture.exists():
            return self._offer_folder(exchange, capture)
        contents = capture if isinstance(capture, Contents) else None
        try:
            with self._lock:
                has_room = self._append(exchange, contents)
        except OSError as error:
            return self._drop(error.strerror or type(error).__name__)
        except (TypeError, ValueError, RecursionError) as error:
            return self._drop(f"an exchange cannot be written as JSON ({error})")
        if not has_room:
            return self._drop(f"{self._max_bytes} bytes of them wait to be sent")
        self._offered(exchange.replay is not None)
        return True

    def _append(self, exchange: Exchange, contents: Contents | None) -> bool:
        """Append one line, with the lock held. Returns False if the spool is full."""
        record = Record(
            seq=self._seq + 1,
            exchange=exchange,
            manifest="" if contents is None else contents.manifest.decode(),
            events="" if contents is None else contents.events.decode(),
            content_hash="" if contents is None else contents.stated.integrity.content_hash,
            count=0 if contents is None else contents.stated.event_count,
        )
        line = msgspec.json.encode(record) + b"\n"
        if self._bytes + len(line) > self._max_bytes:
            return False
        log = self._log
        if log is None or log.size > _LARGEST_LOG:
            log = self._new_log()
        offset = log.size
        log.write(line)
        self._log = log
        self._seq += 1
        log.waiting += 1
        kept = record if len(self._entries) < _IN_MEMORY else None
        self._count(LogEntry(log, offset, len(line), kept), len(line))
        return True

    def _new_log(self) -> LogFile:
        """Return a new log file, with the lock held. The old one is removed with its last entry."""
        if self._log is not None:
            self._log.close()
        return LogFile(self._folder / _LOG / f"{next(self._numbers):06}-{id_bytes(4).hex()}.jsonl")

    def _offer_folder(self, exchange: Exchange, capture: Path) -> bool:
        path = self.place()
        try:
            make_private_folder(path, exist_ok=False)
            shutil.move(capture, path / CAPTURE)
            data = msgspec.json.encode(exchange)
            size = len(data) + folder_size(path)
            if not self._has_room(size):
                return self._drop(f"{self._max_bytes} bytes of them wait to be sent", path)
            replace_file(path / EXCHANGE, data, sync=False)
            self._publish(path, size)
        except OSError as error:
            return self._drop(error.strerror or type(error).__name__, path)
        except (TypeError, ValueError, RecursionError) as error:
            return self._drop(f"an exchange cannot be written as JSON ({error})", path)
        self._offered(exchange.replay is not None)
        return True

    def _has_room(self, size: int) -> bool:
        with self._lock:
            return self._bytes + size <= self._max_bytes

    def _publish(self, made: Path, size: int) -> None:
        """Publish a folder with one rename. Names are in the order of offering."""
        with self._lock:
            self._seq += 1
            path = self._folder / _READY / f"{self._seq:012}"
            made.rename(path)
            self._count(FolderEntry(path), size)

    def _count(self, entry: Entry, size: int) -> None:
        self._bytes += size - self._entries.get(entry, 0)
        self._entries[entry] = size

    def _drop(self, why: str, path: Path | None = None) -> bool:
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)
        with self._lock:
            self.dropped += 1
        self._notices.warn("spool", f"exchanges are dropped, and not recorded: {why}")
        return False

    # The sender's side

    @property
    def count(self) -> int:
        """Number of exchanges that wait."""
        with self._lock:
            return len(self._entries)

    def first(self, count: int) -> tuple[Entry, ...]:
        """Return the oldest entries, at most ``count``."""
        with self._lock:
            return tuple(itertools.islice(self._entries, count))

    def remove(self, *entries: Entry) -> None:
        """Remove entries that the server has confirmed. If it raises OSError, some are still there."""
        for entry in entries:
            if isinstance(entry, LogEntry):
                self._forget(entry)
                continue
            gone = self._folder / _GONE / id_bytes(8).hex()
            entry.path.rename(gone)
            self._forget(entry)
            shutil.rmtree(gone, ignore_errors=True)
        if self.count == 0:
            self._notices.well("spool")

    def reject(self, entry: Entry, reason: str) -> None:
        """Move an entry that the server rejects to the dead letters. Raises OSError."""
        self._dead_letters.put(
            self._as_folder(entry) if isinstance(entry, LogEntry) else entry.path, reason
        )
        self._forget(entry)

    def _as_folder(self, entry: LogEntry) -> Path:
        """Write the files of an exchange to a folder and return it."""
        folder = self.place()
        folder.mkdir(parents=True)
        try:
            record = entry.record()
        except msgspec.MsgspecError:
            raw = entry.file.read(entry.offset, entry.size)
            (folder / EXCHANGE).write_bytes(raw)
            return folder
        replace_file(folder / EXCHANGE, msgspec.json.encode(record.exchange), sync=False)
        if record.manifest:
            (folder / CAPTURE).mkdir()
            replace_file(folder / CAPTURE / EVENTS, record.events.encode(), sync=False)
            replace_file(folder / CAPTURE / MANIFEST, record.manifest.encode(), sync=False)
        return folder

    def measure(self, entry: Entry) -> None:
        """Update the stored size of an entry."""
        if isinstance(entry, FolderEntry):
            size = entry.measure()
            with self._lock:
                self._count(entry, size)

    def _forget(self, entry: Entry) -> None:
        with self._lock:
            self._bytes -= self._entries.pop(entry)
            if isinstance(entry, LogEntry):
                entry.file.waiting -= 1
                if entry.file.waiting == 0:
                    entry.file.clear()

    def close(self) -> None:
        """Close the log. An empty log is removed."""
        with self._lock:
            log, self._log = self._log, None
            if log is not None:
                log.close()
                if log.waiting == 0:
                    with contextlib.suppress(OSError):  # it is empty: the next process removes it
                        log.path.unlink(missing_ok=True)

    def abandon(self) -> None:
        """Release the parent's log in a forked child."""
        if self._log is not None:
            self._log.close()

    # After a restart

    def recover(self) -> None:
        """Load the entries of an earlier process. Call it first. Raises OSError."""
        for name in (_MAKING, _READY, _GONE, _LOG):
            make_private_folder(self._folder / name)
        for path in _found(self._folder / _GONE):
            shutil.rmtree(path, ignore_errors=True)
        left: list[tuple[int, Entry]] = []
        for path in _found(self._folder / _READY):
            self._seq = max(self._seq, int(path.name) if path.name.isdigit() else 0)
            if self._is_whole(path):
                left.append((self._seq, FolderEntry(path)))
        for path in _found(self._folder / _LOG):
            left += self._read_log(LogFile(path))
        for seq, entry in sorted(left, key=lambda one: one[0]):
            self._seq = max(self._seq, seq)
            self._count(entry, entry.measure())
        for path in _found(self._folder / _MAKING):
            if self._is_whole(path):  # it was offered, and killed before it was renamed
                self._publish(path, FolderEntry(path).measure())

    def _read_log(self, file: LogFile) -> list[tuple[int, Entry]]:
        entries, damaged = read_log(file)
        for line in damaged:
            folder = self.place()
            make_private_folder(folder, exist_ok=False)
            replace_file(folder / EXCHANGE, line, sync=False)
            self._dead_letters.put(folder, "it is damaged")
        if not entries:
            file.path.unlink(missing_ok=True)
        return list(entries)

    def adopt(self, other: Path) -> int:
        """Take over the exchanges in ``other``, the claimed slot of a dead process, and return
        their number. Raises OSError."""
        before = self.count
        for path in _found(other / _LOG):
            moved = self._folder / _LOG / f"{next(self._numbers):06}-{id_bytes(4).hex()}.jsonl"
            path.rename(moved)
            with self._lock:
                for _, entry in self._read_log(LogFile(moved)):
                    self._count(entry, entry.measure())
        for path in [*_found(other / _READY), *_found(other / _MAKING)]:
            if self._is_whole(path):
                self._publish(path, FolderEntry(path).measure())
        return self.count - before

    def replays(self) -> frozenset[str]:
        """Return the ids of replays whose exchange is in the spool, because they have ended."""
        read = (entry.read() for entry in self.first(self.count))
        return frozenset(one.replay.replay_id for one in read if one.replay is not None)

    def _is_whole(self, path: Path) -> bool:
        """Return whether a folder is complete. Incomplete ones are moved to the dead letters."""
        try:
            FolderEntry(path).read()
        except FileNotFoundError:
            if any(path.iterdir()):
                self._dead_letters.put(path, "the process ended before it was offered")
            else:
                path.rmdir()
            return False
        except msgspec.MsgspecError:
            self._dead_letters.put(path, "it is damaged")
            return False
        return True


def _found(parent: Path) -> list[Path]:
    """Return the entries of a folder in order, and remove temporary files of a killed process."""
    try:
        found = sorted(parent.iterdir())
    except FileNotFoundError:
        return []
    for path in found:
        if path.suffix == ".tmp":
            path.unlink()
    return [path for path in found if path.suffix != ".tmp"]
