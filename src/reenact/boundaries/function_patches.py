"""Replacement of functions: by name in all modules, as an attribute, or inside a closure.

``time.time`` is easily replaced in its module, but ``from time import time`` binds a second name.
:class:`Rebinding` therefore searches the user's modules when it is installed, and the modules
imported since then when it is removed.

``from mcp.client.stdio import stdio_client`` occurs in every framework. All of them hold one
function, which ``asynccontextmanager`` made around a generator. :class:`InsidePatch` replaces the
generator and leaves the function itself in place.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from itertools import chain
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from reenact.boundaries.caller_tier import tier_of
from reenact.engine.patches.patch import Wrap

__all__ = [
    "Attribute",
    "InsidePatch",
    "Rebinding",
    "like_builtin",
]


class _Home:
    """The module that a function stands for one of. Pickled, it is that module."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> Any:
        return import_module, (self.name,)


def like_builtin(function: Any, original: Any) -> Any:
    """Return ``function`` as a replacement of ``original``, which is written in C.

    The first argument of ``function`` is unused. The result does not become a method as a class
    attribute, and it is pickled by its name.
    """
    function.__name__ = original.__name__
    function.__qualname__ = original.__qualname__
    function.__doc__ = original.__doc__
    function.__module__ = original.__module__
    return MethodType(function, _Home(original.__module__))


class Rebinding:
    """Patch that sets functions of ``owner``.

    ``replacements`` contains a factory for each name, which gets the original function.
    """

    def __init__(self, owner: ModuleType, replacements: Mapping[str, Callable[[Any], Any]]) -> None:
        self._owner = owner
        self._make = replacements
        self._originals: dict[str, Any] = {}
        self._new: dict[str, Any] = {}
        self._before: frozenset[str] = frozenset()

    @property
    def places(self) -> list[str]:
        """Dotted names of the replaced functions that exist on this system."""
        owner = self._owner
        return [f"{owner.__name__}.{name}" for name in self._make if hasattr(owner, name)]

    def install(self) -> None:
        for name, make in self._make.items():
            original = getattr(self._owner, name, None)
            if original is not None:  # not every system has every clock
                self._originals[name] = original
                self._new[name] = make(original)
        look = _look("install", self._originals)
        self._before = look.modules
        _swap(vars(self._owner), self._originals, self._new)
        look.swap(self._originals, self._new)
        _replaced.setdefault(self._owner, set()).update(self._originals)
        _standing.append(self._new)

    def remove(self) -> None:
        """Restore the originals. Replacements by other code stay in place."""
        global _last
        _swap(vars(self._owner), self._new, self._originals)
        _look("remove", self._new, self._before).swap(self._new, self._originals)
        _standing[:] = [one for one in _standing if one is not self._new]
        if not _standing:
            _last = None
        self._originals, self._new, self._before = {}, {}, frozenset()


Functions = Mapping[str, Any]

_replaced: WeakKeyDictionary[ModuleType, set[str]] = WeakKeyDictionary()
"""All names that were ever replaced, because they will be replaced again."""
_standing: list[Functions] = []
"""Replacements that are currently installed."""


class _Sought:
    """Finds the names of some functions, without asking ``id`` for each name of a module: since the
    guard has its audit hook, that is the slowest way to tell one object from another."""

    _PLAIN = frozenset({BuiltinFunctionType, FunctionType, type})
    """Two of these are equal where they are the same, and that is decided in C."""

    def __init__(self, functions: Iterable[Any]) -> None:
        given = list(functions)
        self._plain = {one for one in given if type(one) in self._PLAIN}
        self._plain_kinds = set(map(type, self._plain))
        self._others = [one for one in given if type(one) not in self._PLAIN]
        self._other_kinds = set(map(type, self._others))

    def among(self, names: dict[str, Any]) -> list[tuple[str, Any]]:
        """Return the names that refer to one of the functions, with their values."""
        if not self._any_in(list(names.values())):
            return []
        kinds, plain, others = self._plain_kinds, self._plain, self._other_kinds
        return [
            (name, one)
            for name, one in list(names.items())
            if (type(one) in kinds and one in plain)
            or (type(one) in others and self._is_other(one))
        ]

    def _any_in(self, values: list[Any]) -> bool:
        kinds, plain, others = self._plain_kinds, self._plain, self._other_kinds
        found = [one for one in values if type(one) in kinds and one in plain]
        return bool(found) or any(self._is_other(one) for one in values if type(one) in others)

    def _is_other(self, value: Any) -> bool:
        return any(value is one for one in self._others)


