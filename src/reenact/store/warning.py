"""Telling the person at the screen that something is not as it should be."""

from __future__ import annotations

import sys
from collections.abc import Callable

__all__ = ["Warn", "print_warning"]

Warn = Callable[[str], None]


def print_warning(text: str) -> None:
    """The default for warnings: one line on stderr."""
    if sys.stderr is not None:
        print(f"reenact: warning: {text}", file=sys.stderr)
