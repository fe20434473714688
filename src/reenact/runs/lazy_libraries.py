"""Import of the libraries that Reenact is based on, without their rarely used dependencies.

These libraries import modules that they seldom use. Loading those modules takes longer than loading
Reenact. Placeholders replace them during the import. A placeholder loads its module on first use.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from types import ModuleType

TYPE_CHECKING = False  # typing is not needed for every command
if TYPE_CHECKING:
    from typing import Any

__all__ = ["LAUNCHER_LIBRARIES", "LIBRARIES", "load_lazily"]

LIBRARIES = ("msgspec", "orjson", "pathlib")
"""Libraries that nearly every module of Reenact uses."""

LAUNCHER_LIBRARIES = ("shutil", "subprocess")
"""Libraries of ``reenact run`` itself."""


def load_lazily(*libraries: str) -> None:
    """Import ``libraries`` with placeholders for their rarely used dependencies.

    Call it in a process in which no other code runs yet.
    """
    placeholders = [
        _Placeholder(name, known)
        for name, known in _INSTEAD.items()
        if name not in sys.modules and _exists(name)
    ]
    sys.modules.update((one.__name__, one) for one in placeholders)
    try:
        for name in libraries:
            import_module(name)
    finally:
        for one in placeholders:
            one.leave()


def _exists(name: str) -> bool:
    """Return False for a module that this Python was built without."""
    needed = _COMPILED.get(name)
    return needed is None or PathFinder.find_spec(needed) is not None


class _Placeholder(ModuleType):
    """Placeholder for the module ``name``. ``known`` has the attributes that need no loading."""

    def __init__(self, name: str, known: dict[str, Any]) -> None:
        super().__init__(name)
        vars(self).update(known)

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # the import system checks for a package
            raise AttributeError(name)
        self.leave()
        return getattr(import_module(_ALSO_IN.get(self.__name__, self.__name__)), name)

    def leave(self) -> None:
        """Remove the placeholder from ``sys.modules``, so that the next import loads the module."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


def _type_hints(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """Call ``get_type_hints`` of ``typing_extensions`` if it is loaded, otherwise of ``typing``."""
    home = "typing_extensions" if "typing_extensions" in sys.modules else "typing"
    found: dict[str, Any] = import_module(home).get_type_hints(*args, **kwargs)
    return found


_INSTEAD: dict[str, dict[str, Any]] = {  # attributes that do not load the module
    "bz2": {},
    "gettext": {  # messages of Reenact are not translated either
        "gettext": lambda text: text,
        "ngettext": lambda one, many, count: one if count == 1 else many,
    },
    "inspect": {},
    "ipaddress": {},
    "locale": {},
    "lzma": {},
    "msgspec.inspect": {},
    "ntpath": {},
    "platform": {"system": lambda: os.uname().sysname},
    "textwrap": {},
    "typing_extensions": {"get_type_hints": _type_hints},
}
_COMPILED = {"bz2": "_bz2", "lzma": "_lzma"}
"""Optional parts of Python. ``shutil`` imports these modules only to check whether they exist."""

_ALSO_IN = {"typing_extensions": "typing"}
"""Modules to load instead.

Since Python 3.11, ``typing`` has the names that are used from ``typing_extensions``.
"""
