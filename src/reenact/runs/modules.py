"""In a process of ``reenact run --explain-boundaries``: saying what it has imported."""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

__all__ = ["EXPLAIN", "note_modules"]

EXPLAIN = "modules"
"""The part of a run's folder that asks the processes for their modules."""


def note_modules(folder: Path) -> None:
    """In a process of such a run: when it ends, say what it has imported."""
    atexit.register(_write, folder / EXPLAIN / f"{os.getpid()}.json")


def _write(place: Path) -> None:
    found: dict[str, Any] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "reenact":
            file = getattr(module, "__file__", None)
            found[name] = file if isinstance(file, str) else None
    place.write_bytes(msgspec.json.encode(found))
