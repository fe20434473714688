"""Origin of an action: program, library, standard library, or Reenact itself.

Derived from the stack.

Reenact's own connections, such as the one of an app agent to its server, are not part of the
program. They are exempt from refusal while they are being made, in the thread that makes them.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any, Final, Literal

from reenact.policy.drivers import driver_of

__all__ = [
    "CodeKind",
    "acting_as",
    "acting_library",
    "calling_module",
    "code_kind",
    "importing_module",
    "is_importing",
    "is_own_connection",
    "own_connection",
    "source_location",
]


class _Here(threading.local):
    depth = 0


_here = _Here()


@contextmanager
def own_connection() -> Iterator[None]:
    """Mark lookups and connections of this thread in the block as Reenact's own.

    No code of the program must run in it.
    """
    _here.depth += 1
    try:
        yield
    finally:
        _here.depth -= 1


def is_own_connection() -> bool:
    """Is this thread making a connection of our own?"""
    return _here.depth > 0


CodeKind = Literal["ours", "standard", "library", "program"]

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_IMPORTS = "_find_and_load_unlocked"
_DEPTH = 16
"""Frames from an import to its finders, at most."""

_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


def code_kind(filename: str) -> CodeKind:
    """Whose code is in the file ``filename``, as a code object names it?"""
    if filename.startswith(_OURS):
        return "ours"
    if filename.startswith("<frozen "):
        return "standard"
    if any(folder in filename for folder in _INSTALLED):
        return "library"
    return "standard" if filename.startswith(_STANDARD) else "program"


def _frames() -> Iterator[FrameType]:
    """The frames that execute here, the innermost first, without ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if code_kind(frame.f_code.co_filename) != "ours":
            yield frame
        frame = frame.f_back


def source_location() -> str:
    """``lib/client.py:12, called from app.py:3``: the innermost line that is not the standard
    library's, and the program's own. Empty where there is none, as in a worker's thread."""
    found: list[str] = []
    for frame in _frames():
        kind = code_kind(frame.f_code.co_filename)
        if kind == "standard":
            continue
        if kind == "program" or not found:
            found.append(f"{_short(frame.f_code.co_filename)}:{frame.f_lineno}")
        if kind == "program":
            break
    return ", called from ".join(found)


def _short(filename: str) -> str:
    for folder in _INSTALLED:
        _, found, rest = filename.rpartition(folder)
        if found:
            return rest
    try:
        beside = os.path.relpath(filename)
    except (OSError, ValueError):  # the working directory was deleted, or a file has no path
        return filename
    return filename if filename.startswith("<") or beside.startswith(os.pardir) else beside


def is_importing(name: str) -> bool:
    """Is ``name`` really being imported, and not only looked for?"""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_DEPTH):
        if frame is None:
            return False
        if frame.f_code.co_name == _IMPORTS and frame.f_locals.get("name") == name:
            return True
        frame = frame.f_back
    return False


def importing_module() -> tuple[str, CodeKind]:
    """Return the name of the importing module, and its kind of code."""
    for frame in _frames():
        name = frame.f_globals.get("__name__", "")
        filename = frame.f_code.co_filename
        if name.partition(".")[0] != "importlib" and not filename.startswith("<frozen importlib"):
            return name, code_kind(filename)
    return "", "standard"


def calling_module(through: frozenset[str]) -> str:
    """The name of the innermost module that is none of ``through``; empty for one that only
    calls itself so."""
    for frame in _frames():
        name = frame.f_globals.get("__name__", "")
        if name not in through:
            module = sys.modules.get(name)
            return name if module is not None and vars(module) is frame.f_globals else ""
    return ""


_ACTING: Final[ContextVar[str]] = ContextVar("reenact_acting_driver", default="")
"""The name of the driver that acts here without frames of its own."""


async def acting_as(driver: str, coroutine: Awaitable[Any]) -> Any:
    """Await ``coroutine`` as a part of ``driver``, whose frames do not tell that."""
    token = _ACTING.set(driver)
    try:
        return await coroutine
    finally:
        _ACTING.reset(token)


def acting_library() -> str:
    """Return the name of the library that acts here: the innermost module that belongs to a known
    driver, else to any installed package, else an empty string. The program's own lines end the
    search."""
    named = _ACTING.get()
    if named:
        return named
    installed = ""
    for frame in _frames():
        kind = code_kind(frame.f_code.co_filename)
        name = frame.f_globals.get("__name__", "")
        driver = driver_of(name)
        if driver is not None:
            return driver.name
        if kind == "program":
            break
        if kind == "library" and not installed:
            installed = name.partition(".")[0]
    return installed
