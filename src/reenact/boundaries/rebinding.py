"""Functions that are replaced wherever the program has a name for them.

``time.time`` is easily replaced in its module; but who wrote ``from time import time`` has a name of
their own for it. So the user's modules are looked through when the replacement is installed, and
those that were imported meanwhile when it is taken away.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MethodType, ModuleType
from typing import Any

from reenact.boundaries.callers import tier_of

__all__ = ["Rebinding", "like_builtin"]


class _Home:
    """The module that a function stands for one of. Pickled, it is that module."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> Any:
        return import_module, (self.name,)


def like_builtin(function: Any, original: Any) -> Any:
    """``function``, whose first argument is nobody's, in place of ``original``, which is written in
    C: as an attribute of a class it does not become a method, and it is pickled by its name."""
    function.__name__ = original.__name__
    function.__qualname__ = original.__qualname__
    function.__doc__ = original.__doc__
    function.__module__ = original.__module__
    return MethodType(function, _Home(original.__module__))


class Rebinding:
    """In ``owner``, each name gets the function that ``replacements`` has for it, made of the
    original one."""

    def __init__(self, owner: ModuleType, replacements: Mapping[str, Callable[[Any], Any]]) -> None:
        self._owner = owner
        self._make = replacements
        self._originals: dict[str, Any] = {}
        self._new: dict[str, Any] = {}
        self._before: set[str] = set()

    @property
    def places(self) -> list[str]:
        """What it replaces, as far as this system has it."""
        owner = self._owner
        return [f"{owner.__name__}.{name}" for name in self._make if hasattr(owner, name)]

    def install(self) -> None:
        self._before = set(sys.modules)
        for name, make in self._make.items():
            original = getattr(self._owner, name, None)
            if original is not None:  # not every system has every clock
                self._originals[name] = original
                self._new[name] = make(original)
        _swap(vars(self._owner), self._originals, self._new)
        for module in _modules():
            if tier_of(vars(module)) == "user":
                _swap(vars(module), self._originals, self._new)

    def remove(self) -> None:
        """Put the originals back. What somebody else has put in place stays."""
        _swap(vars(self._owner), self._new, self._originals)
        for module in _modules():
            if module.__name__ not in self._before or tier_of(vars(module)) == "user":
                _swap(vars(module), self._new, self._originals)
        self._originals, self._new = {}, {}


def _modules() -> list[ModuleType]:
    found: list[Any] = list(sys.modules.values())  # anything may stand there
    return [module for module in found if isinstance(module, ModuleType)]


def _swap(names: dict[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Where a name stands for one of ``old``, let it stand for the same of ``new``."""
    wanted = {id(value): new[name] for name, value in old.items()}
    for name, value in list(names.items()):
        if id(value) in wanted:
            names[name] = wanted[id(value)]
