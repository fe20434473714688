"""Doing something to a module when the program imports it, and not before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from importlib.abc import Loader  # its ten milliseconds would be every process's

__all__ = ["ImportWatch"]


class ImportWatch:
    """``act(module)`` right after ``name`` was imported; at once if it is already there."""

    def __init__(self, name: str, act: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._act = act
        self._looking = False

    def install(self) -> None:
        module = sys.modules.get(self._name)
        if module is not None:
            self._act(module)
        else:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name or self._looking:
            return None
        self._looking = True  # the others are asked, not we again
        try:
            spec = find_spec(fullname)
        finally:
            self._looking = False
        if spec is None or spec.loader is None:
            return None
        spec.loader = cast("Loader", _Acting(spec.loader, self._act))
        return spec


class _Acting:
    """A loader that acts on the module when it has been loaded, and then is gone."""

    def __init__(self, loader: Any, act: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._act = act

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        found: ModuleType | None = self._loader.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._act(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
