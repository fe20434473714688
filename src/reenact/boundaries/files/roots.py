"""Which files are looked at, and what recordings call them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final

import msgspec

from reenact.boundaries.callers import tier_of
from reenact.engine.session.current import current
from reenact.engine.session.session import Session

__all__ = ["Watched", "readable", "watched"]

_frame = sys._getframe

_THROUGH: Final = frozenset(
    "bz2 codecs configparser fileinput functools genericpath glob gzip io lzma os pathlib posixpath "
    "shutil tarfile tomllib zipfile".split()
)
"""Of the standard library: they read and write for whoever calls them."""

_HANDED_OVER: Final = frozenset({"anyio", "asyncio", "concurrent", "threading"})
"""They run what somebody has given to them, in a thread: that of the program's lane."""


class Watched(msgspec.Struct, frozen=True):
    """A file that is looked at: ``path`` is what the program calls it, ``place`` where it is, and
    ``name`` what recordings call it, the same on every machine."""

    session: Session
    path: Any
    place: str
    name: str


def watched(path: Any, depth: int, folder: int | None = None) -> Watched | None:
    """The file ``path``, if it is under a root of the session here, and whoever is ``depth`` frames
    above works for the program; else None. ``folder`` is a descriptor that the path begins at, and
    the path may be a descriptor itself."""
    session = current()
    if session is None or not session.settings.files or not session.is_active:
        return None
    if session.settings.only is not None:
        return None  # a net tape
    place = _place(path, folder)
    name = None if place is None else _name(place, session)
    if place is None or name is None or _is_plumbing(_frame(depth + 1)):
        return None
    return Watched(session, path, place, name)


def _place(path: Any, folder: int | None) -> str | None:
    try:
        if isinstance(path, int):
            return _of_descriptor(path)
        text = os.fsdecode(path)
        if folder is not None and not os.path.isabs(text):
            return os.path.normpath(os.path.join(_of_descriptor(folder), text))
        return os.path.abspath(text)
    except (OSError, TypeError):
        return None  # nothing that could be opened; whoever is called says so


def _of_descriptor(fd: int) -> str:
    if sys.platform == "darwin":
        from fcntl import F_GETPATH, fcntl

        return os.fsdecode(fcntl(fd, F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{fd}")


def _name(place: str, session: Session) -> str | None:
    """None for what is under no root, and for what is ours."""
    settings = session.settings
    if any(_below(place, own) is not None for own in settings.files_apart):
        return None
    return _called(place, settings.files)


def _called(place: str, roots: Sequence[tuple[str, str]]) -> str | None:
    for root, called in roots:
        rest = _below(place, root)
        if rest is not None:
            return readable(os.path.normpath(os.path.join(called, rest)))
    return None


def _below(place: str, root: str) -> str | None:
    """``place`` as seen from ``root``; None where it is not below."""
    if place == root:
        return ""
    start = root.rstrip(os.sep) + os.sep
    return place[len(start) :] if place.startswith(start) else None


def readable(name: str) -> str:
    """``name`` as text. Names of files are bytes, and not all of them are text."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _is_plumbing(frame: FrameType | None) -> bool:
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        top = name.partition(".")[0]
        # Several of our own functions may stand in for one: the caller is beyond them.
        if top not in _THROUGH and top != "reenact":
            return top not in _HANDED_OVER and tier_of(frame.f_globals) == "plumbing"
        frame = frame.f_back
    return True
