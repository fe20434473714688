"""What was seen of each framework, kept in ``results/``: the page in the docs is made of it.

A test compares what it has seen with what is kept. With ``REENACT_KEEP_RESULTS=1`` it keeps it
instead: ``make frames`` says so, and writes the page anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

__all__ = ["check_result"]

_HERE = Path(__file__).resolve().parent / "results"
_KEEPS = os.environ.get("REENACT_KEEP_RESULTS", "") not in ("", "0")
"""Read here because no test sees the variables with our name."""


def check_result(name: str, seen: dict[str, Any]) -> None:
    """Fails where ``seen`` is not what the docs say."""
    place = _HERE / f"{name}.json"
    if _KEEPS:
        _HERE.mkdir(exist_ok=True)
        place.write_text(json.dumps(seen, indent=2, sort_keys=True) + "\n", "utf-8")
    kept = json.loads(place.read_text("utf-8")) if place.exists() else None
    assert seen == kept, f"{place.name} says something else; run: make frames"
