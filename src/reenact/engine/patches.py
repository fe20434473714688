"""Replacing functions of the standard library while a session is open, and putting them back.

One wrapper each, installed once for the process; it asks which session is in force where it is
called. When the last session closes everything is as it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from reenact.engine.imports import ImportWatch

__all__ = ["LatePatch", "Patch", "Patches"]


class Patch:
    """``wrap(original)`` makes the function that stands at ``owner.name`` while it is installed."""

    __slots__ = ("_name", "_original", "_owner", "_wrap", "_wrapped")

    def __init__(
        self, owner: Any, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        self._owner = owner
        self._name = name
        self._wrap = wrap
        self._original: Any = None
        self._wrapped: Any = None

    def install(self) -> None:
        # What stands in the class itself: a classmethod is put back as a classmethod.
        self._original = vars(self._owner)[self._name]
        self._wrapped = self._wrap(getattr(self._owner, self._name))
        setattr(self._owner, self._name, self._wrapped)

    def remove(self) -> None:
        """Put the original back, unless somebody has replaced ours in the meantime."""
        if vars(self._owner).get(self._name) is self._wrapped:
            setattr(self._owner, self._name, self._original)


class LatePatch:
    """A patch of a module that may not have been imported yet; ``find(module)`` is its owner."""

    __slots__ = ("_find", "_name", "_patch", "_watch", "_wrap")

    def __init__(
        self,
        module: str,
        find: Callable[[ModuleType], Any],
        name: str,
        wrap: Callable[[Callable[..., Any]], Callable[..., Any]],
    ) -> None:
        self._find = find
        self._name = name
        self._wrap = wrap
        self._patch: Patch | None = None
        self._watch = ImportWatch(module, self._imported)

    def _imported(self, module: ModuleType) -> None:
        self._patch = Patch(self._find(module), self._name, self._wrap)
        self._patch.install()

    def install(self) -> None:
        self._watch.install()

    def remove(self) -> None:
        self._watch.remove()
        if self._patch is not None:
            self._patch.remove()


class Patches:
    """A set of patches that is installed while anybody needs it."""

    def __init__(self, make: Callable[[], list[Patch | LatePatch]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._users = 0
        self._installed: list[Patch | LatePatch] = []

    def acquire(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._installed = self._make()
                for patch in self._installed:
                    patch.install()

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                for patch in reversed(self._installed):
                    patch.remove()
                self._installed = []

    def after_fork(self) -> None:
        """In a forked child: whoever held the lock is not here."""
        self._lock = threading.Lock()
