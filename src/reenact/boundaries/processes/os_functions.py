"""Patches of the process functions of ``os``: signals, waiting, and ``system``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from reenact.boundaries.caller_tier import tier_of
from reenact.boundaries.function_patches import Rebinding, like_builtin
from reenact.boundaries.processes.relay import Relay, relay_of
from reenact.boundaries.processes.waits import has_ended
from reenact.engine.patches.patch import Installable
from reenact.engine.session.current import current

__all__ = ["patches"]


def patches(module: ModuleType) -> list[Installable]:
    """Return the patches of the module ``os``."""
    return [
        Rebinding(
            module,
            {
                **dict.fromkeys(("kill", "killpg"), _sending),
                "waitpid": _waiting_for_one,
                **dict.fromkeys(("wait", "wait3", "wait4"), _waiting_for_any),
                "system": _system,
            },
        )
    ]


def _is_plumbings() -> bool:
    """Return whether plumbing makes the call. Reenact's own frames are skipped."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("reenact."):
        frame = frame.f_back
    return frame is None or tier_of(frame.f_globals) == "plumbing"


# Signals


def _sending(original: Any) -> Any:
    def send(_: Any, pid: int, number: int, /) -> None:
        relay = relay_of(abs(pid)) if number and isinstance(pid, int) else None
        if relay is None or relay.was_signalled():
            original(pid, number)

    return like_builtin(send, original)


# Waiting


def _waiting_for_one(original: Any) -> Any:
    """Replace ``waitpid`` for a process that ``subprocess`` has started.

    The finalizer of ``subprocess`` also calls it, after the globals of this module were deleted.
    """
    is_over = sys.is_finalizing

    def waitpid(_: Any, pid: int, options: int, /) -> tuple[int, int]:
        if is_over():
            return original(pid, options)  # type: ignore[no-any-return]
        relay = relay_of(pid)
        if relay is not None and not _is_plumbings() and not _has_ended(relay, options):
            return 0, 0
        found: tuple[int, int] = original(pid, options)
        _tell(found)
        return found

    return like_builtin(waitpid, original)


def _has_ended(relay: Relay, options: int) -> bool:
    return has_ended(relay) if options & os.WNOHANG else relay.wait()


def _waiting_for_any(original: Any) -> Any:
    def wait(_: Any, /, *args: Any) -> Any:
        found = original(*args)
        relay = _tell(found)
        if relay is not None and not _is_plumbings():
            relay.wait()  # that it has ended is written first
        return found

    return like_builtin(wait, original)


def _tell(found: Any) -> Relay | None:
    """Store the exit code in the relay, because a process can be reaped only once."""
    relay = relay_of(found[0])
    if relay is not None:
        relay.is_reaped(os.waitstatus_to_exitcode(found[1]))
    return relay


# A shell


def _system(original: Any) -> Callable[..., int]:
    def system(_: Any, command: Any) -> int:
        if current() is None or _is_plumbings():
            found: int = original(command)
            return found
        return _run(command)

    made: Callable[..., int] = like_builtin(system, original)
    return made


def _run(command: Any) -> int:
    """Run a shell like ``system``, which ignores SIGINT and SIGQUIT meanwhile."""
    import signal
    import subprocess

    ignored = (signal.SIGINT, signal.SIGQUIT)
    before = [signal.signal(one, signal.SIG_IGN) for one in ignored] if _is_main_thread() else []
    try:
        # Use the same arguments as the C library, because policy rules match them.
        code = subprocess.Popen(["sh", "-c", os.fsdecode(command)], executable="/bin/sh").wait()
    finally:
        for one, handler in zip(ignored, before, strict=False):
            signal.signal(one, signal.SIG_DFL if handler is None else handler)
    return code << 8 if code >= 0 else -code


def _is_main_thread() -> bool:
    import threading

    return threading.current_thread() is threading.main_thread()
