"""Cache of downloaded recordings with a size limit, shared by any number of processes.

<key>/ is a download. It is written as <key>.….part and renamed when it is complete. <key>.lock is
shared by readers and exclusive for a writer or remover. It contains the size in bytes, and its
modification time is the last use. Locks end with their process, so a killed process blocks no other
process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from reenact._system import entropy
from reenact.store.files import folder_size, try_lock

__all__ = ["MOST", "Cache", "cache_folder"]

MOST = 8 << 30
"""Default limit in bytes."""
_LOW = 0.9
"""Share of the limit to which a cleanup reduces the cache, so that the next download needs none."""
_SHARE = 16
"""Divisor of the free space after whose use the cache is measured again.

Other processes fill the cache, too.
"""


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the cache folder of the current user. Empty variables count as unset."""
    if own := environ.get("REENACT_CACHE"):
        return Path(own)
    if shared := environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "reenact" / "recordings"
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()) / ".cache" / "reenact" / "recordings"


class Cache:
    """Cache of downloads with about ``most`` bytes at most.

    Entries in use are never removed, so the cache can exceed its limit.
    """

    def __init__(self, folder: Path, most: int = MOST) -> None:
        self.folder = folder
        self._most = most
        self._room = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def holding(
        self, key: str, fill: Callable[[Path], None], is_good: Callable[[Path], bool]
    ) -> Iterator[Path]:
        """Hold the folder of ``key`` while the context is active.

        If it is missing or invalid, ``fill`` writes it into an empty folder. Errors of
        ``fill`` propagate, and then no folder is stored.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        entry = self.folder / key
        while True:
            with self._locked(key, fcntl.LOCK_SH) as fd:
                if entry.is_dir() and is_good(entry):
                    os.utime(fd)
                    yield entry
                    return
            with self._locked(key, fcntl.LOCK_EX) as fd:
                if not (entry.is_dir() and is_good(entry)):
                    self._fill(entry, fd, fill)
                # Another process can remove the entry between the two locks. Then the loop
                # fills it again.
                fcntl.flock(fd, fcntl.LOCK_SH)
                if entry.is_dir() and self._is_lock(key, fd):
                    self._make_room()
                    yield entry
                    return

    @contextlib.contextmanager
    def _locked(self, key: str, how: int) -> Iterator[int]:
        """Hold the lock of ``key``.

        Removing an entry removes its lock file too, so the locked file may be stale. Then the new
        lock file is tried.
        """
        while True:
            path = self.folder / f"{key}.lock"
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, how)
                if self._is_lock(key, fd):
                    yield fd
                    return
            finally:
                os.close(fd)

    def _is_lock(self, key: str, fd: int) -> bool:
        try:
            there = os.stat(self.folder / f"{key}.lock")
        except FileNotFoundError:
            return False
        return there.st_ino == os.fstat(fd).st_ino

    def _fill(self, entry: Path, fd: int, fill: Callable[[Path], None]) -> None:
        self._clear(entry.name)
        # A new folder, because an abandoned download may still write to the previous one.
        temporary = entry.with_name(f"{entry.name}.{entropy(4).hex()}.part")
        temporary.mkdir(mode=0o700)
        try:
            fill(temporary)
            size = folder_size(temporary)
            temporary.rename(entry)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(size).encode(), 0)
        with self._lock:
            self._room -= size

    def _make_room(self) -> None:
        with self._lock:
            if self._room > 0:
                return
            found = sorted(self._entries())
            total = sum(size for _, size, _ in found)
            limit = self._most if total <= self._most else int(self._most * _LOW)
            for _, size, key in found:
                if total <= limit:
                    break
                if self._remove(key):
                    total -= size
            self._room = max(0, self._most - total) // _SHARE

    def _entries(self) -> Iterator[tuple[float, int, str]]:
        """Yield the last use, size and key of each entry.

        Remove entries of interrupted downloads.
        """
        for path in self.folder.glob("*.lock"):
            try:
                when, content = path.stat().st_mtime, path.read_bytes()
            except FileNotFoundError:
                continue
            if content.isdigit():
                yield when, int(content), path.stem
            else:
                self._remove(path.stem)

    def _remove(self, key: str) -> bool:
        """Remove an entry. Return False if it is in use."""
        try:
            fd = os.open(self.folder / f"{key}.lock", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            if not (try_lock(fd) and self._is_lock(key, fd)):
                return False
            self._clear(key)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.folder / f"{key}.lock")
            return True
        finally:
            os.close(fd)

    def _clear(self, key: str) -> None:
        for old in (self.folder / key, *self.folder.glob(f"{key}.*.part")):
            shutil.rmtree(old, ignore_errors=True)
