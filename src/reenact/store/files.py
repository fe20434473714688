"""Files of recordings: names, paths, opening, atomic replacement, locks, removal, descriptors.

Only regular files are read, because opening a FIFO can block forever and opening a device can have
side effects. Files and folders are created for their owner only, independent of the umask.

A program that turns itself into a daemon closes all descriptors, and its own files then get the
numbers of the recording's files. Sessions therefore protect the descriptors that are held here.

A capture directory is removed in steps, and the caller holds the lock until the last one. A kill
between two steps leaves either a recording that can be recovered or a directory without events that
can be overwritten.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final

from reenact._system import entropy
from reenact.errors import RecordingDamaged, SinkUnwritable
from reenact.policy.paths import FOLDER

__all__ = [
    "BLOBS",
    "CLOSING",
    "EVENTS",
    "MANIFEST",
    "MERGED",
    "OPEN",
    "PRIVATE_FILE",
    "PRIVATE_FOLDER",
    "SEALED",
    "SEALED_MERGED",
    "SEGMENTS",
    "SIGNATURE",
    "STREAMS",
    "TORN",
    "close_descriptor",
    "create_locked",
    "create_private",
    "drop_capture",
    "drop_empty_segments",
    "drop_folder",
    "drop_marks",
    "folder_lock",
    "folder_size",
    "foreign_entries",
    "forget_descriptor",
    "free_sibling",
    "held_descriptors",
    "hold_descriptor",
    "is_closing",
    "is_held_descriptor",
    "is_locked",
    "is_open_as",
    "looks_recorded",
    "make_private_folder",
    "new_capture_path",
    "not_removed",
    "open_regular",
    "read_regular",
    "regular_descriptor",
    "remove_tree",
    "replace_file",
    "runs_folder",
    "segment_files",
    "sync_file",
    "try_folder_lock",
    "try_lock",
    "unwritable",
    "write_private",
    "write_whole",
]

_close = os.close  # before a session makes it the program's
_held: set[int] = set()


def hold_descriptor(fd: int) -> int:
    """``fd`` is ours from now on. Returns it."""
    _held.add(fd)
    return fd


def is_held_descriptor(fd: int) -> bool:
    """Is ``fd`` one of ours?"""
    return fd in _held


def held_descriptors(low: int, high: int) -> list[int]:
    """Return the held descriptors from ``low`` up to but excluding ``high``, in order."""
    return sorted(fd for fd in _held if low <= fd < high)


def forget_descriptor(fd: int) -> None:
    """``fd`` is about to be closed by its file object."""
    _held.discard(fd)


def close_descriptor(fd: int) -> None:
    """Close ``fd``, which may be one of ours."""
    _held.discard(fd)
    _close(fd)


PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700

_KINDS: Final = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def regular_descriptor(path: Path) -> int:
    """Open a regular file for reading. A symbolic link is followed.

    Raises OSError, and :class:`RecordingDamaged` for anything that is neither a file nor a folder.
    """
    _check(path, os.stat(path).st_mode)
    # It can have been replaced since: opening it does not wait, and the descriptor is checked again.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _check(path, os.fstat(fd).st_mode)
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_regular(path: Path, buffering: int = -1) -> BinaryIO:
    """Open a regular file for reading. Raises as :func:`regular_descriptor`."""
    fd = regular_descriptor(path)
    try:
        return open(fd, "rb", buffering=buffering)
    except BaseException:
        os.close(fd)
        raise


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file. Raises as :func:`regular_descriptor`."""
    with open_regular(path, 0) as file:
        return file.read()


def _check(path: Path, mode: int) -> None:
    for is_kind, name in _KINDS:
        if is_kind(mode):
            raise RecordingDamaged(
                f"{path} is {name}, expected a regular file",
                place=f"file {path.name}",
                hint="do not trust this recording; get another copy",
            )


