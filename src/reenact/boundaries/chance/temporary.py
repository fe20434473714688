"""The names of temporary files and directories.

What has a recorded name may be there already: the recorded program may have left it behind. Then
there is another name, which the program is told like any.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from reenact.boundaries.chance.attributes import Attribute
from reenact.boundaries.chance.drawing import apart, text
from reenact.engine.patches.patch import Installable
from reenact.engine.session.current import current

__all__ = ["seams"]

_frame = sys._getframe


def seams(module: ModuleType) -> list[Installable]:
    """The patches of the module ``tempfile``."""
    return [Attribute(module, "_get_candidate_names", _candidates)]


def _candidates(original: Callable[[], Iterator[str]]) -> Callable[[], Iterator[str]]:
    def _get_candidate_names() -> Iterator[str]:
        names = original()
        asks = _frame(1).f_back
        if current() is None or (asks is not None and asks.f_code.co_name == "TemporaryFile"):
            return names  # whose name nobody sees; on most systems it has none
        return _Names(names)

    return _get_candidate_names


class _Names:
    """The names that one call of ``tempfile`` tries, until there is nothing that has it."""

    def __init__(self, names: Iterator[str]) -> None:
        self._names = names
        self._tried = ""

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> str:
        session = current()
        if session is None:
            return next(self._names)
        if self._tried and _frame(1).f_globals.get("__name__") == "tempfile":
            session.warn_once(
                f"something with the temporary name {self._tried} exists already: the program gets "
                "another name"
            )
            return apart(lambda: next(self._names))
        found, instead = text("rng tempfile.name", lambda: apart(lambda: next(self._names)), 1)
        self._tried = found or instead.hex()[:8]
        return self._tried
