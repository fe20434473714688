"""What a replay refuses besides unrecorded calls, in words."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from reenact.exchange.model import Boundaries, Containment, DriverUse
from reenact.hermetic.driver_statements import can_refuse
from reenact.policy.drivers import driver_named

__all__ = ["declaration", "drivers_text", "held", "refusal_message", "undeclared_in"]


def held(containment: Containment, boundaries: Boundaries) -> Containment:
    """Return what holds in a replay with ``boundaries``. With ``live`` nothing is contained: every
    driver and every file is allowed."""
    if boundaries != "live":
        return containment
    drivers = tuple(msgspec.structs.replace(one, treatment="allow") for one in containment.drivers)
    return msgspec.structs.replace(containment, drivers=drivers, files="allow")


def undeclared_in(containment: Containment) -> tuple[str, ...]:
    """Return the names of the loaded drivers for which the app has not declared a treatment."""
    return tuple(one.name for one in containment.drivers if one.treatment == "undeclared")


def refusal_message(names: Iterable[str]) -> str:
    """Return why a replay in an app with the undeclared drivers ``names`` does not start."""
    return (
        "the app has loaded drivers that Reenact does not record, and has not declared how a "
        f"replay treats them: {', '.join(names)}"
    )


def declaration(containment: Containment) -> str:
    """Return the argument of ``Agent`` that declares every loaded driver. Those that are not
    declared yet are refused, if that is possible."""
    items = (f'"{one.name}": "{_declared(one)}"' for one in containment.drivers)
    return f"drivers={{{', '.join(items)}}}"


def _declared(one: DriverUse) -> str:
    if one.treatment != "undeclared":
        return one.treatment
    driver = driver_named(one.name)
    return "refuse" if driver is None or can_refuse(driver) else "allow"


def drivers_text(containment: Containment) -> str:
    """Return ``psycopg allow, sqlite3 refuse``; ``none`` if no driver is loaded."""
    return ", ".join(f"{one.name} {one.treatment}" for one in containment.drivers) or "none"