def create_private(path: Path | str, flags: int = os.O_TRUNC) -> int:
    """Create a file that its owner alone can read, and return its descriptor for writing."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, PRIVATE_FILE)


def write_private(path: Path | str, content: bytes) -> None:
    """Write a file that its owner alone can read. A file that is already there keeps its mode."""
    with open(create_private(path), "wb") as file:
        file.write(content)


def write_whole(fd: int, content: bytes, size: int) -> None:
    """Append to a file of ``size`` bytes, all or nothing: what came out short is cut off again."""
    try:
        written = os.write(fd, content)
        while written < len(content):
            written += os.write(fd, content[written:])
    except OSError:
        with suppress(OSError):
            os.ftruncate(fd, size)
        raise


def make_private_folder(path: Path, *, exist_ok: bool = True) -> None:
    """Create a folder that its owner alone can enter. Missing parents get the usual mode."""
    path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=exist_ok)


def remove_tree(folder: Path) -> None:
    """Remove ``folder`` and what it contains. Errors are ignored."""
    import shutil  # on use, because it imports three compression modules

    shutil.rmtree(folder, ignore_errors=True)


def sync_file(path: Path) -> None:
    """Make the contents of a file (on POSIX also: the entries of a folder) durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


_CREATE: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_REPLACE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
_SHARED_FILE: Final = 0o666


def replace_file(path: Path, content: bytes, *, sync: bool = True, private: bool = True) -> None:
    """Write a temporary file, sync, rename. A ``private`` file is readable by its owner only."""
    beside = path.with_name(f"{path.name}.tmp")
    mode = PRIVATE_FILE if private else _SHARED_FILE
    try:
        with open(os.open(beside, _REPLACE, mode), "wb") as file:
            file.write(content)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    if sync:
        sync_file(path.parent)


def try_lock(fd: int) -> bool:
    """Take the exclusive lock on an open file; False when another process has it.

    The kernel frees it when the last copy of ``fd`` is closed, so a killed writer leaves none.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def create_locked(path: Path) -> int:
    """Create a file that must not exist, open it for appending and lock it.

    The call waits for the lock: only a process that tests for the lock can hold it, and only
    briefly.
    """
    fd = os.open(path, _CREATE, PRIVATE_FILE)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


@contextmanager
def try_folder_lock(folder: Path) -> Iterator[bool]:
    """Hold the lock of a folder for the duration; yields False when another process has it."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield try_lock(fd)
    finally:
        os.close(fd)


