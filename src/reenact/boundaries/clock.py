"""Clocks: the functions of ``time``, and the current date and time of ``datetime``.

``datetime.now``, ``utcnow`` and ``today`` and ``date.today`` are methods of types written in C, see
:func:`reenact.engine.patches.patch.set_type_attribute`.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

from reenact.boundaries.caller_tier import KNOWN, tier_of
from reenact.boundaries.function_patches import Rebinding, like_builtin
from reenact.engine.execution.sleep import sleep
from reenact.engine.patches.patch import Installable, set_type_attribute
from reenact.engine.session.context import OUTSIDE, VARIABLE
from reenact.engine.session.current import current

__all__ = [
    "datetime_patches",
    "drawn",
    "time_patches",
]

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
    """Return the result of ``live`` for code with the globals ``module``.

    It is drawn from the session unless that code is plumbing.
    """
    session = current()
    if session is None:
        return live()
    tier = tier_of(module)
    if tier == "user":
        return session.draws.draw(name, live)
    return session.draws.draw_aside(name, live) if tier == "library" else live()


def time_patches(module: ModuleType) -> list[Installable]:
    """Return the patches of the module ``time``."""
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
                session = current()  # session of the complete process
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
    """Return a broken-down time with its zone, which depends on the machine.

    A text is returned unchanged.
    """
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


_UTCNOW = (
    "datetime.datetime.utcnow() is deprecated and scheduled for removal in a future version. Use "
    "timezone-aware objects to represent datetimes in UTC: datetime.datetime.now(datetime.UTC)."
)


class TypeMethod:
    """The class method ``name`` of ``owner``, a type written in C. ``make`` is given what calls the
    original one for a class."""

    def __init__(
        self, owner: type, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        self._owner = owner
        self._name = name
        self._make = make
        self._before: Any = None

    @property
    def places(self) -> list[str]:
        """Dotted name of the replaced method."""
        return [f"{self._owner.__name__}.{self._name}"]

    def install(self) -> None:
        self._before = before = vars(self._owner).get(self._name)
        inherited = getattr(self._owner, self._name)

        def original(cls: type, *args: Any) -> Any:
            if before is None:
                return inherited(*args)
            return before.__get__(None, cls)(*args)

        new = self._make(original)
        new.__name__ = self._name
        new.__qualname__ = f"{self._owner.__name__}.{self._name}"
        new.__doc__ = inherited.__doc__
        set_type_attribute(self._owner, self._name, classmethod(new))

    def remove(self) -> None:
        set_type_attribute(self._owner, self._name, self._before)


def datetime_patches(module: ModuleType) -> list[Installable]:
    """Return the patches of the module ``datetime``."""
    return [
        TypeMethod(module.datetime, "now", lambda original: _now(module, original)),
        TypeMethod(module.datetime, "utcnow", lambda original: _utcnow(module, original)),
        TypeMethod(module.datetime, "today", lambda original: _today(module, original)),
        TypeMethod(module.date, "today", lambda original: _date_today(module, original)),
    ]


def _now(module: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    plain, utc = module.datetime, module.timezone.utc

    def now(cls: Any, tz: Any = None) -> Any:
        if not (tz is None or isinstance(tz, module.tzinfo)):
            return original(cls, tz)  # raises the error for the wrong type
        caller = _frame(1).f_globals
        if tz is None:
            ticks = drawn("clock datetime.now", lambda: _ticks(module, original(plain)), caller)
            return _local(cls, ticks, module)
        ticks = drawn(
            "clock datetime.now(tz)", lambda: _ticks(module, original(plain, utc)), caller
        )
        return tz.fromutc(_local(cls, ticks, module).replace(tzinfo=tz))

    return now


def _utcnow(module: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    utc = module.timezone.utc
    now = vars(module.datetime)["now"]

    def utcnow(cls: Any) -> Any:
        def live() -> int:
            return _ticks(module, now.__get__(None, module.datetime)(utc))

        if sys.version_info >= (3, 12):
            warnings.warn(_UTCNOW, DeprecationWarning, stacklevel=2)
        ticks = drawn("clock datetime.utcnow", live, _frame(1).f_globals)
        return _local(cls, ticks, module)

    return utcnow


def _today(module: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace ``datetime.today``, which returns the local time."""
    now = vars(module.datetime)["now"]

    def today(cls: Any) -> Any:
        def live() -> int:
            return _ticks(module, now.__get__(None, module.datetime)())

        ticks = drawn("clock datetime.today", live, _frame(1).f_globals)
        return _local(cls, ticks, module)

    return today


def _date_today(module: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    plain = module.date

    def today(cls: Any) -> Any:
        day = drawn("clock date.today", lambda: original(plain).toordinal(), _frame(1).f_globals)
        return cls.fromordinal(day)

    return today


_MICROSECONDS = 86_400_000_000


def _ticks(module: ModuleType, at: Any) -> int:
    """Return ``at`` without its zone as a number of microseconds, with its ``fold`` in the last
    bit."""
    day = (at.hour * 3600 + at.minute * 60 + at.second) * 1_000_000 + at.microsecond
    return int((at.toordinal() * _MICROSECONDS + day) << 1 | at.fold)


def _local(cls: Any, ticks: int, module: ModuleType) -> Any:
    """Return the time of class ``cls`` for the result of :func:`_ticks`."""
    days, rest = divmod(ticks >> 1, _MICROSECONDS)
    seconds, microsecond = divmod(rest, 1_000_000)
    day = module.date.fromordinal(days)
    return cls(
        day.year,
        day.month,
        day.day,
        seconds // 3600,
        seconds // 60 % 60,
        seconds % 60,
        microsecond,
        fold=ticks & 1,
    )
