"""Tests that freeze the clock with freezegun.

When it lets go, it puts back the functions of ``time`` that it found when it was imported: past
what a session has put there. So it gets those for as long as the session is open.
"""

from __future__ import annotations

import sys
import time
from typing import Any

__all__ = ["FreezingPatch"]

_PREFIX = "real_"


class FreezingPatch:
    """Installed when a session is open, if freezegun has been imported by then."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = {}
        self._before: dict[str, Any] = {}

    def install(self) -> None:
        api = sys.modules.get("freezegun.api")
        if api is not None:
            self._names = vars(api)
            self._before = {name: value for name, value in self._names.items() if _now(name)}
            self._names.update({name: _now(name) for name in self._before})

    def remove(self) -> None:
        self._names.update(self._before)


def _now(name: str) -> Any:
    """The function of ``time`` that ``real_time`` and its like stand for."""
    home, _, function = name.partition(_PREFIX)
    found = None if home else getattr(time, function, None)
    return found if callable(found) else None
