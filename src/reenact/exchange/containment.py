"""Drivers and file writes that a replay in an app allows or refuses."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, get_args

import msgspec

from reenact.errors import UsageError, did_you_mean
from reenact.exchange.model import Boundaries, Containment, DriverUse, FileWrites
from reenact.hermetic.driver_statements import DRIVERS, Treatment, can_refuse, loaded_drivers
from reenact.policy.drivers import driver_named

__all__ = [
    "Declarations",
    "drivers_argument",
    "drivers_text",
    "effective_containment",
    "parse_declarations",
    "refusal_message",
    "undeclared_drivers",
]


def effective_containment(containment: Containment, boundaries: Boundaries) -> Containment:
    """Return the containment of a replay with ``boundaries``. With ``live``, every driver and file
    is allowed."""
    if boundaries != "live":
        return containment
    drivers = tuple(msgspec.structs.replace(one, treatment="allow") for one in containment.drivers)
    return msgspec.structs.replace(containment, drivers=drivers, files="allow")


def undeclared_drivers(containment: Containment) -> tuple[str, ...]:
    """Return the names of the loaded drivers for which the app has not declared a treatment."""
    return tuple(one.name for one in containment.drivers if one.treatment == "undeclared")


def refusal_message(names: Iterable[str]) -> str:
    """Return why a replay in an app with the undeclared drivers ``names`` does not start."""
    return (
        "the app has loaded drivers that Reenact does not record, and has not declared how a "
        f"replay treats them: {', '.join(names)}"
    )


def drivers_argument(containment: Containment) -> str:
    """Return the argument of ``Agent`` that declares every loaded driver. Undeclared drivers are
    refused, if that is possible."""
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


_LATER: Final = ("recorded", "rollback")
_TREATMENTS: Final[tuple[Treatment, ...]] = get_args(Treatment)
_FILES: Final[tuple[FileWrites, ...]] = get_args(FileWrites)


class Declarations(msgspec.Struct, frozen=True):
    """Declarations of an app: the treatment of each driver, whether files can be written, and the
    folders in which writing is always allowed."""

    drivers: dict[str, Treatment]
    files: FileWrites
    scratch: tuple[str, ...]

    def containment(self, boundaries: Boundaries = "recorded") -> Containment:
        """Return the containment of a replay that starts now, with the drivers that are loaded."""
        from reenact.boundaries.registry import CLIENTS, added

        covered = {boundary.module for boundary in (*CLIENTS, *added())}
        loaded = loaded_drivers(covered=covered)
        declared = Containment(
            drivers=tuple(
                DriverUse(name=name, treatment=self.drivers.get(name, "undeclared"))
                for name in loaded
            ),
            files=self.files,
            scratch=self.scratch,
        )
        return effective_containment(declared, boundaries)

    @property
    def allowed_drivers(self) -> frozenset[str]:
        """The names of the drivers whose statements are executed in a replay."""
        return frozenset(name for name, how in self.drivers.items() if how == "allow")


def parse_declarations(
    drivers: Mapping[str, str] | None, files: str, scratch: Sequence[str | Path]
) -> Declarations:
    """Check the arguments of an app agent. Raises :class:`UsageError`."""
    writes = next((one for one in _FILES if one == files), None)
    if writes is None:
        raise UsageError(
            f"files={files!r} is not a treatment of files",
            hint=f"expected {' or '.join(map(repr, _FILES))}",
        )
    if isinstance(scratch, (str, Path)):
        raise UsageError("scratch is a list of folders", hint=f"scratch=[{str(scratch)!r}]")
    return Declarations(
        dict(_driver(name, how) for name, how in (drivers or {}).items()),
        writes,
        tuple(map(_folder, scratch)),
    )


def _driver(name: str, how: str) -> tuple[str, Treatment]:
    found = driver_named(name)
    if found is None:
        raise UsageError(
            f"{name[:64]!r} is not a driver that a replay can refuse",
            hint=did_you_mean(name, [driver.name for driver in DRIVERS]),
        )
    if how == "refuse" and not can_refuse(found):
        raise UsageError(
            f"Reenact cannot refuse the statements of the driver {found.name}: no hook sees them",
            hint=f'drivers={{"{found.name}": "allow"}} if a replay can execute them; otherwise do not '
            "replay exchanges of this app",
        )
    for treatment in _TREATMENTS:
        if how == treatment:
            return found.name, treatment
    if how in _LATER:
        raise UsageError(
            f"the treatment {how!r} of the driver {found.name} is not available yet",
            hint=f'drivers={{"{found.name}": "refuse"}}, or "allow" to execute its statements',
        )
    raise UsageError(
        f"{how!r} is not a treatment of the driver {found.name}",
        hint=f"expected {' or '.join(map(repr, _TREATMENTS))}",
    )


def _folder(given: str | Path) -> str:
    text = os.fspath(given)
    if not os.path.isabs(text):
        raise UsageError(
            f"the scratch folder {text!r} is a relative path", hint="give its absolute path"
        )
    return os.path.normpath(text)
