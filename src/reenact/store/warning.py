"""Telling the person at the screen that something is not as it should be."""

from __future__ import annotations

import sys
from collections.abc import Callable

__all__ = ["Warn", "WarningRelay", "print_warning"]

Warn = Callable[[str], None]


def print_warning(text: str) -> None:
    """The default for warnings: one line on stderr."""
    if sys.stderr is not None:
        print(f"reenact: warning: {text}", file=sys.stderr)


class WarningRelay:
    """Warning function with temporary listeners."""

    def __init__(self, warn: Warn = print_warning) -> None:
        self._warn = warn
        self._listeners: tuple[Warn, ...] = ()

    def __call__(self, text: str) -> None:
        self._warn(text)
        for listener in self._listeners:
            listener(text)

    def add_listener(self, listener: Warn) -> Callable[[], None]:
        """``listener`` gets every warning from now on. Returns the function that ends it."""
        self._listeners = (*self._listeners, listener)

        def stop() -> None:
            self._listeners = tuple(one for one in self._listeners if one is not listener)

        return stop
