"""Compiled patterns, kept from one process to the next.

Compiling takes a fifth of a second, which every process would spend before its first event. What is
kept holds patterns, never a value that was looked for. Whoever could write to the folder could
switch redaction off, so one that others may write to is not used, and what is read must have been
written by the same user, whole. Nothing here fails: without a shelf, everything is compiled again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

__all__ = ["Shelf", "shelf_of"]

_MOST = 16
"""Files. There is one for each set of names, and for each version of what compiles them."""

_LARGEST = 32 * 1024 * 1024
_DIGEST = hashlib.sha256().digest_size
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_FLAGS = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)


def shelf_of(environ: Mapping[str, str]) -> Shelf:
    """The shelf of this user. An empty variable counts as unset."""
    own, shared, home = map(environ.get, ("REENACT_CONFIG_DIR", "XDG_CACHE_HOME", "HOME"))
    if own:
        return Shelf(Path(own) / "compiled")
    if shared:
        return Shelf(Path(shared) / "reenact")
    return Shelf(Path(home) / ".cache" / "reenact" if home else None)


class Shelf:
    """A folder of things that can be made again; with None, one that keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, name: str) -> bytes | None:
        """What was kept as ``name``."""
        if self._folder is None or not _is_own(self._folder):
            return None
        try:
            return _whole(_read(self._folder / name))
        except OSError:
            return None

    def keep(self, name: str, content: bytes) -> None:
        """Keep ``content`` as ``name``, and drop what is oldest when there is too much."""
        if self._folder is None:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(0o700, parents=True, exist_ok=True)
            if _is_own(self._folder):
                _write(self._folder / name, hashlib.sha256(content).digest() + content)
                _tidy(self._folder)


def _is_own(folder: Path) -> bool:
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and _is_private(found)


def _is_private(found: os.stat_result) -> bool:
    """Is it ours, and can nobody else write to it?"""
    return found.st_uid == os.geteuid() and not found.st_mode & _OTHERS


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    with open(descriptor, "rb") as file:
        return file.read(_LARGEST) if _is_private(os.fstat(descriptor)) else b""


def _whole(content: bytes) -> bytes | None:
    digest, rest = content[:_DIGEST], content[_DIGEST:]
    return rest if hashlib.sha256(rest).digest() == digest else None


def _write(path: Path, content: bytes) -> None:
    """Beside, then renamed. Another thread of this process may be at it, and then it does it."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _tidy(folder: Path) -> None:
    by_age = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
    for path in by_age[:-_MOST]:
        path.unlink(missing_ok=True)
