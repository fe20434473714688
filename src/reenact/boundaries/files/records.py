"""File roots, and the recorded and compared state of a file."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final

import msgspec

from reenact.boundaries.caller_tier import tier_of
from reenact.engine.call import Call
from reenact.engine.codecs import PlainCodec
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.errors import DivergenceError
from reenact.format.event import Data

__all__ = [
    "Tally",
    "Watched",
    "change",
    "check_allowed",
    "contents",
    "failure",
    "is_regular",
    "note",
    "readable",
    "reading",
    "state_at",
    "state_of",
    "upcoming",
    "watched",
]

_open, _pread, _fstat = open, os.pread, os.fstat
_PIECE: Final = 1 << 20


class Tally:
    """Digest and size of data that is written in pieces."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._size = 0

    def add(self, data: Any) -> None:
        """Add ``data``, which is bytes or a buffer."""
        self._hash.update(data)
        self._size += memoryview(data).nbytes

    def state(self) -> Data:
        """Return the digest and size of the data so far."""
        return {"digest": f"sha256:{self._hash.hexdigest()}", "size": self._size}


def is_regular(fd: int) -> bool:
    """Return whether ``fd`` is a regular file."""
    return stat.S_ISREG(_fstat(fd).st_mode)


def state_of(fd: int) -> Data:
    """Return the state of an open file, independent of its read position.

    Raises :class:`OSError`.
    """
    tally, at = Tally(), 0
    while piece := _pread(fd, _PIECE, at):
        tally.add(piece)
        at += len(piece)
    return tally.state()


def contents(fd: int) -> bytes:
    """Return the complete content of an open file. Raises :class:`OSError`."""
    pieces, at = [], 0
    while piece := _pread(fd, _PIECE, at):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


def state_at(place: str) -> Data:
    """Return the state of the file ``place``, or the reason why it cannot be read.

    Return an empty dict if it is not a regular file.
    """
    try:
        if not stat.S_ISREG(os.stat(place).st_mode):
            return {}
        with _open(place, "rb") as file:
            return state_of(file.fileno())
    except OSError as error:
        return failure(error)


def failure(error: OSError) -> Data:
    """Return the recorded form of a failure to read a file."""
    if isinstance(error, FileNotFoundError):
        return {"missing": True}
    return {"error": type(error).__name__}


_frame = sys._getframe

_THROUGH: Final = frozenset(
    "bz2 codecs configparser fileinput functools genericpath glob gzip io lzma os pathlib posixpath "
    "shutil tarfile tomllib zipfile".split()
)
"""Modules of the standard library that read and write on behalf of their callers."""

_HANDED_OVER: Final = frozenset({"anyio", "asyncio", "concurrent", "threading"})
"""Modules that run functions of the program in other threads."""


class Watched(msgspec.Struct, frozen=True):
    """File under a root.

    ``path`` is the path that the program used, ``place`` the absolute path, and ``name`` the
    recorded name, which is the same on every machine.
    """

    session: Session
    path: Any
    place: str
    name: str


def watched(path: Any, depth: int, folder: int | None = None) -> Watched | None:
    """Return the file ``path`` if it is under a root of the current session, otherwise None.

    The code ``depth`` frames above must work for the program. ``folder`` is the descriptor of the
    folder that the path is relative to. The path can be a descriptor itself.
    """
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
        return None  # not a valid path; the called function raises the error


def _of_descriptor(fd: int) -> str:
    if sys.platform == "darwin":
        from fcntl import F_GETPATH, fcntl

        return os.fsdecode(fcntl(fd, F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{fd}")


def _name(place: str, session: Session) -> str | None:
    """Return the recorded name of a path, or None for Reenact's own files and paths outside all
    roots."""
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
    """Return ``place`` relative to ``root``, or None if it is not below it."""
    if place == root:
        return ""
    start = root.rstrip(os.sep) + os.sep
    return place[len(start) :] if place.startswith(start) else None


def readable(name: str) -> str:
    """Return a file name as valid text. File names are bytes, which are not always text."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _is_plumbing(frame: FrameType | None) -> bool:
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        top = name.partition(".")[0]
        # Several of Reenact's functions can be on the stack: the caller is above them.
        if top not in _THROUGH and top != "reenact":
            return top not in _HANDED_OVER and tier_of(frame.f_globals) == "plumbing"
        frame = frame.f_back
    return True


class _Seen(PlainCodec):
    """Answers that are read from the file itself; ``kept`` is recorded with them."""

    def __init__(self, kept: Any) -> None:
        self._kept = kept

    def dump(self, call: Call, result: Any) -> Data:
        more = {} if self._kept is None else {"response": self._kept}
        return {"instant": True, **more}

    def load(self, call: Call, data: Data) -> Any:
        return data.get("response")


def reading(file: Watched, verb: str, seen: Data) -> Call:
    """Return the call for reading a file or folder with the state ``seen``."""
    return Call(
        type="nondeterministic",
        capability="fs.read",
        operation=f"{verb} {file.name}",
        request={"path": file.name, **seen},
        source="fs",
        instant=True,
    )


def upcoming(file: Watched, verb: str) -> tuple[Data, bool] | None:
    """Return the recorded state of ``file``, and whether the recording has its content.

    Returns None if reading the file is not the next recorded operation, or if a rule lets it pass.
    """
    entry, operation = file.session.decisions.upcoming(), f"{verb} {file.name}"
    if entry is None or entry.kind != "fs" or entry.operation != operation:
        return None
    if file.session.settings.policy.action_for("fs.read", operation) == "pass":
        return None
    data = entry.opening.data
    request = data.get("request")
    if not isinstance(request, dict):
        return None
    seen = {name: item for name, item in request.items() if name != "path"}
    return seen, "response" in data


def change(kind: str, details: Data) -> Call:
    """Return the call for a change of a file."""
    return Call(
        type="state_mutation",
        capability="fs.write",
        operation=kind,
        request={"type": kind, "details": details},
        instant=True,
        observed=True,
    )


def note(file: Watched, call: Call, kept: Any = None) -> Any:
    """Record ``call`` with the value ``kept``. In a replay, return the recorded value.

    A call that differs is a divergence. A lenient replay continues without a value. Raises
    :class:`PolicyRefused` if the policy refuses the call.
    """
    session = file.session
    try:
        return session.gateway.call(call, lambda: None, _Seen(kept))
    except DivergenceError:
        if session.machine.strict:
            raise
        return None


def check_allowed(file: Watched, kind: str) -> None:
    """Raise :class:`PolicyRefused`, before anything has happened to ``file``, where the policy does
    not allow such a change."""
    session = file.session
    with session.lock:
        refusal = session.machine.refusal(change(kind, {"path": file.name}))
    if refusal is not None:
        raise session.redacted(refusal)
