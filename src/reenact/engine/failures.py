"""Exceptions as data, and back: a failed call replays as the same type of exception.

A class is looked up among the modules that are loaded; nothing is ever imported or called to
rebuild an exception, because a recording is not trusted.
"""

from __future__ import annotations

import asyncio
import builtins
import sys
from typing import Any

from reenact.errors import PolicyRefused, ReenactError, ValueRefused
from reenact.format.canonical import exact
from reenact.format.event import Data

__all__ = ["RecordedFailure", "failure_data", "rebuild", "refusal_data"]

_DEEPEST = 8
_LONGEST = 4_000


class RecordedFailure(ReenactError):
    """Stands for a recorded exception whose class is not loaded in this process."""

    code = "recorded.failure"

    def __init__(self, error_class: str, message: str) -> None:
        super().__init__(
            f"{error_class}: {message}" if message else error_class,
            hint=f"the recorded call failed with {error_class}, which this program has not imported",
            error_class=error_class,
        )


def failure_data(error: BaseException, *, depth: int = 0) -> Data:
    """What is recorded of ``error``: its class, text and arguments, and what caused it."""
    kind = type(error)
    data: Data = {
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "message": str(error)[:_LONGEST],
        "kind": "failed",
    }
    arguments = list(error.args)
    if _is_plain(arguments):
        data["args"] = arguments
    cause = error.__cause__
    if cause is not None and depth < _DEEPEST:
        data["cause"] = failure_data(cause, depth=depth + 1)
    return data


def _is_plain(value: Any) -> bool:
    try:
        return len(exact(value)) <= _LONGEST
    except ValueRefused:
        return False


def refusal_data(error: PolicyRefused) -> Data:
    """What is recorded of a call that the policy refused."""
    kind = {"policy.denied": "denied", "policy.budget": "budget"}.get(error.code, "refused")
    name = type(error).__name__
    return {"class": f"reenact.errors.{name}", "message": error.message, "kind": kind}


def rebuild(data: Any) -> BaseException:
    """The exception that ``data`` describes."""
    if not isinstance(data, dict):
        return RecordedFailure("an unknown failure", str(data)[:_LONGEST])
    name, message = str(data.get("class", "")), str(data.get("message", ""))
    found = _loaded_class(name)
    if found is None:
        error: BaseException = RecordedFailure(name or "an unknown failure", message)
    elif issubclass(found, ReenactError):
        error = found.__new__(found)
        ReenactError.__init__(error, message, hint="so it was in the recording")
    else:
        arguments = data.get("args")
        given = tuple(arguments) if isinstance(arguments, list) else (message,)
        error = _made(found, given) or RecordedFailure(name, message)
    if isinstance(data.get("cause"), dict):
        error.__cause__ = rebuild(data["cause"])
    return error


def _made(kind: type[BaseException], arguments: tuple[Any, ...]) -> BaseException | None:
    try:
        if kind.__module__ == "builtins":
            return kind(*arguments)
        # Not called: a constructor may want anything, and may do anything.
        error = kind.__new__(kind, *arguments)
        error.args = arguments
    except TypeError:
        return None
    return error


def _loaded_class(name: str) -> type[BaseException] | None:
    module, _, rest = name.rpartition(".")
    found: Any = None
    if module == "builtins":
        found = getattr(builtins, rest, None)
    elif name in ("asyncio.exceptions.CancelledError", "asyncio.CancelledError"):
        found = asyncio.CancelledError
    else:
        found = _in_modules(name)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _in_modules(name: str) -> Any:
    """The longest prefix that is a loaded module, then attribute by attribute."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:cut]))
        if module is not None:
            found: Any = module
            for part in parts[cut:]:
                found = vars(found).get(part) if hasattr(found, "__dict__") else None
            return found
    return None