@contextmanager
def folder_lock(folder: Path, *, shared: bool) -> Iterator[None]:
    """Hold the lock of a folder for the duration; waits for it, so it must only be held briefly."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)  # a child that was forked meanwhile has a copy of it
        os.close(fd)


def is_locked(path: Path) -> bool:
    """Does a living process hold the claim on ``path``?"""
    try:
        fd = regular_descriptor(path)
    except FileNotFoundError:
        return False
    try:
        return not try_lock(fd)
    finally:
        os.close(fd)


def folder_size(folder: Path | str) -> int:
    """The bytes of all files below ``folder``. Raises OSError."""
    total = 0
    with os.scandir(folder) as found:
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                total += folder_size(entry.path)
            else:
                total += entry.stat(follow_symlinks=False).st_size
    return total


def unwritable(path: Path, error: OSError | ValueError) -> SinkUnwritable:
    """The refusal for a place that cannot be written. (A name with a NUL is a ValueError.)"""
    reason = getattr(error, "strerror", None) or str(error)
    return SinkUnwritable(
        f"cannot write a recording at {path}: {reason}",
        hint="choose a place that exists, has room and is yours to write",
        errno=getattr(error, "errno", None),
    )


MANIFEST = "manifest.json"
EVENTS = "events.jsonl"
BLOBS = "blobs"
SEALED = "sealed"
SIGNATURE = "manifest.sig"
TORN = "torn"
"""Bytes that recovery cut off. They are not part of the recording, but nothing is lost."""

OPEN = "open.json"
CLOSING = "closing"
"""Finalising has begun: no other process joins any more."""

SEGMENTS = "segments"
MERGED = "merged.jsonl"
"""A complete merge that has not taken the place of ``events.jsonl`` yet."""

SEALED_MERGED = "sealed.merged"

STREAMS = f"{EVENTS}.streams"
"""The journal of the first process: calls whose answer is still coming."""

_FINISHED = frozenset({MANIFEST, EVENTS, BLOBS, SEALED, SIGNATURE, TORN})
_MARKS = (CLOSING, OPEN)
_UNFINISHED = frozenset({*_MARKS, SEGMENTS, MERGED, SEALED_MERGED, STREAMS})


def segment_files(folder: Path) -> list[Path]:
    """The logs of the other processes, in a stable order."""
    segments = folder / SEGMENTS
    return sorted(segments.glob("*.jsonl")) if segments.exists() else []


def looks_recorded(folder: Path) -> bool:
    """Is this a recording, finished or not, and nothing else?"""
    names = {entry.name.removesuffix(".tmp") for entry in folder.iterdir()}
    return bool(names & {MANIFEST, OPEN, EVENTS}) and names <= _FINISHED | _UNFINISHED


def is_closing(folder: Path) -> bool:
    """Has finalising begun, or even ended?"""
    return (folder / CLOSING).exists() or (folder / MANIFEST).exists()


def drop_marks(folder: Path) -> None:
    """Remove the marks of an open recording after the manifest has been written."""
    for name in _MARKS:
        (folder / name).unlink(missing_ok=True)


def drop_empty_segments(folder: Path) -> None:
    """The folder of a process that ended before it had a segment."""
    with suppress(OSError):
        (folder / SEGMENTS).rmdir()


def foreign_entries(folder: Path) -> list[Path]:
    """Return the entries that do not belong to a finished capture directory.

    A directory with a valid manifest is complete. A kill directly after writing it leaves the marks
    of the writer, which recovery removes.
    """
    known = _FINISHED.union(_MARKS)
    return sorted(entry for entry in folder.iterdir() if entry.name not in known)


def runs_folder(root: Path) -> Path:
    """Return the folder for captures without an explicit path."""
    return root / FOLDER / "runs"


def new_capture_path(root: Path) -> Path:
    """A capture of our own naming; names sort by time. Captures are not for a repository.

    Raises :class:`SinkUnwritable` where the folder for captures cannot be created.
    """
    folder = runs_folder(root)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ignored = folder / ".gitignore"
        if not ignored.exists():
            ignored.write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise unwritable(folder, error) from None
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    return folder / f"{stamp}-{entropy(2).hex()}"


def free_sibling(place: Path) -> Path:
    """``place`` if there is nothing, else the first of ``place-2``, ``place-3`` … that is free. It is
    created, so that no other process takes it.

    Raises :class:`SinkUnwritable` where it cannot be created.
    """
    try:
        if not place.exists() or (place.is_dir() and not any(place.iterdir())):
            return place
        for number in count(2):
            beside = place.with_name(f"{place.name}-{number}")
            with suppress(FileExistsError):
                beside.mkdir()
                return beside
    except OSError as error:
        raise unwritable(place, error) from None
    raise AssertionError("unreachable: the numbers do not end")


# Blobs, half-written ones too, the logs and sealed values of processes, and what was torn off.
_OURS = re.compile(
    r"[0-9a-f]{64}(?:\..*)?|.+\.(?:jsonl|sealed)(?:\.tail(?:\.[0-9]+)?)?|.+\.streams"
)


def drop_capture(folder: Path, *, made: bool) -> None:
    """Remove an unfinished capture directory; the folder itself only when the writer ``made`` it.

    Raises OSError.
    """
    # Without its events a sealed value means nothing; without these an event is still an event.
    _drop_files(folder, SEALED, SEALED_MERGED)
    _drop_files(folder, STREAMS, f"{STREAMS}.tmp", MERGED, EVENTS)
    for name in (SEGMENTS, BLOBS, TORN):
        drop_folder(folder / name)
    _drop_files(folder, f"{MERGED}.tmp", f"{MANIFEST}.tmp", CLOSING, OPEN)
    if made:
        _drop_empty(folder)


def drop_folder(folder: Path) -> None:
    """Remove what a writer puts into a folder of a recording; anything else keeps it there."""
    for parent, _, names in os.walk(folder, topdown=False):
        _drop_files(Path(parent), *filter(_OURS.fullmatch, names))
        _drop_empty(Path(parent))


def _drop_files(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)


def _drop_empty(folder: Path) -> None:
    with suppress(OSError):  # it holds something that is not ours
        folder.rmdir()


def is_open_as(path: Path, fd: int) -> bool:
    """Return whether ``path`` is the file that is open as ``fd``. A negative ``fd`` never matches."""
    try:
        return fd >= 0 and os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def not_removed(path: Path, error: OSError) -> SinkUnwritable:
    """The error for a recording that was given up and could not be removed."""
    return SinkUnwritable(
        f"the recording at {path} was given up but cannot be removed: {error.strerror or error}",
        hint="remove it by hand",
        errno=error.errno,
    )
