"""Things that are loaded when something of them is first asked for.

For what most programs never need: the asynchronous half of the engine, which comes with
``asyncio``, and what explains a divergence. A process that runs under Reenact starts without them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["Late", "late_module"]


class Late:
    """Stands for what ``load()`` returns. What was asked of it once is not looked up again."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._load(), name)
        setattr(self, name, value)
        return value


def late_module(name: str) -> Any:
    """Stands for the module ``name``."""
    return Late(lambda: import_module(name))
