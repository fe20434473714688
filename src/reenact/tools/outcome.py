"""How a command has ended, in the words of ``reenact.tools.exec``."""

from __future__ import annotations

import signal
from typing import Final

from reenact.format.event import Data

__all__ = ["outcome", "with_code"]

_REASONS: Final = {
    126: "Command not executable (permission denied)",
    127: "Command not found",
}


def outcome(code: int, timed_out: float | None) -> Data:
    """How a command has ended: with ``code``, or after so many seconds. With a ``reason`` it has
    failed."""
    reason = _reason(code, timed_out)
    found: Data = {
        "status": "completed" if reason is None else "failed",
        "exitCode": code if code >= 0 else None,
        "exitSignal": _signal(code),
        "timedOut": timed_out is not None,
    }
    return found if reason is None else {**found, "reason": reason}


def _reason(code: int, timed_out: float | None) -> str | None:
    """Why it has failed, if it has."""
    if timed_out is not None:
        return f"Command timed out after {timed_out:g} seconds"
    if code < 0:
        return f"Command aborted by signal {_signal(code)}"
    return _REASONS.get(code)


def _signal(code: int) -> str | None:
    if code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return str(-code)


def with_code(text: str, code: int) -> str:
    """``text``, and how it ended if that was not well."""
    said = text.rstrip("\n") if code else text
    return f"{said}\n\n(Command exited with code {code})".lstrip("\n") if code else said
