"""Lane names: the causal identity of a task, thread or job (``0``, ``0.1``, ``0.1.2``)."""

from __future__ import annotations

import re

from reenact.errors import ValueRefused

__all__ = ["ROOT", "check", "order"]

ROOT = "0"

_LONGEST = 4_000  # characters; Python reads no integer of more than 4,300
_LANE = re.compile(r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*))*")


def check(lane: str) -> str:
    """``lane`` itself, or :class:`ValueRefused`."""
    if len(lane) > _LONGEST or _LANE.fullmatch(lane) is None:
        raise ValueRefused(
            f"{lane[:80]!r} is not a lane", "$.lane", hint="numbers joined by dots, such as 0.1.2"
        )
    return lane


def order(lane: str) -> tuple[int, ...]:
    """Sort key: parents before children, siblings by number."""
    return tuple(map(int, lane.split(".")))
