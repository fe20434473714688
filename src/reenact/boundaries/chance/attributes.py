"""One attribute that is another while a session is open. No frame of ours stands between it and
whoever uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Attribute"]


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
        """Put the original back, unless somebody has replaced ours in the meantime."""
        if self._new is not None and vars(self._owner).get(self._name) is self._new:
            setattr(self._owner, self._name, self._original)
        self._original = self._new = None
