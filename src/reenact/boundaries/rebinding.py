"""Functions that are replaced wherever the program has a name for them.

``time.time`` is easily replaced in its module; but who wrote ``from time import time`` has a name of
their own for it. So the user's modules are looked through when the replacement is installed, and
those that were imported meanwhile when it is taken away.
"""

from __future__ import annotations

import sys
from collections import defaultdict
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
        self._before: frozenset[str] = frozenset()

    @property
    def places(self) -> list[str]:
        """What it replaces, as far as this system has it."""
        owner = self._owner
        return [f"{owner.__name__}.{name}" for name in self._make if hasattr(owner, name)]

    def install(self) -> None:
        for name, make in self._make.items():
            original = getattr(self._owner, name, None)
            if original is not None:  # not every system has every clock
                self._originals[name] = original
                self._new[name] = make(original)
        look = _look("install")
        self._before = look.modules
        _swap(vars(self._owner), self._originals, self._new)
        look.swap(self._originals, self._new)

    def remove(self) -> None:
        """Put the originals back. What somebody else has put in place stays."""
        _swap(vars(self._owner), self._new, self._originals)
        _look("remove", self._before).swap(self._new, self._originals)
        self._originals, self._new, self._before = {}, {}, frozenset()


class _Look:
    """Where names stand for what can be called: in the user's own modules, and in those that are
    not among ``known``. A session replaces functions of many modules, one module after the other,
    and to look through all that is imported for each of them would take most of its time."""

    def __init__(self, known: frozenset[str] | None) -> None:
        self._found: defaultdict[int, list[tuple[dict[str, Any], str]]] = defaultdict(list)
        modules: dict[str, Any] = dict(sys.modules)  # anything may stand there
        self.modules = frozenset(modules)
        for name, module in modules.items():
            if not isinstance(module, ModuleType):
                continue
            names = vars(module)
            if tier_of(names) == "user" or (known is not None and name not in known):
                for at, value in list(names.items()):
                    if callable(value):
                        self._found[id(value)].append((names, at))

    def swap(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Where a name stands for one of ``old``, let it stand for the same of ``new``."""
        for name, value in old.items():
            for names, at in self._found.pop(id(value), ()):
                if names.get(at) is value:
                    names[at] = new[name]
                    self._found[id(new[name])].append((names, at))


_last: tuple[Any, _Look] | None = None


def _look(what: str, known: frozenset[str] | None = None) -> _Look:
    """One look for all that is installed, or removed, together: until a module is imported, or
    something else is done."""
    global _last
    moment = what, known, len(sys.modules), next(reversed(sys.modules), "")
    if _last is None or _last[0] != moment:
        _last = moment, _Look(known)
    return _last[1]


def _swap(names: dict[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    wanted = {id(value): new[name] for name, value in old.items()}
    for name, value in list(names.items()):
        if id(value) in wanted:
            names[name] = wanted[id(value)]
