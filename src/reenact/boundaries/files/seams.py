"""Where files are opened. Nothing is replaced unless a session has declared roots."""

from __future__ import annotations

import builtins
import io
import os
from typing import Any

from reenact.boundaries.files.descriptors import standing_in_close, standing_in_open, take_over
from reenact.boundaries.files.folders import standing_in_listdir, standing_in_scandir
from reenact.boundaries.files.reading import open_for_reading
from reenact.boundaries.files.roots import watched
from reenact.boundaries.files.writing import (
    Collecting,
    open_for_writing,
    standing_in_remove,
    standing_in_rename,
    standing_in_truncate,
)
from reenact.boundaries.rebinding import Rebinding, like_builtin
from reenact.engine.patches.patch import DeferredPatch, Installable

__all__ = ["seams"]

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


def seams() -> list[Installable]:
    """The patches: of the function ``open``, and of the module ``os``."""
    return [
        Collecting(),
        Rebinding(builtins, {"open": _open}),
        Rebinding(io, {"open": _open}),
        Rebinding(os, _OS),
        _Supported({name: getattr(os, name) for name in _OS}),
        # Since Python 3.13 it has a name of its own for the function.
        DeferredPatch("glob", lambda module: module._StringGlobber, "scandir", standing_in_scandir),
    ]


class _Supported:
    """What ``os`` says that its functions can do is said of ours as well: ``shutil`` asks."""

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
    """Would ``open`` take it? What it would refuse it is given, and says why."""
    if not isinstance(mode, str) or not isinstance(buffering, int) or set(mode) - _LETTERS:
        return False
    if len(mode) != len(set(mode)) or len(_KINDS & set(mode)) != 1 or {"b", "t"} <= set(mode):
        return False
    if "b" in mode:
        return buffering != 1 and not any(one is not None for one in text)
    return buffering != 0
