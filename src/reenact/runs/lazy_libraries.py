"""Import of the libraries that Reenact is based on, without their rarely used dependencies.

These libraries import modules of which they seldom use a function. Loading those modules takes
longer than loading Reenact. Placeholders replace them during the import. A placeholder loads its
module on first use.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False  # typing is not needed for every command
if TYPE_CHECKING:
    from typing import Any

__all__ = ["LIBRARIES", "load_lazily"]

LIBRARIES = ("msgspec", "orjson", "pathlib")
"""Libraries that nearly every module of Reenact uses."""


def load_lazily(*libraries: str) -> None:
    """Load them. For a process in which nothing else runs yet."""
    placed = [_StandIn(name, known) for name, known in _INSTEAD.items() if name not in sys.modules]
    sys.modules.update((one.__name__, one) for one in placed)
    try:
        for name in libraries:
            import_module(name)
    finally:
        for one in placed:
            one.leave()


class _StandIn(ModuleType):
    """For the module ``name``; ``known`` is what it can tell without loading it."""

    def __init__(self, name: str, known: dict[str, Any]) -> None:
        super().__init__(name)
        vars(self).update(known)

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # the import system checks for a package
            raise AttributeError(name)
        self.leave()
        return getattr(import_module(_ALSO_IN.get(self.__name__, self.__name__)), name)

    def leave(self) -> None:
        """Let the next one who imports it get the module itself."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


def _type_hints(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """Call ``get_type_hints`` of ``typing_extensions`` if it is loaded, otherwise of ``typing``."""
    home = "typing_extensions" if "typing_extensions" in sys.modules else "typing"
    found: dict[str, Any] = import_module(home).get_type_hints(*args, **kwargs)
    return found


_INSTEAD: dict[str, dict[str, Any]] = {  # what each can tell without being loaded
    "gettext": {  # what we say ourselves is not translated, either
        "gettext": lambda text: text,
        "ngettext": lambda one, many, count: one if count == 1 else many,
    },
    "inspect": {},
    "ipaddress": {},
    "msgspec.inspect": {},
    "platform": {"system": lambda: os.uname().sysname},
    "textwrap": {},
    "typing_extensions": {"get_type_hints": _type_hints},
}
_ALSO_IN = {"typing_extensions": "typing"}
"""Modules that have provided the same names since Python 3.11."""
