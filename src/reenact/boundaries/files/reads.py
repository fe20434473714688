"""Reads of files and folders.

A replay checks the content of a file when the program opens it. Folder listings have the recorded
order. The history lists the changes that the recorded run made itself.
"""

from __future__ import annotations

import errno
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from reenact.boundaries.files.records import (
    Watched,
    contents,
    failure,
    is_regular,
    note,
    readable,
    reading,
    state_of,
    upcoming,
    watched,
)
from reenact.boundaries.function_patches import like_builtin
from reenact.engine.session.context import OUTSIDE, enter_session, leave_session
from reenact.engine.session.session import Session
from reenact.errors import RecordingError
from reenact.format.event import Data
from reenact.store.reader import open_recording

__all__ = [
    "open_for_reading",
    "standing_in_listdir",
    "standing_in_scandir",
    "was_left_so",
    "was_made",
    "was_removed",
]

_ANY: Final = "any"
_MISSING: Final = "missing"

_States = dict[str, set[str]]
_known: WeakKeyDictionary[Session, _States] = WeakKeyDictionary()


def was_left_so(file: Watched, seen: Data) -> bool:
    """Return whether the recorded run left ``file`` in its current state ``seen``."""
    states = _states(file.session).get(file.name, set())
    now = _MISSING if seen.get("missing") else seen.get("digest")
    return now in states or (_ANY in states and now != _MISSING)


def was_made(session: Session, name: str) -> bool:
    """Return whether the recorded run wrote to the file ``name``, or to a file below it."""
    return any(one == name or one.startswith(f"{name}/") for one in _states(session))


def was_removed(session: Session, name: str) -> bool:
    """Return whether the recorded run removed the file ``name``."""
    return _MISSING in _states(session).get(name, set())


def _states(session: Session) -> _States:
    found = _known.get(session)
    if found is None:
        found = _known[session] = _read(session)
    return found


def _read(session: Session) -> _States:
    states: defaultdict[str, set[str]] = defaultdict(set)
    place = session.settings.path
    if place is None:
        return states
    try:
        with open_recording(place) as source:
            for event in source:
                if event.type == "state_mutation":
                    for name, state in _effects(event.data):
                        states[name].add(state)
    except RecordingError:  # the replay reports it when it reads the recording
        return states
    return states


def _effects(data: Data) -> Iterator[tuple[str, str]]:
    """Yield the files of a recorded change, with their state after it."""
    details: Any = data.get("details")
    if not isinstance(details, dict):
        return
    name, to, digest = (details.get(key) for key in ("path", "to", "digest"))
    kind = data.get("type")
    if isinstance(to, str):
        yield to, digest if isinstance(digest, str) else _ANY
    if isinstance(name, str):
        gone = kind in ("file_delete", "file_rename")
        yield name, _MISSING if gone else digest if isinstance(digest, str) else _ANY


T = TypeVar("T")


def open_for_reading(
    file: Watched,
    opening: Callable[[], T],
    fileno: Callable[[T], int],
    serving: Callable[[int], T] | None = None,
) -> T:
    """Open a file and record its content.

    ``serving`` opens a descriptor of recorded content instead. A replay uses it if the recording
    has the content, and the file was deleted or the recorded run itself changed it.
    """
    try:
        opened = opening()
    except OSError as error:
        return _note_failure(file, error, serving)
    try:
        if not is_regular(fileno(opened)):
            return opened
        return _note_state(file, opened, fileno(opened), serving)
    except BaseException:
        _close(opened)
        raise


def _note_failure(file: Watched, error: OSError, serving: Callable[[int], T] | None) -> T:
    seen = failure(error)
    recorded, kept = upcoming(file, "read") or ({}, False)
    if serving is not None and kept and "missing" in seen:
        return serving(_descriptor(note(file, reading(file, "read", recorded))))
    note(file, reading(file, "read", seen))
    raise error


def _note_state(file: Watched, opened: T, fd: int, serving: Callable[[int], T] | None) -> T:
    seen = state_of(fd)
    recorded, kept = upcoming(file, "read") or (seen, False)
    if recorded != seen and was_left_so(file, seen):
        if recorded.get("missing") is True:
            note(file, reading(file, "read", recorded))
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file.path)
        if serving is not None and kept:
            served = serving(_descriptor(note(file, reading(file, "read", recorded))))
            _close(opened)
            return served
    keeps = file.session.settings.policy.files.content
    note(file, reading(file, "read", seen), _as_text(contents(fd)) if keeps else None)
    return opened


def _as_text(content: bytes) -> str | bytes:
    """Return text content as text, so that it is readable and redaction can search it."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content


def _descriptor(content: str | bytes) -> int:
    """Return the descriptor of a new file with ``content``.

    It is in memory if possible, because the content can be secret.
    """
    token = enter_session(OUTSIDE)
    try:
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("reenact")
        else:
            from tempfile import TemporaryFile  # not on Linux

            with TemporaryFile() as file:
                fd = os.dup(file.fileno())
        with open(fd, "wb", closefd=False) as whole:
            whole.write(content.encode("utf-8") if isinstance(content, str) else content)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd
    finally:
        leave_session(token)


def _close(opened: Any) -> None:
    if isinstance(opened, int):
        os.close(opened)
    else:
        opened.close()


def _ordered(folder: Watched, names: list[str]) -> list[str]:
    """Return the names of the folder as the recorded program saw them. ``names`` are the current
    ones.

    Reenact's own files come last and are not recorded. Files that the recorded run created or
    removed since then, and files that the recording can serve, are listed as they were recorded.
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
    """Return the recorded names if listing the folder is the next recorded operation, otherwise
    None."""
    recorded, _ = upcoming(folder, "list") or ({}, False)
    names = recorded.get("names")
    return set(names) if isinstance(names, list) else None


def _listed(folder: Watched | None, listing: Callable[[], T], nothing: T) -> T:
    """Return ``listing()``, or ``nothing`` for a deleted folder whose listing is recorded."""
    try:
        return listing()
    except FileNotFoundError:
        if folder is None or not folder.session.settings.policy.files.content:
            raise
        if _recorded(folder) is None:
            raise
        return nothing


def standing_in_listdir(original: Any) -> Any:
    """Replace ``os.listdir``."""

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
    """Result of ``os.scandir`` in the recorded order."""

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
        """Drop the remaining entries."""
        self._entries = iter(())


class _Gone:
    """Replacement of an ``os.DirEntry``, for a recorded file that no longer exists."""

    def __init__(self, folder: Any, name: str) -> None:
        as_bytes = isinstance(folder, bytes)
        self.name: Any = os.fsencode(name) if as_bytes else name
        self.path: Any = self.name if isinstance(folder, int) else os.path.join(folder, self.name)

    def __fspath__(self) -> Any:
        return self.path

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return True, because only recorded files have such an entry."""
        return True

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return False, because only recorded files have such an entry."""
        return False

    def is_symlink(self) -> bool:
        """Return False, because links are not recorded."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Call ``os.stat``, which fails for the missing file."""
        return os.stat(self.path, follow_symlinks=follow_symlinks)

    def inode(self) -> int:
        """Return the inode number, which fails for the missing file."""
        return self.stat().st_ino


def standing_in_scandir(original: Any) -> Any:
    """Replace ``os.scandir``."""

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
