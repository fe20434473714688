"""Objects and modules that are loaded on first use.

For parts that most programs never need: the asynchronous half of the engine, which is loaded
together with ``asyncio``, and the explanation of divergences. A process under Reenact starts
without them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["LazyObject", "lazy_module"]


class LazyObject:
    """Proxy of the object that ``load()`` returns. Attributes are looked up once."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._load(), name)
        setattr(self, name, value)
        return value


def lazy_module(name: str) -> Any:
    """Return a proxy that imports the module ``name`` on first use."""
    return LazyObject(lambda: import_module(name))
