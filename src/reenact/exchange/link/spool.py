"""Exchanges on disk until the server has them: a folder for each, or a file if there is no recording.

A process has one in its slot: ``making/`` holds what is being written, ``ready/`` what was offered,
in order, ``gone/`` what is being removed. What is in ``ready/`` got there by one rename and leaves
by one rename, so it is whole whenever the process is killed. It outlives its process and the
machine's crash as far as the file system has written it; nothing is synced while a request waits.
"""

from __future__ import annotations

import contextlib
import os
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
from reenact.store.log import write_whole

__all__ = ["CAPTURE", "EXCHANGE", "PACKED", "Entry", "Spool"]

EXCHANGE = "exchange.json"
CAPTURE = "capture"
PACKED = "packed"
_ALONE = ".json"
"""What the name of a file ends with; folders have none."""
_MAKING, _READY, _GONE = "making", "ready", "gone"
_decode = msgspec.json.Decoder(Exchange).decode


class Entry(msgspec.Struct, frozen=True):
    """An exchange that was offered. ``path`` is its folder, or the exchange itself where there is no
    more to it. It is the spool's own until it is removed."""

    path: Path

    @property
    def is_file(self) -> bool:
        return self.path.suffix == _ALONE

    @property
    def exchange(self) -> Path:
        """The file with the exchange."""
        return self.path if self.is_file else self.path / EXCHANGE

    def read(self) -> Exchange:
        """Raises OSError, and :class:`msgspec.MsgspecError` for what is no exchange."""
        return _decode(self.exchange.read_bytes())

    def measure(self) -> int:
        """Its bytes on disk. Raises OSError."""
        return self.path.stat().st_size if self.is_file else size_of(self.path)


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
        recorded = capture if capture is not None and capture.exists() else None
        path = self._folder / _MAKING / f"{entropy(8).hex()}{_ALONE if recorded is None else ''}"
        try:
            if recorded is not None:
                path.mkdir(parents=True)
                shutil.move(recorded, path / CAPTURE)
            data = msgspec.json.encode(exchange)
            size = len(data) + (0 if recorded is None else size_of(path))
            if not self._has_room(size):
                return self._drop(path, f"{self._max_bytes} bytes of them wait to be sent")
            self._write(path, data)
            self._publish(path, size)
        except OSError as error:
            return self._drop(path, error.strerror or type(error).__name__)
        except (TypeError, ValueError, RecursionError) as error:
            return self._drop(path, f"an exchange cannot be written as JSON ({error})")
        self._offered()
        return True

    @staticmethod
    def _write(path: Path, data: bytes) -> None:
        """Where it is made a file may be half written, because it is renamed when it is not; in a
        folder one that stands there is whole."""
        if path.suffix != _ALONE:
            replace_file(path / EXCHANGE, data, sync=False)
            return
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            write_whole(fd, data, 0)
        finally:
            os.close(fd)

    def _has_room(self, size: int) -> bool:
        with self._lock:
            return self._bytes + size <= self._max_bytes

    def _publish(self, made: Path, size: int) -> None:
        """By one rename. The order of names is the order of offering."""
        with self._lock:
            self._seq += 1
            path = self._folder / _READY / f"{self._seq:012}{made.suffix}"
            made.rename(path)
            self._count(Entry(path), size)

    def _count(self, entry: Entry, size: int) -> None:
        self._bytes += size - self._entries.get(entry, 0)
        self._entries[entry] = size

    def _drop(self, path: Path, why: str) -> bool:
        _discard(path)
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
        if entry.is_file:
            entry.path.unlink()
            self._forget(entry)
        else:
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
        """It has become smaller or larger."""
        size = entry.measure()
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
        for path in _found(self._folder / _GONE):
            _discard(path)
        for path in _found(self._folder / _READY):
            self._seq = max(self._seq, int(path.stem) if path.stem.isdigit() else 0)
            if self._is_whole(path):
                self._count(Entry(path), Entry(path).measure())
        for path in _found(self._folder / _MAKING):
            if self._is_whole(path):  # it was offered, and killed before it was renamed
                self._publish(path, Entry(path).measure())

    def adopt(self, other: Path) -> int:
        """Take over what is in ``other``, the claimed slot of a process that is gone. Returns how
        many exchanges that were. Raises OSError."""
        before = self.count
        for path in [*_found(other / _READY), *_found(other / _MAKING)]:
            if self._is_whole(path):
                self._publish(path, Entry(path).measure())
        return self.count - before

    def replays(self) -> frozenset[str]:
        """Ids of the replays whose exchange is here: they have been run to their end."""
        read = (entry.read() for entry in self.first(self.count))
        return frozenset(one.replay.replay_id for one in read if one.replay is not None)

    def _is_whole(self, path: Path) -> bool:
        """What is not goes aside: it was being recorded, or written, when its process ended."""
        try:
            Entry(path).read()
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


def _discard(path: Path) -> None:
    """As far as it can be done."""
    if path.suffix == _ALONE:
        with contextlib.suppress(OSError):
            path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)
