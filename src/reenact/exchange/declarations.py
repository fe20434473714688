"""Declarations of an app: which drivers and which files its replays can use."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, get_args

import msgspec

from reenact.boundaries.table import CLIENTS, added
from reenact.errors import UsageError
from reenact.exchange.containment import held
from reenact.exchange.model import Boundaries, Containment, DriverUse, FileWrites
from reenact.hermetic.driver_statements import DRIVERS, Treatment, can_refuse, loaded_drivers
from reenact.policy.drivers import driver_named
from reenact.policy.nearest import did_you_mean

__all__ = ["Declared", "declare"]

_LATER: Final = ("recorded", "rollback")
_TREATMENTS: Final[tuple[Treatment, ...]] = get_args(Treatment)
_FILES: Final[tuple[FileWrites, ...]] = get_args(FileWrites)


class Declared(msgspec.Struct, frozen=True):
    """What an app has declared: the treatment of each driver by its name, whether files can be
    written, and the folders in which that is always possible."""

    drivers: dict[str, Treatment]
    files: FileWrites
    scratch: tuple[str, ...]

    def containment(self, boundaries: Boundaries = "recorded") -> Containment:
        """Return what holds for a replay that would start now, with the drivers that are loaded."""
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
        return held(declared, boundaries)

    @property
    def allowed_drivers(self) -> frozenset[str]:
        """The names of the drivers whose statements are executed in a replay."""
        return frozenset(name for name, how in self.drivers.items() if how == "allow")


def declare(
    drivers: Mapping[str, str] | None, files: str, scratch: Sequence[str | Path]
) -> Declared:
    """Check the arguments of an app agent. Raises :class:`UsageError`."""
    writes = next((one for one in _FILES if one == files), None)
    if writes is None:
        raise UsageError(
            f"files={files!r} is not a treatment of files",
            hint=f"expected {' or '.join(map(repr, _FILES))}",
        )
    if isinstance(scratch, (str, Path)):
        raise UsageError("scratch is a list of folders", hint=f"scratch=[{str(scratch)!r}]")
    return Declared(
        dict(_driver(name, how) for name, how in (drivers or {}).items()),
        writes,
        tuple(map(_folder, scratch)),
    )


def _driver(name: str, how: str) -> tuple[str, Treatment]:
    found = driver_named(name)
    if found is None:
        raise UsageError(
            f"there is no driver {name[:64]!r} that a replay could refuse",
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
