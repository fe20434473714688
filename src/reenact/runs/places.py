"""Where a program was when it did something else than it did, in as few lines as will do."""

from __future__ import annotations

import os
import sys
from types import TracebackType

__all__ = ["print_place"]


def print_place(trace: TracebackType | None) -> None:
    """Where the program was: its own lines, without those of libraries."""
    import traceback

    whole = traceback.extract_tb(trace)
    frames = [one for one in whole if not _is_librarys(one.filename)] or whole
    shown = [(_short(one.filename), one.lineno or 0, one.name, one.line) for one in frames]
    sys.stderr.write("Traceback (most recent call last):\n")
    sys.stderr.writelines(traceback.format_list(shown))
    sys.stderr.write("reenact.DivergenceError\n")


def _short(file: str) -> str:
    """As somebody in this folder would write it."""
    return file.removeprefix(os.path.join(os.getcwd(), ""))


def _is_librarys(file: str) -> bool:
    places = (os.path.dirname(os.path.dirname(__file__)), os.path.dirname(os.__file__))
    return file.startswith((*places, "<frozen")) or "site-packages" in file
