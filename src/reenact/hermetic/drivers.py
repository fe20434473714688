"""Drivers that are loaded in this process, and how a replay treats each of them."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Final, Literal

from reenact.hermetic.stacks import is_covered
from reenact.hermetic.statements import SEAMS
from reenact.policy.drivers import DRIVERS, Driver, driver_of

__all__ = ["DRIVERS", "Driver", "Treatment", "can_refuse", "loaded_drivers"]

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
    return driver.sends == "seen" or any(driver_of(module) is driver for module in SEAMS)
