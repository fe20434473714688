"""Listing: the names in a folder, in the order in which they came in the recording."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from reenact.boundaries.files.history import was_made, was_removed
from reenact.boundaries.files.noting import note, reading, upcoming
from reenact.boundaries.files.roots import Watched, readable, watched
from reenact.boundaries.rebinding import like_builtin

__all__ = ["standing_in_listdir", "standing_in_scandir"]

T = TypeVar("T")


def _ordered(folder: Watched, names: list[str]) -> list[str]:
    """The names in the folder as the recorded program saw them, where ``names`` are those of now.

    What is ours comes last, and is in no recording. What the recorded run itself has made or removed
    since, and what can be read from the recording, is as it was.
    """
    apart = folder.session.settings.files_apart
    ours = [name for name in names if os.path.join(folder.place, name) in apart]
    known = {readable(name): name for name in names if name not in ours}
    recorded = _recorded(folder)
    if recorded is not None:
        for name in known.keys() - recorded:
            if was_made(folder.session, _inside(folder, name)):
                del known[name]
        for name in recorded - known.keys():
            if _may_be_gone(folder, name):
                known[name] = name
    order = list(known)
    found = note(folder, reading(folder, "list", {"names": sorted(order)}), order)
    if isinstance(found, list) and sorted(found) == sorted(order):
        order = found
    return [*(known[name] for name in order), *ours]


def _inside(folder: Watched, name: str) -> str:
    return name if folder.name == "." else f"{folder.name}/{name}"


def _may_be_gone(folder: Watched, name: str) -> bool:
    session = folder.session
    return session.settings.policy.files.content or was_removed(session, _inside(folder, name))


def _recorded(folder: Watched) -> set[str] | None:
    """The names that the recorded program saw, if this is what it did next, here."""
    recorded, _ = upcoming(folder, "list") or ({}, False)
    names = recorded.get("names")
    return set(names) if isinstance(names, list) else None


def _listed(folder: Watched | None, listing: Callable[[], T], nothing: T) -> T:
    """``listing()``; and nothing for a folder that is gone, where a recording has what was in it."""
    try:
        return listing()
    except FileNotFoundError:
        if folder is None or not folder.session.settings.policy.files.content:
            raise
        if _recorded(folder) is None:
            raise
        return nothing


def standing_in_listdir(original: Any) -> Any:
    """``os.listdir``."""

    def listdir(_: Any, path: Any = None) -> Any:
        folder = watched("." if path is None else path, 1)
        names: list[Any] = _listed(folder, lambda: original(path), [])
        if folder is None:
            return names
        if isinstance(path, bytes):
            return [os.fsencode(name) for name in _ordered(folder, [*map(os.fsdecode, names)])]
        return _ordered(folder, names)

    return like_builtin(listdir, original)


class _Entries:
    """What ``os.scandir`` gives, in another order."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing more comes."""
        self._entries = iter(())


class _Gone:
    """In place of an ``os.DirEntry``: a file that was there when the program was recorded."""

    def __init__(self, folder: Any, name: str) -> None:
        as_bytes = isinstance(folder, bytes)
        self.name: Any = os.fsencode(name) if as_bytes else name
        self.path: Any = self.name if isinstance(folder, int) else os.path.join(folder, self.name)

    def __fspath__(self) -> Any:
        return self.path

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """It was read."""
        return True

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """It was a file."""
        return False

    def is_symlink(self) -> bool:
        """Nobody knows any more."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """It is gone."""
        return os.stat(self.path, follow_symlinks=follow_symlinks)

    def inode(self) -> int:
        """As :meth:`stat`."""
        return self.stat().st_ino


def standing_in_scandir(original: Any) -> Any:
    """``os.scandir``."""

    def scandir(_: Any, path: Any = None) -> Any:
        given = "." if path is None else path
        folder = watched(given, 1)
        if folder is None:
            return original(path)
        with _listed(folder, lambda: original(path), _Entries([])) as found:
            entries = {os.fsdecode(entry.name): entry for entry in found}
        names = _ordered(folder, list(entries))
        return _Entries([entries.get(name) or _Gone(given, name) for name in names])

    return like_builtin(scandir, original)
