"""The folder that a program is in, and the one that is its user's home.

Programs look for files there. So only the user's own modules are told the recorded one, only where
there is such a folder, and not after the program has gone elsewhere by itself. What a relative path
means, and what is made of one (``os.path.abspath``, ``Path.resolve``), is always the present folder.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import wraps
from types import FrameType, ModuleType
from typing import Any, Final

from reenact.boundaries.callers import tier_of
from reenact.boundaries.host.told import as_written, check_allowed, tell, told_in
from reenact.boundaries.rebinding import Rebinding, like_builtin
from reenact.engine.patches.patch import Installable
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.format.draws import CHDIR

__all__ = ["os_seams", "path_seams"]

_frame = sys._getframe
_CURRENT: Final = "os.getcwd"
_HOME: Final = "os.path.expanduser"


def os_seams(module: ModuleType) -> list[Installable]:
    """The patches of the module ``os``."""
    made = {"getcwd": _getcwd, "getcwdb": _getcwdb, "chdir": _going, "fchdir": _going}
    return [Rebinding(module, made)]


def path_seams(module: ModuleType) -> list[Installable]:
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
    """The recorded folder. Where a program could do nothing in it, it is told the present one, and
    the user is told that."""
    then = os.fsdecode(tell(session, told_in(session).others, name, as_written(now)))
    if then == now or (os.path.isdir(then) and os.access(then, os.X_OK)):
        return then
    session.warn_once(
        f"the recorded folder {then} is not on this machine: the program is told {now}"
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
