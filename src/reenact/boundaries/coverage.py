"""Coverage report: the table of boundaries, and the tiers of modules."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Literal

import msgspec

from reenact._plugins import LENSES, entry_points
from reenact.boundaries.caller_tier import PLUMBING, Tier, why
from reenact.boundaries.files.patches import file_patches
from reenact.boundaries.registry import DRAWS, FACTS, TABLE, Boundary, added
from reenact.engine.patches.patch import Installable
from reenact.lenses.registry import installed_lenses

__all__ = [
    "TIERS",
    "Covered",
    "InstalledLens",
    "Module",
    "classified",
    "covered_places",
    "lenses_of_packages",
    "plumbing",
]

How = Literal["calls", "draws", "facts"]
"""``calls``: each is recorded and answered. ``draws``: strictly in order for the user's own modules,
aside for installed libraries, and not at all for plumbing. ``facts``: by name, not for plumbing."""

TIERS: dict[Tier, str] = {
    "user": "recorded in order; in a replay one more or one less is a divergence",
    "library": "recorded aside; in a replay served while there is some left, then real",
    "plumbing": "left alone",
}
"""Treatment of the draws of a module, by tier."""


class Covered(msgspec.Struct, frozen=True):
    """Library with a boundary.

    ``places`` lists its replaced functions. It is empty for a library that is not installed, or
    whose patches replace no named function.
    """

    name: str
    module: str
    how: How
    installed: bool
    places: list[str]
    package: str = ""
    """Installed package that adds the boundary, empty for Reenact's own."""
    problem: str = ""
    """Reason why the boundary cannot be used."""


class Module(msgspec.Struct, frozen=True):
    """A module that a program has imported: its tier, and the reason."""

    name: str
    tier: Tier
    reason: str


def covered_places() -> list[Covered]:
    """Return all boundaries in the order of installation. Imports the covered libraries."""
    return [*(_covered(boundary) for boundary in (*TABLE, *added())), _files()]


def _covered(boundary: Boundary) -> Covered:
    installed = _is_installed(boundary.module)
    places: list[str] = []
    problem = ""
    try:
        places = _places(boundary) if installed else []
    except Exception as error:
        if not boundary.package:
            raise
        problem = f"{type(error).__name__}: {error}"  # a foreign module can raise anything
    return Covered(
        boundary.name,
        boundary.module,
        _how(boundary),
        installed,
        places,
        boundary.package,
        problem,
    )


class InstalledLens(msgspec.Struct, frozen=True):
    """Lens that an installed package adds. ``problem`` is why it cannot be used."""

    name: str
    package: str
    paths: tuple[str, ...] = ()
    problem: str = ""


def lenses_of_packages() -> list[InstalledLens]:
    """Return the lenses that installed packages add, in the order of their entry points."""
    found = installed_lenses()
    paths = {lens.name: lens.paths for lens in found.lenses}
    problems = {str(one.fields["name"]): one.message for one in found.broken}
    return [
        InstalledLens(point.name, point.package, paths.get(point.name, ()), problem)
        for point in entry_points(LENSES)
        for problem in [problems.get(point.name, "")]
    ]


def _files() -> Covered:
    """Describe the patches of declared files, which are installed only if there are file roots."""
    return Covered("declared files", "builtins", "calls", True, _of(file_patches()))


def _how(boundary: Boundary) -> How:
    if boundary in FACTS:
        return "facts"
    return "draws" if boundary in DRAWS else "calls"


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # its package is missing, or the module was created by hand
        return False


def _places(boundary: Boundary) -> list[str]:
    return _of(boundary.patches(import_module(boundary.module)))


def _of(patches: Iterable[Installable]) -> list[str]:
    return [place for patch in patches for place in getattr(patch, "places", [])]


def classified(modules: Iterable[tuple[str, str | None]]) -> list[Module]:
    """Return the tiers of modules, given by name and file, sorted."""
    return sorted(
        (Module(name, *why(name, file)) for name, file in modules),
        key=lambda module: (list(TIERS).index(module.tier), module.name),
    )


def plumbing() -> list[str]:
    """Return the installed packages that count as plumbing, sorted."""
    return sorted(PLUMBING, key=str.lower)
