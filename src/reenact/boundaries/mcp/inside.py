"""Replacing the inside of a function that others have names for.

``from mcp.client.stdio import stdio_client`` is in every framework, and in the SDK itself. What all
of them hold is one function, which ``asynccontextmanager`` made around a generator: the generator
is replaced, and the function stays the one it is.
"""

from __future__ import annotations

from types import CellType, ModuleType
from typing import Any

from reenact.engine.patches.patch import Wrap

__all__ = ["InsidePatch"]


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
        """Put the original back, unless somebody has replaced ours in the meantime."""
        if self._cell is not None and self._cell.cell_contents is self._installed:
            self._cell.cell_contents = self._original


def _cell_of(function: Any) -> CellType | None:
    inner = getattr(function, "__wrapped__", None)
    cells: tuple[CellType, ...] = getattr(function, "__closure__", None) or ()
    return next((cell for cell in cells if cell.cell_contents is inner), None)
