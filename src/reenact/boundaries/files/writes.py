"""Writing: when a file is closed, what is in it then; and files that get another name, or none."""

from __future__ import annotations

import gc
import io
import os
import threading
from collections.abc import Callable
from typing import Any

from reenact.boundaries.files.records import (
    Tally,
    Watched,
    change,
    check_allowed,
    note,
    state_at,
    watched,
)
from reenact.boundaries.function_patches import like_builtin
from reenact.engine.call import Call
from reenact.engine.session.current import current
from reenact.format.event import Data

__all__ = [
    "Collecting",
    "note_written",
    "open_for_writing",
    "standing_in_remove",
    "standing_in_rename",
    "standing_in_truncate",
]

_collecting = threading.local()


class Collecting:
    """Detector of a running garbage collection in this thread.

    The time when it closes an unclosed file is random, so such a close is not recorded.
    """

    def install(self) -> None:
        gc.callbacks.append(self._told)

    def remove(self) -> None:
        gc.callbacks.remove(self._told)

    def _told(self, phase: str, info: Any) -> None:
        _collecting.now = phase == "start"


class _Written(io.FileIO):
    """The raw file below what ``open`` returns: the last one to hear that it is closed."""

    _file: Watched | None = None
    _appended: Tally | None = None

    def watch(self, file: Watched, *, appends: bool) -> None:
        """Note what is in ``file`` when this is closed; or, if it is appended to, what was."""
        self._file = file
        self._appended = Tally() if appends else None

    def write(self, data: Any) -> Any:
        count = super().write(data)
        if self._appended is not None and count:
            self._appended.add(memoryview(data).cast("B")[:count])
        return count

    def close(self) -> None:
        file, self._file = self._file, None
        super().close()
        if file is not None and not getattr(_collecting, "now", False):
            note_written(file, self._appended)


def note_written(file: Watched, appended: Tally | None = None) -> None:
    """Record that the program has closed ``file`` after writing.

    Nothing is recorded if the session has ended, or if a different session is current.
    """
    if current() is not file.session or not file.session.is_active:
        return
    if appended is not None:
        call = change("file_append", {"path": file.name, **appended.state()})
    else:
        call = change("file_write", {"path": file.name, **state_at(file.place)})
    note(file, call)


def open_for_writing(
    file: Watched,
    path: Any,
    mode: str,
    buffering: int,
    encoding: str | None,
    errors: str | None,
    newline: str | None,
    opener: Any,
) -> Any:
    """Return the result of ``open`` for a watched file and a valid ``mode``."""
    check_allowed(file, "file_append" if "a" in mode else "file_write")
    where = path if isinstance(path, int) else os.fspath(path)
    raw = _Written(where, mode.replace("b", "").replace("t", ""), opener=opener)
    result: Any = raw
    try:
        if buffering != 0:
            result = _buffered(raw, mode, buffering)
            if "b" not in mode:
                result = io.TextIOWrapper(result, encoding, errors, newline, buffering == 1)
                result.mode = mode
    except BaseException:
        result.close()
        raise
    raw.watch(file, appends="a" in mode)
    return result


def _buffered(raw: _Written, mode: str, buffering: int) -> Any:
    size = buffering
    if size < 2:
        size = getattr(raw, "_blksize", io.DEFAULT_BUFFER_SIZE)
    return io.BufferedRandom(raw, size) if "+" in mode else io.BufferedWriter(raw, size)


def standing_in_truncate(original: Any) -> Any:
    """Replace ``os.truncate``."""

    def truncate(_: Any, path: Any, length: int) -> None:
        file = watched(path, 1)
        if file is not None:
            check_allowed(file, "file_write")
        original(path, length)
        if file is not None:
            note_written(file)

    return like_builtin(truncate, original)


def standing_in_rename(original: Any) -> Any:
    """Replace ``os.rename`` and ``os.replace``."""

    def rename(
        _: Any,
        src: Any,
        dst: Any,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> None:
        old, new = watched(src, 1, src_dir_fd), watched(dst, 1, dst_dir_fd)

        def act() -> None:
            original(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

        file = new or old
        if file is None:
            act()
        else:
            _change(file, "file_rename", act, lambda: _renamed(old, new))

    return like_builtin(rename, original)


def _renamed(old: Watched | None, new: Watched | None) -> Data:
    """Describe a rename. A path outside all roots, such as a temporary file, is omitted."""
    details: Data = {} if old is None else {"path": old.name}
    return details if new is None else {**details, "to": new.name, **state_at(new.place)}


def standing_in_remove(original: Any) -> Any:
    """Replace ``os.remove`` and ``os.unlink``."""

    def remove(_: Any, path: Any, *, dir_fd: int | None = None) -> None:
        file = watched(path, 1, dir_fd)

        def act() -> None:
            original(path, dir_fd=dir_fd)

        if file is None:
            act()
        else:
            name = file.name
            _change(file, "file_delete", act, lambda: {"path": name})

    return like_builtin(remove, original)


def _change(file: Watched, kind: str, act: Callable[[], None], details: Callable[[], Data]) -> None:
    """Run ``act`` and record the change.

    In a replay, the change can already be done because the recorded run did it. That is not an
    error.
    """
    check_allowed(file, kind)
    try:
        act()
    except FileNotFoundError:
        call = change(kind, details())
        if not _is_next(file, call):
            raise
    else:
        call = change(kind, details())
    note(file, call)


def _is_next(file: Watched, call: Call) -> bool:
    return file.session.machine.script is not None and file.session.decisions.is_next(call)