class _Look:
    """Index of references to functions, in the user's modules and in modules that are not in
    ``known``.

    A session replaces functions of many modules, one after the other. Searching all imported
    modules for each of them would take most of the time.
    """

    def __init__(self, known: frozenset[str] | None) -> None:
        modules: dict[str, Any] = dict(sys.modules)  # the values can be anything
        self.modules = frozenset(modules)
        self._places = [
            names
            for name, module in modules.items()
            if isinstance(module, ModuleType)
            and (
                tier_of(names := vars(module)) == "user"
                or (known is not None and name not in known)
            )
        ]
        self._sought: set[int] = set()
        self._found: defaultdict[int, list[tuple[dict[str, Any], str]]] = defaultdict(list)

    def seek(self, functions: Iterable[Any]) -> None:
        """Find them, if that was not done yet."""
        fresh = {id(one): one for one in functions if id(one) not in self._sought}
        if not fresh:
            return
        self._sought.update(fresh)
        sought = _Sought(fresh.values())
        for names in self._places:
            for at, value in sought.among(names):
                self._found[id(value)].append((names, at))

    def swap(self, old: Functions, new: Functions) -> None:
        """Replace references to the functions of ``old`` by the functions of ``new``."""
        for name, value in old.items():
            self._sought.add(id(new[name]))
            for names, at in self._found.pop(id(value), ()):
                if names.get(at) is value:
                    names[at] = new[name]
                    self._found[id(new[name])].append((names, at))


_last: tuple[Any, _Look] | None = None


def _look(what: str, functions: Functions, known: frozenset[str] | None = None) -> _Look:
    """Return a shared index for patches that are installed or removed together.

    It is valid until a module is imported.
    """
    global _last
    moment = what, known, len(sys.modules), next(reversed(sys.modules), "")
    if _last is None or _last[0] != moment:
        _last = moment, _Look(known)
        _last[1].seek(
            _expected() if what == "install" else chain(*(one.values() for one in _standing))
        )
    _last[1].seek(functions.values())
    return _last[1]


def _expected() -> list[Any]:
    """Return the current values of all names that were replaced before."""
    places = [(owner, name) for owner, names in _replaced.items() for name in names]
    return [found for owner, name in places if (found := getattr(owner, name, None)) is not None]


def _swap(names: dict[str, Any], old: Functions, new: Functions) -> None:
    wanted = {id(value): new[name] for name, value in old.items()}
    for name, value in _Sought(old.values()).among(names):
        if id(value) in wanted:
            names[name] = wanted[id(value)]


class Attribute:
    """``make(original)`` stands at ``owner.name`` while it is installed; an owner that has no such
    attribute is left alone."""

    def __init__(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        self._owner = owner
        self._name = name
        self._make = make
        self._original: Any = None
        self._new: Any = None

    def install(self) -> None:
        self._original = vars(self._owner).get(self._name)
        if self._original is not None:
            self._new = self._make(self._original)
            setattr(self._owner, self._name, self._new)

    def remove(self) -> None:
        """Restore the original, unless other code has replaced the patch in the meantime."""
        if self._new is not None and vars(self._owner).get(self._name) is self._new:
            setattr(self._owner, self._name, self._original)
        self._original = self._new = None


class InsidePatch:
    """``wrap(original)`` makes the generator that ``owner.name`` is around while it is installed.

    A version of the library whose function is made in another way is left alone.
    """

    def __init__(self, owner: ModuleType, name: str, wrap: Wrap) -> None:
        self.places = [f"{owner.__name__}.{name}"]
        self._cell = _cell_of(getattr(owner, name))
        self._wrap = wrap
        self._original: Any = None
        self._installed: Any = None

    def install(self) -> None:
        if self._cell is not None:
            self._original = self._cell.cell_contents
            self._installed = self._cell.cell_contents = self._wrap(self._original)

    def remove(self) -> None:
        """Restore the original, unless other code has replaced the patch in the meantime."""
        if self._cell is not None and self._cell.cell_contents is self._installed:
            self._cell.cell_contents = self._original


def _cell_of(function: Any) -> CellType | None:
    inner = getattr(function, "__wrapped__", None)
    cells: tuple[CellType, ...] = getattr(function, "__closure__", None) or ()
    return next((cell for cell in cells if cell.cell_contents is inner), None)
