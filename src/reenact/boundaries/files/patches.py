"""Patches of the functions that open, list, rename and delete files.

They are installed only for a session with declared roots. A file opened by ``os.open`` is
identified by its descriptor.
"""

from __future__ import annotations

import builtins
import io
import os
from typing import Any, Final

import msgspec

from reenact.boundaries.files.reads import (
    open_for_reading,
    standing_in_listdir,
    standing_in_scandir,
)
from reenact.boundaries.files.records import Watched, check_allowed, is_regular, watched
from reenact.boundaries.files.writes import (
    Collecting,
    note_written,
    open_for_writing,
    standing_in_remove,
    standing_in_rename,
    standing_in_truncate,
)
from reenact.boundaries.function_patches import Rebinding, like_builtin
from reenact.engine.patches.patch import DeferredPatch, Installable

__all__ = [
    "file_patches",
    "standing_in_close",
    "standing_in_open",
    "take_over",
]

_fstat = os.fstat
_CHANGES: Final = os.O_WRONLY | os.O_RDWR | os.O_TRUNC


class _Open(msgspec.Struct, frozen=True):
    """File that was opened for writing.

    ``inode`` distinguishes it from a later file with the same descriptor if it was closed outside
    the boundary.
    """

    file: Watched
    inode: tuple[int, int]


_open_files: dict[int, _Open] = {}


def standing_in_open(original: Any) -> Any:
    """Replace ``os.open``."""

    def open(_: Any, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        def opening() -> int:
            return int(original(path, flags, mode, dir_fd=dir_fd))

        file = watched(path, 1, dir_fd)
        if file is None:
            return opening()
        if flags & _CHANGES:
            check_allowed(file, "file_write")
            fd = opening()
            if flags & os.O_RDWR and not flags & os.O_TRUNC:
                open_for_reading(file, lambda: fd, _itself)
            if is_regular(fd):
                _open_files[fd] = _Open(file, _inode(fd))
            return fd
        return open_for_reading(file, opening, _itself, _itself)

    return like_builtin(open, original)


def _itself(fd: int) -> int:
    return fd


def standing_in_close(original: Any) -> Any:
    """Replace ``os.close``."""

    def close(_: Any, fd: Any) -> None:
        file = take_over(fd)
        original(fd)
        if file is not None:
            note_written(file)

    return like_builtin(close, original)


def take_over(fd: Any) -> Watched | None:
    """Remove and return the file that was opened for writing as ``fd``, or return None.

    The caller then records its changes.
    """
    known = _open_files.pop(fd, None) if isinstance(fd, int) else None
    if known is None:
        return None
    try:
        return known.file if _inode(fd) == known.inode else None
    except OSError:
        return None


def _inode(fd: int) -> tuple[int, int]:
    found = _fstat(fd)
    return found.st_dev, found.st_ino


_KINDS = frozenset("rwax")
_LETTERS = frozenset("rwaxbt+")

_OS = {
    "open": standing_in_open,
    "close": standing_in_close,
    "listdir": standing_in_listdir,
    "scandir": standing_in_scandir,
    "truncate": standing_in_truncate,
    "rename": standing_in_rename,
    "replace": standing_in_rename,
    "remove": standing_in_remove,
    "unlink": standing_in_remove,
}


def file_patches() -> list[Installable]:
    """Return the patches of ``open`` and of the module ``os``."""
    return [
        Collecting(),
        Rebinding(builtins, {"open": _open}),
        Rebinding(io, {"open": _open}),
        Rebinding(os, _OS),
        _Supported({name: getattr(os, name) for name in _OS}),
        # Since Python 3.13 it has a separate name for the function.
        DeferredPatch("glob", lambda module: module._StringGlobber, "scandir", standing_in_scandir),
    ]


class _Supported:
    """Registration of the replaced functions in ``os.supports_dir_fd`` and similar sets, which
    ``shutil`` reads."""

    def __init__(self, originals: dict[str, Any]) -> None:
        self._originals = originals
        self._added: list[tuple[set[Any], Any]] = []

    def install(self) -> None:
        for can in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            for name, original in self._originals.items():
                if original in can:
                    self._added.append((can, getattr(os, name)))
                    can.add(getattr(os, name))

    def remove(self) -> None:
        for can, ours in self._added:
            can.discard(ours)
        self._added = []


def _open(original: Any) -> Any:
    def open(
        _: Any,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        def opening(how: Any = opener) -> Any:
            return original(file, mode, buffering, encoding, errors, newline, closefd, how)

        if not closefd or not _is_right(mode, buffering, encoding, errors, newline):
            return opening()
        writes = mode.strip("bt") != "r"
        found = take_over(file) if writes and isinstance(file, int) else None
        if not isinstance(file, int):
            found = watched(file, 1)
        if found is None:
            return opening()
        if not writes:
            return open_for_reading(found, opening, _fileno, lambda fd: opening(lambda *_: fd))
        if "r" in mode and not isinstance(file, int):
            open_for_reading(found, lambda: original(file, "rb", 0), _fileno).close()
        if "b" not in mode:
            encoding = io.text_encoding(encoding)
        return open_for_writing(found, file, mode, buffering, encoding, errors, newline, opener)

    return like_builtin(open, original)


def _fileno(file: Any) -> int:
    return int(file.fileno())


def _is_right(mode: Any, buffering: Any, *text: str | None) -> bool:
    """Return whether ``open`` would accept the arguments.

    Invalid ones are passed to it, so that it raises the error.
    """
    if not isinstance(mode, str) or not isinstance(buffering, int) or set(mode) - _LETTERS:
        return False
    if len(mode) != len(set(mode)) or len(_KINDS & set(mode)) != 1 or {"b", "t"} <= set(mode):
        return False
    if "b" in mode:
        return buffering != 1 and not any(one is not None for one in text)
    return buffering != 0
