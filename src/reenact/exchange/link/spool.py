"""Exchanges on disk until the server has them.

A process has one in its slot: ``making/`` holds what is being written, ``ready/`` what was offered,
in order, ``gone/`` what is being removed. What is in ``ready/`` got there by one rename and leaves
by one rename, so it is whole whenever the process is killed. It outlives its process and the
machine's crash as far as the file system has written it; nothing is synced while a request waits.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from reenact._system import entropy
from reenact.exchange.link.aside import Aside
from reenact.exchange.link.notices import Notices
from reenact.exchange.model import Exchange
from reenact.store.files import replace_file, size_of

__all__ = ["CAPTURE", "EXCHANGE", "PACKED", "Entry", "Spool"]

EXCHANGE = "exchange.json"
CAPTURE = "capture"
PACKED = "packed"
_MAKING, _READY, _GONE = "making", "ready", "gone"
_decode = msgspec.json.Decoder(Exchange).decode


class Entry(msgspec.Struct, frozen=True):
    """An exchange that was offered. ``path`` is its folder, the spool's own until it is removed."""

    path: Path

    def read(self) -> Exchange:
        """Raises OSError, and :class:`msgspec.MsgspecError` for what is no exchange."""
        return _decode((self.path / EXCHANGE).read_bytes())


class Spool:
    """Of one process. ``offer`` and ``place`` may be called by any thread, the rest by the sender.

    ``offered`` is called after each exchange that found room.
    """

    def __init__(
        self,
        folder: Path,
        aside: Aside,
        notices: Notices,
        *,
        max_bytes: int,
        offered: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder = folder
        self._aside = aside
        self._notices = notices
        self._max_bytes = max_bytes
        self._offered = offered
        self._lock = threading.Lock()  # covers what follows
        self._entries: dict[Entry, int] = {}
        self._bytes = 0
        self._seq = 0
        self.dropped = 0

    # The app's side

    def place(self) -> Path:
        """Where a capture may be written, to be offered later, or not."""
        making = self._folder / _MAKING
        try:
            making.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._notices.warn("spool", self._unwritable(error))
        return making / entropy(8).hex()

    def offer(self, exchange: Exchange, capture: Path | None) -> bool:
        """Take it, and the folder ``capture``. False when it had to be dropped."""
        folder = self._folder / _MAKING / entropy(8).hex()
        try:
            self._gather(folder, capture)
            data = msgspec.json.encode(exchange)
            size = size_of(folder) + len(data)
            if not self._has_room(size):
                return self._drop(folder, f"{self._max_bytes} bytes of them wait to be sent")
            replace_file(folder / EXCHANGE, data, sync=False)
            self._publish(folder, size)
        except OSError as error:
            return self._drop(folder, error.strerror or type(error).__name__)
        except (TypeError, ValueError, RecursionError) as error:
            return self._drop(folder, f"an exchange cannot be written as JSON ({error})")
        self._offered()
        return True

    @staticmethod
    def _gather(folder: Path, capture: Path | None) -> None:
        folder.mkdir(parents=True)
        if capture is not None and capture.exists():
            shutil.move(capture, folder / CAPTURE)

    def _has_room(self, size: int) -> bool:
        with self._lock:
            return self._bytes + size <= self._max_bytes

    def _publish(self, folder: Path, size: int) -> None:
        """By one rename. The order of names is the order of offering."""
        with self._lock:
            self._seq += 1
            path = self._folder / _READY / f"{self._seq:012}"
            folder.rename(path)
            self._count(Entry(path), size)

    def _count(self, entry: Entry, size: int) -> None:
        self._bytes += size - self._entries.get(entry, 0)
        self._entries[entry] = size

    def _drop(self, folder: Path, why: str) -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        with self._lock:
            self.dropped += 1
        self._notices.warn("spool", f"exchanges are dropped, and not recorded: {why}")
        return False

    def _unwritable(self, error: OSError) -> str:
        return f"exchanges cannot be recorded at {self._folder}: {error.strerror or error}"

    # The sender's side

    @property
    def count(self) -> int:
        """How many are ready."""
        with self._lock:
            return len(self._entries)

    def first(self, count: int) -> tuple[Entry, ...]:
        """The oldest, at most ``count``."""
        with self._lock:
            return tuple(entry for entry, _ in zip(self._entries, range(count), strict=False))

    def remove(self, entry: Entry) -> None:
        """The server has it. Raises OSError, and then it is still there."""
        gone = self._folder / _GONE / entropy(8).hex()
        entry.path.rename(gone)
        self._forget(entry)
        shutil.rmtree(gone, ignore_errors=True)
        if self.count == 0:
            self._notices.well("spool")

    def set_aside(self, entry: Entry, reason: str) -> None:
        """It will never be taken. Raises OSError."""
        self._aside.put(entry.path, reason)
        self._forget(entry)

    def measure(self, entry: Entry) -> None:
        """Its folder has become smaller or larger."""
        size = size_of(entry.path)
        with self._lock:
            self._count(entry, size)

    def _forget(self, entry: Entry) -> None:
        with self._lock:
            self._bytes -= self._entries.pop(entry)

    # After a restart

    def recover(self) -> None:
        """Before anything else: take up what an earlier process left here. Raises OSError."""
        for name in (_MAKING, _READY, _GONE):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        for folder in _folders(self._folder / _GONE):
            shutil.rmtree(folder, ignore_errors=True)
        for folder in _folders(self._folder / _READY):
            self._seq = max(self._seq, int(folder.name) if folder.name.isdigit() else 0)
            if self._is_whole(folder):
                self._count(Entry(folder), size_of(folder))
        for folder in _folders(self._folder / _MAKING):
            if self._is_whole(folder):  # it was offered, and killed before it was renamed
                self._publish(folder, size_of(folder))

    def adopt(self, other: Path) -> int:
        """Take over what is in ``other``, the claimed slot of a process that is gone. Returns how
        many exchanges that were. Raises OSError."""
        before = self.count
        found = [*_folders(other / _READY), *_folders(other / _MAKING)]
        for folder in found:
            if self._is_whole(folder):
                self._publish(folder, size_of(folder))
        return self.count - before

    def replays(self) -> frozenset[str]:
        """Ids of the replays whose exchange is here: they have been run to their end."""
        read = (entry.read() for entry in self.first(self.count))
        return frozenset(one.replay.replay_id for one in read if one.replay is not None)

    def _is_whole(self, folder: Path) -> bool:
        """What is not goes aside: it was being recorded, or written, when its process ended."""
        try:
            Entry(folder).read()
        except FileNotFoundError:
            if any(folder.iterdir()):
                self._aside.put(folder, "the process ended before it was offered")
            else:
                folder.rmdir()
            return False
        except msgspec.MsgspecError:
            self._aside.put(folder, "it is damaged")
            return False
        return True


def _folders(parent: Path) -> list[Path]:
    try:
        return sorted(parent.iterdir())
    except FileNotFoundError:
        return []
