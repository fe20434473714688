"""The clocks of the ``time`` module, as the user's own modules and installed libraries read them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from reenact.boundaries.callers import KNOWN, tier_of
from reenact.boundaries.rebinding import Rebinding, like_builtin
from reenact.engine.execution.sleep import sleep
from reenact.engine.patches.patch import Installable
from reenact.engine.session.context import OUTSIDE, VARIABLE
from reenact.engine.session.current import current

__all__ = ["drawn", "seams"]

_frame = sys._getframe
_tiers = KNOWN
_in_force = VARIABLE.get

_READ = (
    "time",
    "time_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "process_time_ns",
)
"""Clocks that are read without an argument."""

_OF_NOW = ("localtime", "gmtime", "ctime")
"""These take a time; without one they read the clock."""


def drawn(name: str, live: Callable[[], Any], module: dict[str, Any]) -> Any:
    """What ``live`` gives to the code whose globals are ``module``: drawn from the session where
    that is not plumbing."""
    session = current()
    if session is None:
        return live()
    tier = tier_of(module)
    if tier == "user":
        return session.draws.draw(name, live)
    return session.draws.draw_aside(name, live) if tier == "library" else live()


def seams(module: ModuleType) -> list[Installable]:
    """The patches of the module ``time``."""
    replacements: dict[str, Callable[[Any], Any]] = {name: _reading(name) for name in _READ}
    replacements |= {name: _of_now(name) for name in _OF_NOW}
    replacements |= {
        "strftime": _strftime,
        "asctime": _asctime,
        "clock_gettime": _by_id("clock_gettime"),
        "clock_gettime_ns": _by_id("clock_gettime_ns"),
        "sleep": _sleep,
    }
    return [Rebinding(module, replacements)]


def _reading(clock: str) -> Callable[[Any], Any]:
    name = f"clock time.{clock}"

    def make(original: Any) -> Any:
        def read(_: Any) -> Any:
            session: Any = _in_force()
            if session is OUTSIDE:  # a live call: clients look at the clock often
                return original()
            if session is None:
                session = current()  # of the whole process
                if session is None:
                    return original()
            module = _frame(1).f_globals
            tier = _tiers.get(module.get("__name__")) or tier_of(module)
            if tier == "user":
                return session.draws.draw(name, original)
            return session.draws.draw_aside(name, original) if tier == "library" else original()

        return like_builtin(read, original)

    return make


def _of_now(function: str) -> Callable[[Any], Any]:
    name = f"clock time.{function}"

    def make(original: Any) -> Any:
        def read(_: Any, seconds: float | None = None, /) -> Any:
            if seconds is not None:
                return original(seconds)
            value = drawn(name, lambda: _fields(original()), _frame(1).f_globals)
            return _time_of(value)

        return like_builtin(read, original)

    return make


def _fields(value: Any) -> Any:
    """A broken-down time with its zone, which belongs to the machine; text stays text."""
    if isinstance(value, str):
        return value
    return [*value, value.tm_zone, value.tm_gmtoff]


def _time_of(value: Any) -> Any:
    return time.struct_time(value) if isinstance(value, list) else value


def _strftime(original: Any) -> Any:
    def strftime(_: Any, format: str, *given: Any) -> Any:
        if given:
            return original(format, *given)
        value = drawn("clock time.strftime", lambda: _fields(time.localtime()), _frame(1).f_globals)
        return original(format, _time_of(value))

    return like_builtin(strftime, original)


def _asctime(original: Any) -> Any:
    def asctime(_: Any, *given: Any) -> Any:
        if given:
            return original(*given)
        value = drawn("clock time.asctime", lambda: _fields(time.localtime()), _frame(1).f_globals)
        return original(_time_of(value))

    return like_builtin(asctime, original)


def _by_id(function: str) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def read(_: Any, clock: int, /) -> Any:
            name = f"clock time.{function}({int(clock)})"
            return drawn(name, lambda: original(clock), _frame(1).f_globals)

        return like_builtin(read, original)

    return make


def _sleep(original: Any) -> Any:
    def wait(_: Any, seconds: float, /) -> None:
        session = current()
        if session is None or tier_of(_frame(1).f_globals) == "plumbing":
            original(seconds)
        else:
            sleep(session, seconds, original)

    return like_builtin(wait, original)
