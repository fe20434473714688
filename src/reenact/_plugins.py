"""Entry points of other installed packages that add boundaries and lenses.

A package declares them in the groups ``reenact.boundaries`` and ``reenact.lenses``. They are read from
the ``entry_points.txt`` files in the folders of ``sys.path``. ``importlib.metadata`` would import a
parser of configuration files and a parser of e-mails first, which costs more than the start of a small
program. ``reenact run`` passes the entry points to its processes, so only the command reads files.

Nothing is imported before it is needed: the package of a boundary when the program imports the
library, the package of a lens when a session opens or a recording with model calls is read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

import msgspec

from reenact.errors import PluginBroken

__all__ = ["BOUNDARIES", "LENSES", "EntryPoint", "entry_points", "find_entry_points", "preset"]

BOUNDARIES: Final = "reenact.boundaries"
"""Group of the boundaries.

The name of an entry point is the module whose import installs the patches. Its value is a function
from that module to the patches.
"""

LENSES: Final = "reenact.lenses"
"""Group of the lenses.

The name of an entry point is the name of the lens. Its value is a
:class:`reenact.lenses.registry.Lens`.
"""

_GROUPS: Final = (BOUNDARIES, LENSES)


class EntryPoint(msgspec.Struct, frozen=True):
    """One entry point. ``value`` is ``module:attribute``, ``package`` a name and a version."""

    group: str
    name: str
    value: str
    package: str

    def load(self) -> Any:
        """Import the value. An error of the package is not caught."""
        module, _, attributes = self.value.partition(":")
        found: Any = import_module(module)
        for name in filter(None, attributes.split(".")):
            found = getattr(found, name)
        return found

    def broken(self, error: Exception) -> PluginBroken:
        """Return the error to report if the entry point cannot be used because of ``error``."""
        what = "boundary" if self.group == BOUNDARIES else "lens"
        return PluginBroken(what, self.name, self.package, f"{type(error).__name__}: {error}")


_preset: tuple[EntryPoint, ...] | None = None


def preset(found: Iterable[EntryPoint]) -> None:
    """Use the entry points ``found`` in this process, without a search for others."""
    global _preset
    _preset = tuple(found)


def entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group."""
    found = find_entry_points() if _preset is None else _preset
    return [one for one in found if one.group == group]


def find_entry_points() -> tuple[EntryPoint, ...]:
    """Find the entry points of both groups. The first of several installed versions counts."""
    found: dict[str, list[EntryPoint]] = {}
    for folder in sys.path:
        if not isinstance(folder, str):  # the import system ignores it as well
            continue
        try:
            changed = os.stat(folder or ".").st_mtime_ns
        except OSError:
            continue
        for name, points in _in_folder(folder or os.getcwd(), changed):
            found.setdefault(name, points)
    return tuple(one for points in found.values() for one in points)


@lru_cache(maxsize=256)
def _in_folder(folder: str, changed: int) -> list[tuple[str, list[EntryPoint]]]:
    """Return the packages in ``folder`` that have entry points of a group.

    ``changed`` is the time of its last change, so that a result is valid until the next one.
    """
    found: list[tuple[str, list[EntryPoint]]] = []
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # a zip file, or unreadable
        return found
    for name in names:
        stem, dot, ending = name.rpartition(".")
        if dot and ending in ("dist-info", "egg-info"):
            points = _in_file(os.path.join(folder, name, "entry_points.txt"), stem)
            if points:
                found.append((points[0].package.partition(" ")[0], points))
    return found


def _in_file(path: str, stem: str) -> list[EntryPoint]:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:  # most packages have no entry points
        return []
    if b"[reenact." not in content:
        return []
    name, _, version = stem.partition("-")
    package = f"{name.replace('_', '-').lower()} {version.partition('-')[0]}".rstrip()
    return list(_parse(content.decode("utf-8", "replace"), package))


def _parse(text: str, package: str) -> Iterator[EntryPoint]:
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]").strip()
        elif group in _GROUPS and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            # Extras behind the value (``module:name [extra]``) are not a condition for loading it.
            yield EntryPoint(group, name.strip(), value.partition("[")[0].strip(), package)
