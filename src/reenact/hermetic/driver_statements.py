"""Statements and commands of drivers, refused in a replay on connections of any age.

Drivers written in C send past Python's sockets, so their own methods are checked. C types are
patched in place (:class:`reenact.engine.patches.patch.TypePatch`), which reaches connections,
cursors and statements that existed before the session. Drivers that send through Python's sockets
are also refused at the socket; checking their methods gives a message that names the command.
Also lists the loaded drivers and whether a replay can refuse their statements.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection
from functools import wraps
from types import FrameType, ModuleType
from typing import Any, Final, Literal

from reenact.engine.patches import patch
from reenact.engine.patches.patch import DeferredPatches, Installable, Patch, TypePatch
from reenact.engine.session.session import Session
from reenact.hermetic.call_origin import acting_as, code_kind
from reenact.hermetic.connections import note_sent
from reenact.hermetic.driver_methods import DRIVER_METHODS, DriverMethod, Statement
from reenact.hermetic.network_libraries import is_covered
from reenact.policy.drivers import DRIVERS, Driver, driver_of

__all__ = [
    "DRIVERS",
    "Driver",
    "StatementChecks",
    "Treatment",
    "can_refuse",
    "is_observer",
    "loaded_drivers",
]


_IMMUTABLE: Final = 1 << 8
"""The flag of types whose attributes cannot be set."""

_EXEMPT: Final = ("coverage",)
"""Packages that observe the program and store what they see: they are not part of it."""


class StatementChecks:
    """The patches that check each statement.

    ``holding`` returns the session that decides here. ``refuse`` is called with the name of the
    driver and raises unless that is allowed. ``allows`` returns whether it is.
    """

    def __init__(
        self,
        holding: Callable[[], Session | None],
        refuse: Callable[[Session, str, Statement], None],
        allows: Callable[[Session, str], bool],
    ) -> None:
        self._holding = holding
        self._refuse = refuse
        self._allows = allows
        self._made: dict[str, list[Installable]] = {}
        self.patches = [DeferredPatches(module, self._maker(module)) for module in DRIVER_METHODS]

    def _maker(self, name: str) -> Callable[[ModuleType], list[Installable]]:
        def make(module: ModuleType) -> list[Installable]:
            # Once for the process: the descriptors of types written in C are never released.
            if name not in self._made:
                found = DRIVER_METHODS[name](module)
                self._made[name] = [self._patch(driver_method) for driver_method in found]
            return self._made[name]

        return make

    def _patch(self, driver_method: DriverMethod) -> Installable:
        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            return self._checked(original, driver_method)

        in_c = isinstance(driver_method.owner, type) and bool(
            driver_method.owner.__flags__ & _IMMUTABLE
        )
        return (TypePatch if in_c else Patch)(driver_method.owner, driver_method.name, wrap)

    def _checked(
        self, original: Callable[..., Any], driver_method: DriverMethod
    ) -> Callable[..., Any]:
        @wraps(original)
        def method(*args: Any, **kwargs: Any) -> Any:
            session = self._holding()
            if session is not None and not is_observer():
                bound = (*args, kwargs) if driver_method.names else (*args, *kwargs.values())
                found = _described(driver_method, bound)
                if found is not None:
                    self._refuse(session, driver_method.driver, found)
                elif driver_method.instead is not None and not self._allows(
                    session, driver_method.driver
                ):
                    return driver_method.instead
            if driver_method.descriptor is not None:
                note_sent(driver_method.descriptor(args[0]))
            found = original(*args, **kwargs)
            return acting_as(driver_method.driver, found) if driver_method.acts else found

        return method


def _described(driver_method: DriverMethod, args: tuple[Any, ...]) -> Statement | None:
    """Describe a call. One that cannot be described counts as a statement, so that it is refused."""
    try:
        return driver_method.describe(args[0] if args else None, args[1:])
    except Exception:  # noqa: BLE001 - an object of the program's, or another version of the driver
        return Statement(driver_method.name, "")


def is_observer() -> bool:
    """Does Reenact itself, or an observer of the program, use a driver here?"""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    if frame is None:
        return False
    name = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] in _EXEMPT or code_kind(frame.f_code.co_filename) == "ours"


_HERE: Final = (os.path.dirname(__file__), patch.__file__)
"""Files between the code that uses a driver and the functions here."""


Treatment = Literal["allow", "refuse"]

_NOT_RECORDED: Final = tuple(sorted(DRIVERS, key=lambda driver: driver.name.lower()))


def loaded_drivers(
    modules: Collection[str] | None = None, covered: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the sorted names of the loaded drivers that Reenact does not record.

    ``modules`` are the imported modules (default: ``sys.modules``). ``covered`` are modules that
    have a boundary.
    """
    present = sys.modules if modules is None else modules
    return tuple(
        driver.name
        for driver in _NOT_RECORDED
        if any(module in present for module in driver.modules)
        and not any(is_covered(module, covered) for module in driver.modules)
    )


def can_refuse(driver: Driver) -> bool:
    """Return whether a replay can refuse the statements of ``driver``: they are checked, or it sends
    through Python's sockets. Other drivers send in C, where no hook sees it."""
    return driver.sends == "seen" or any(driver_of(module) is driver for module in DRIVER_METHODS)
