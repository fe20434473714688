"""``datetime.now``, ``utcnow`` and ``today``, and ``date.today``.

They are methods of types that are written in C, see :func:`reenact.engine.patches.patch.set_type_attribute`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

from reenact.boundaries.clock import drawn
from reenact.engine.patches.patch import Installable, set_type_attribute

__all__ = ["seams"]

_frame = sys._getframe
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
        """What it replaces."""
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


def seams(module: ModuleType) -> list[Installable]:
    """The patches of the module ``datetime``."""
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
            return original(cls, tz)  # which says what is wrong
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
    """As the inherited one does, by the time stamp: of ``datetime`` that is the local time."""
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
    """``at`` without its zone, as a number: microseconds, and in the last bit its ``fold``."""
    day = (at.hour * 3600 + at.minute * 60 + at.second) * 1_000_000 + at.microsecond
    return int((at.toordinal() * _MICROSECONDS + day) << 1 | at.fold)


def _local(cls: Any, ticks: int, module: ModuleType) -> Any:
    """The time of class ``cls`` that ``ticks`` was made of."""
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
