"""Boundary for process ids.

In a replay the user's modules see the recorded ids. If they pass one to a function, it is
translated to the current id. Installed libraries see the current ids, because they compare them to
detect a fork. The exception is ``logging``, which writes the recorded ids. Thread ids are memory
addresses and are never replaced.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from reenact.boundaries.caller_tier import Tier, tier_of
from reenact.boundaries.function_patches import Rebinding
from reenact.boundaries.host.facts import (
    Args,
    Make,
    Module,
    Named,
    Numbers,
    standing_in,
    tell,
    told_in,
)
from reenact.engine.patches.patch import Installable, Patch
from reenact.engine.session.current import current
from reenact.engine.session.session import Session

__all__ = ["multiprocessing_patches", "os_patches", "signal_patches"]

_frame = sys._getframe
_USER: Final[tuple[Tier, ...]] = ("user",)
_ANYBODY: Final[tuple[Tier, ...]] = ("user", "library", "plumbing")
_FORK: Final = "os.fork"


def _pids(session: Session) -> Numbers:
    return told_in(session).pids


def _told(session: Session, name: str, now: int) -> int:
    told = told_in(session)
    # The program can end a process after it has read its id.
    then: int = tell(session, told.others, name, now, at_once=True)
    if then == now:
        return told.pids.then(now)  # a different id can already stand for it
    told.pids.learn(then, now)
    return then


def _identity(name: str) -> Make:
    """Return the patch of a function that returns a process id."""

    def make(original: Any) -> Any:
        def told(session: Session, module: Module, args: Args, kwargs: Named) -> Any:
            now = original(*args, **kwargs)
            asks = tier_of(module) == "user" or module["__name__"] == "logging"
            return _told(session, name, now) if asks else now

        return standing_in(original, told)

    return make


def _about(name: str) -> Make:
    """Return the patch of a function that returns an id for a given process."""

    def make(original: Any) -> Any:
        def told(session: Session, module: Module, args: Args, kwargs: Named) -> Any:
            now = original(*map(_pids(session).now, args), **kwargs)
            return _told(session, f"{name}({', '.join(map(str, args))})", now)

        return standing_in(original, told, to=_USER)

    return make


def _fork(original: Any) -> Any:
    """Replace ``fork``. The parent gets the recorded id of its child, if there is one.

    If a program forks where the recorded one did not, the operations of the child show it.
    """

    def told(session: Session, module: Module, args: Args, kwargs: Named) -> Any:
        now = original()
        if now == 0:
            return now
        then = session.draws.draw_aside(f"env {_FORK}", lambda: now)
        _pids(session).learn(then, now)
        return then

    return standing_in(original, told, to=_USER, asks=False)


def _taking(*places: int) -> Make:
    """Return the patch of a function whose arguments at ``places`` are process ids.

    Its result can be or start with one, too.
    """

    def make(original: Any) -> Any:
        def told(session: Session, module: Module, args: Args, kwargs: Named) -> Any:
            now = _pids(session).now
            given = [now(one) if at in places else one for at, one in enumerate(args)]
            return _renamed(_pids(session), original(*given, **kwargs))

        return standing_in(original, told, asks=False)

    return make


def _renamed(pids: Numbers, result: Any) -> Any:
    if type(result) is tuple and result:
        return (pids.then(result[0]), *result[1:])
    return result


def _deadly(original: Any) -> Any:
    """Replace a function that can end this process immediately. Pending draws are written first."""

    def told(session: Session, module: Module, args: Args, kwargs: Named) -> Any:
        session.draws.end(session.lanes.current())
        return original(*args, **kwargs)

    return standing_in(original, told, to=_ANYBODY, asks=False)


def _sending(original: Any) -> Any:
    """Replace a function that sends signals.

    In a replay no signal is sent to a process that the program did not start. Its id can come from
    the recording (from ``pgrep`` or a file), and a different process can have it now.
    """
    send = _deadly(original)

    def told(session: Session, module: Module, args: Args, kwargs: Named) -> Any:
        pids = _pids(session)
        given = [*map(pids.now, args[:1]), *args[1:]]
        harms = session.mode == "replay" and any(given[1:]) and tier_of(module) == "user"
        if harms and isinstance(given[0], int) and not _is_ours(pids, given[0]):
            session.warn_once(
                f"the program sends a signal to process {args[0]}, which it has not started: in a "
                "replay it is not sent"
            )
            return None
        return send(*given, **kwargs)

    return standing_in(original, told, asks=False)


def _is_ours(pids: Numbers, number: int) -> bool:
    """Return whether the process or group ``number`` belongs to the program."""
    pid = abs(number)
    if pid in (0, os.getpid(), os.getppid(), os.getpgrp()) or pids.is_known(pid):
        return True
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (OSError, OverflowError):
        return False  # no child of this process
    return True


def os_patches(module: ModuleType) -> list[Installable]:
    """Return the patches of the module ``os``."""
    scheduling = ("sched_getaffinity", "sched_getparam", "sched_getscheduler", "sched_setaffinity")
    made: Mapping[str, Make] = {
        **{name: _identity(f"os.{name}") for name in ("getpid", "getppid", "getpgrp")},
        **{name: _about(f"os.{name}") for name in ("getpgid", "getsid")},
        "fork": _fork,
        **dict.fromkeys(("pidfd_open", "wait", "wait3", "wait4", "waitpid"), _taking(0)),
        **dict.fromkeys((*scheduling, "sched_setparam", "sched_setscheduler"), _taking(0)),
        **dict.fromkeys(("getpriority", "setpriority", "waitid", "tcsetpgrp"), _taking(1)),
        "setpgid": _taking(0, 1),
        **dict.fromkeys(("kill", "killpg"), _sending),
        **dict.fromkeys(("abort", "execv", "execve"), _deadly),
    }
    return [Rebinding(module, made)]


def signal_patches(module: ModuleType) -> list[Installable]:
    """Return the patches of the module ``signal``."""
    return [Rebinding(module, dict.fromkeys(("pthread_kill", "raise_signal"), _deadly))]


def multiprocessing_patches(module: ModuleType) -> list[Installable]:
    """Return the patches of the module ``multiprocessing.process``."""
    owners = (module.BaseProcess, module._ParentProcess)
    return [Patch(owner, name, _attribute) for owner in owners for name in ("ident", "pid")]


def _attribute(original: property) -> property:
    read: Callable[[Any], int | None] | None = original.fget
    assert read is not None

    def get(self: Any) -> int | None:
        session, now = current(), read(self)
        if now is None or session is None or tier_of(_frame(1).f_globals) != "user":
            return now
        return _told(session, f"multiprocessing.Process({self.name!r}).pid", now)

    return property(get, doc=original.__doc__)
