"""Reading: what is in a file when it is opened."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any, TypeVar

from reenact.boundaries.files.history import was_left_so
from reenact.boundaries.files.noting import note, reading, upcoming
from reenact.boundaries.files.roots import Watched
from reenact.boundaries.files.states import contents, failure, is_regular, state_of
from reenact.engine.session.context import OUTSIDE, enter_session, leave_session

__all__ = ["open_for_reading"]

T = TypeVar("T")


def open_for_reading(
    file: Watched,
    opening: Callable[[], T],
    fileno: Callable[[T], int],
    serving: Callable[[int], T] | None = None,
) -> T:
    """``opening()``, and a note of what is in the file then.

    ``serving`` opens a descriptor instead: it is asked for, in a replay, where the recording has
    the content, and the file is gone, or the recorded run itself has changed it.
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
    """Text is kept as text: to be read, and to be looked through for secrets."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content


def _descriptor(content: str | bytes) -> int:
    """A file of its own with ``content`` in it. In memory where there is such: it may be a secret."""
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
