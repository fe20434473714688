"""Exchanges on disk until the server has them: a line of a log, or a folder where the recording is large.

A process has a spool in its slot: ``log/`` holds the lines, ``making/`` the folders that are being
written, ``ready/`` those that were offered, in order, ``gone/`` those that are being removed. A line is
one append. A folder in ``ready/`` got there by one rename and leaves by one rename. So everything that
was offered is complete whenever the process is killed. It survives a crash of the machine as far as the
file system has written it; nothing is synced while a request waits.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from reenact._system import id_bytes
from reenact.exchange.link.aside import Aside
from reenact.exchange.link.notices import Notices
from reenact.exchange.link.spool_log import LogEntry, LogFile, Record, read_log
from reenact.exchange.model import Exchange
from reenact.store.buffered_sink import Contents
from reenact.store.directory.layout import EVENTS, MANIFEST
from reenact.store.files import make_private_folder, replace_file, size_of

__all__ = ["CAPTURE", "EXCHANGE", "PACKED", "Entry", "FolderEntry", "LogEntry", "Spool"]

EXCHANGE = "exchange.json"
CAPTURE = "capture"
PACKED = "packed"
_MAKING, _READY, _GONE, _LOG = "making", "ready", "gone", "log"
_LARGEST_LOG = 8 << 20
"""Bytes from which a new log file is started, so that the old one can be removed earlier."""
_IN_MEMORY = 500
"""Entries whose records are also kept in memory: about one request to the server."""
_decode = msgspec.json.Decoder(Exchange).decode


class FolderEntry(msgspec.Struct, frozen=True):
    """An exchange in the folder ``path``. It is the spool's own until it is removed."""

    path: Path

    @property
    def exchange(self) -> Path:
        """The file with the exchange."""
        return self.path / EXCHANGE

    def read(self) -> Exchange:
        """Raises OSError, and :class:`msgspec.MsgspecError` for a damaged file."""
        return _decode(self.exchange.read_bytes())

    def measure(self) -> int:
        """Its bytes on disk. Raises OSError."""
        return size_of(self.path)


Entry = FolderEntry | LogEntry


class Spool:
    """Of one process. ``offer`` and ``place`` may be called by any thread, the rest by the sender.

    ``offered`` is called after each exchange that found room, with True for that of a replay.
    """

    def __init__(
        self,
        folder: Path,
        aside: Aside,
        notices: Notices,
        *,
        max_bytes: int,
        offered: Callable[[bool], None] = lambda urgent: None,
    ) -> None:
        self._folder = folder
        self._aside = aside
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
        """Where a capture may be written, to be offered later, or not. Nothing is created."""
        return Path(f"{self._making}/{id_bytes(8).hex()}")

    def offer(self, exchange: Exchange, capture: Path | Contents | None) -> bool:
        """Take it, and the folder ``capture``. False when it had to be dropped."""
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
        """Append one line. With the lock held. False when there is no room."""
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
        """With the lock held. The old one is removed with its last entry."""
        if self._log is not None:
            self._log.close()
        return LogFile(self._folder / _LOG / f"{next(self._numbers):06}-{id_bytes(4).hex()}.jsonl")

    def _offer_folder(self, exchange: Exchange, capture: Path) -> bool:
        path = self.place()
        try:
            make_private_folder(path, exist_ok=False)
            shutil.move(capture, path / CAPTURE)
            data = msgspec.json.encode(exchange)
            size = len(data) + size_of(path)
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
        """By one rename. The order of names is the order of offering."""
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
        """How many are ready."""
        with self._lock:
            return len(self._entries)

    def first(self, count: int) -> tuple[Entry, ...]:
        """The oldest, at most ``count``."""
        with self._lock:
            return tuple(itertools.islice(self._entries, count))

    def remove(self, *entries: Entry) -> None:
        """The server has them. Raises OSError, and then some are still there."""
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

    def set_aside(self, entry: Entry, reason: str) -> None:
        """It will never be taken. Raises OSError."""
        self._aside.put(
            self._as_folder(entry) if isinstance(entry, LogEntry) else entry.path, reason
        )
        self._forget(entry)

    def _as_folder(self, entry: LogEntry) -> Path:
        """The files of an exchange, for people to look into."""
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
        """It has become smaller or larger."""
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
        """No more is offered. A log without entries leaves nothing behind."""
        with self._lock:
            log, self._log = self._log, None
            if log is not None:
                log.close()
                if log.waiting == 0:
                    with contextlib.suppress(OSError):  # it is empty: the next process removes it
                        log.path.unlink(missing_ok=True)

    def abandon(self) -> None:
        """In a forked child: let go of what is the parent's."""
        if self._log is not None:
            self._log.close()

    # After a restart

    def recover(self) -> None:
        """Before anything else: take up what an earlier process left here. Raises OSError."""
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
            self._aside.put(folder, "it is damaged")
        if not entries:
            file.path.unlink(missing_ok=True)
        return list(entries)

    def adopt(self, other: Path) -> int:
        """Take over what is in ``other``, the claimed slot of a process that is gone. Returns how
        many exchanges that were. Raises OSError."""
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
        """Ids of the replays whose exchange is here: they have been run to their end."""
        read = (entry.read() for entry in self.first(self.count))
        return frozenset(one.replay.replay_id for one in read if one.replay is not None)

    def _is_whole(self, path: Path) -> bool:
        """What is not goes aside: it was being recorded, or written, when its process ended."""
        try:
            FolderEntry(path).read()
        except FileNotFoundError:
            if any(path.iterdir()):
                self._aside.put(path, "the process ended before it was offered")
            else:
                path.rmdir()
            return False
        except msgspec.MsgspecError:
            self._aside.put(path, "it is damaged")
            return False
        return True


def _found(parent: Path) -> list[Path]:
    """In order, without what was half written beside a file when its process was killed."""
    try:
        found = sorted(parent.iterdir())
    except FileNotFoundError:
        return []
    for path in found:
        if path.suffix == ".tmp":
            path.unlink()
    return [path for path in found if path.suffix != ".tmp"]
