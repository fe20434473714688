"""Working directory and home directory of the program.

Programs look for files in both directories. So only the user"s own modules get the recorded directory,
only if it exists, and not after the program has changed the directory. Relative paths, and paths
derived from them (``os.path.abspath``, ``Path.resolve``), always refer to the present directory.

These functions read environment variables themselves, as a library does. They are therefore not
part of the module of the variables, whose own frames are skipped in the search for the caller.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import wraps
from types import FrameType, ModuleType
from typing import Any, Final

from reenact.boundaries.caller_tier import tier_of
from reenact.boundaries.function_patches import Rebinding, like_builtin
from reenact.boundaries.host.facts import as_written, check_allowed, tell, told_in
from reenact.engine.patches.patch import Installable
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.format.draw_runs import CHDIR

_frame = sys._getframe

__all__ = ["home_directory_patches", "working_directory_patches"]

_CURRENT: Final = "os.getcwd"
_HOME: Final = "os.path.expanduser"


def working_directory_patches(module: ModuleType) -> list[Installable]:
    """The patches of the module ``os``."""
    made = {"getcwd": _getcwd, "getcwdb": _getcwdb, "chdir": _going, "fchdir": _going}
    return [Rebinding(module, made)]


def home_directory_patches(module: ModuleType) -> list[Installable]:
    """The patches of the module ``os.path``."""
    return [Rebinding(module, {"expanduser": _expanduser})]


def _user_asks(session: Session, *ways: str) -> bool:
    """Is it one of the user's own modules, maybe by way of these methods of ``Path``? Raises what
    the policy refuses with."""
    frame: FrameType | None = _frame(2)
    way = None
    while frame is not None and _is_pathlib(frame):
        way, frame = frame.f_code.co_name, frame.f_back
    if frame is None or (way is not None and way not in ways):
        return False
    check_allowed(session, frame.f_globals)
    return tier_of(frame.f_globals) == "user"


def _is_pathlib(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "pathlib"


def _getcwd(original: Any) -> Any:
    def getcwd(_: Any) -> str:
        session, now = current(), original()
        if session is None or told_in(session).has_moved or not _user_asks(session, "cwd"):
            return str(now)
        return _there(session, _CURRENT, now)

    return like_builtin(getcwd, original)


def _getcwdb(original: Any) -> Any:
    def getcwdb(_: Any) -> bytes:
        session, now = current(), original()
        if session is None or told_in(session).has_moved or not _user_asks(session):
            return bytes(now)
        return os.fsencode(_there(session, _CURRENT, os.fsdecode(now)))

    return like_builtin(getcwdb, original)


def _there(session: Session, name: str, now: str) -> str:
    """Return the recorded folder.

    If the program cannot use it, return the current one and warn the user.
    """
    then = os.fsdecode(tell(session, told_in(session).others, name, as_written(now)))
    if then == now or (os.path.isdir(then) and os.access(then, os.X_OK)):
        return then
    session.warn_once(
        f"the recorded folder {then} is not on this machine: the program gets {now} instead"
    )
    return now


def _going(original: Any) -> Any:
    """Record a change of the working directory as ``cwd_change``, by any caller. It is never a
    divergence, because paths differ between machines."""

    def go(_: Any, *args: Any, **kwargs: Any) -> None:
        session = current()
        before = _present()
        original(*args, **kwargs)
        after = _present()
        if session is not None and after != before:
            told_in(session).has_moved = True
            if after is not None:
                name = os.fsencode(after).decode("utf-8", "replace")
                session.draws.draw_aside(f"env {CHDIR} {name}", lambda: None)

    return like_builtin(go, original)


def _present() -> str | None:
    with suppress(OSError):  # it was removed
        return os.getcwd()
    return None


def _expanduser(original: Any) -> Any:
    @wraps(original)
    def expanduser(path: Any) -> Any:
        session = current()
        if session is None or not _user_asks(session, "expanduser", "home"):
            return original(path)
        text = os.fspath(path)
        rest = os.fsdecode(text).removeprefix("~")
        is_own = "HOME" in told_in(session).own
        if rest == os.fsdecode(text) or rest[:1] not in ("", os.sep) or is_own:
            return original(path)
        whole = _there(session, _HOME, original("~")).rstrip(os.sep) + rest or os.sep
        return os.fsencode(whole) if isinstance(text, bytes) else whole

    return expanduser
