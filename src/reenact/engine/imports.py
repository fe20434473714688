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

    def install(self) -> None:
        module = sys.modules.get(self._name)
        if module is not None:
            self._act(module)
        else:
            _FINDER.add(self._name, self._act)

    def remove(self) -> None:
        _FINDER.discard(self._name, self._act)


class _Finder:
    """Asked first about every module that is imported. One for all that wait for a module: each
    more would cost every import of the program."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Callable[[ModuleType], None]]] = {}
        self._looking: set[str] = set()

    def add(self, name: str, act: Callable[[ModuleType], None]) -> None:
        self._waiting.setdefault(name, []).append(act)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def discard(self, name: str, act: Callable[[ModuleType], None]) -> None:
        left = [one for one in self._waiting.pop(name, ()) if one != act]
        if left:
            self._waiting[name] = left
        if not self._waiting and self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._waiting or fullname in self._looking:
            return None
        self._looking.add(fullname)  # the others are asked, not we again
        try:
            spec = find_spec(fullname)
        finally:
            self._looking.discard(fullname)
        if spec is None or spec.loader is None:
            return None
        spec.loader = cast("Loader", _Acting(spec.loader, self._acts(fullname)))
        return spec

    def _acts(self, name: str) -> Callable[[ModuleType], None]:
        """Whoever waits when the module has been loaded, in the order of asking."""

        def act(module: ModuleType) -> None:
            for one in list(self._waiting.get(name, ())):
                one(module)

        return act


_FINDER = _Finder()


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
