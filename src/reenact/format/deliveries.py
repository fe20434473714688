"""Events that only say when something was handed to the program."""

from __future__ import annotations

from typing import Any, Final

from reenact.format.canonical import digest_bytes
from reenact.format.event import Data

__all__ = [
    "CHUNK",
    "DROPPED",
    "LONGEST_RUN",
    "NO_VALUE",
    "SCHEDULE",
    "STOPPED",
    "chunk_delivery",
    "delivery_names",
    "parse_chunk_delivery",
]

SCHEDULE: Final = "schedule"
"""The source of these events."""

CHUNK: Final = "chunk"
"""``chunk:P:N`` names the delivery of piece N of the stream at position P of its lane."""

DROPPED: Final = "dropped"
"""Names what did not happen: the job of this lane was given up before it began."""

STOPPED: Final = "stopped"
"""Key of an event for a process that the program ended: the process of this lane or the one that
did its job.
"""

LONGEST_RUN: Final = 64
"""Pieces of a stream that one event stands for, at most: a reader makes something of each, and a
forged recording must not make it make very much."""

NO_VALUE: Final = digest_bytes(b"null")

_CHUNK_NAME = f"{CHUNK}:"
_LONGEST_NUMBER = 15


def chunk_delivery(position: int, first: int, count: int) -> Data:
    """The data that say: ``count`` pieces of a stream were handed over, one after the other."""
    data: Data = {"source": SCHEDULE, "key": f"{CHUNK}:{position}:{first}", "valueHash": NO_VALUE}
    if count > 1:
        data["count"] = count
    return data


def parse_chunk_delivery(key: Any, count: Any) -> tuple[int, int, int] | None:
    """Position, first and count of what :func:`chunk_delivery` made; None for any other delivery."""
    if not isinstance(key, str) or not key.startswith(_CHUNK_NAME):
        return None
    position, _, first = key[len(_CHUNK_NAME) :].partition(":")
    if not _is_number(position) or not _is_number(first):
        return None
    several = type(count) is int and 1 < count <= LONGEST_RUN
    return int(position), int(first), count if several else 1


def _is_number(text: str) -> bool:
    return len(text) <= _LONGEST_NUMBER and text.isdecimal() and text.isascii()


def delivery_names(key: str, count: Any) -> list[str]:
    """The name of each delivery that an event with ``key`` and ``count`` stands for."""
    run = parse_chunk_delivery(key, count) if count is not None else None
    if run is None:
        return [key]
    position, first, several = run
    return [f"{CHUNK}:{position}:{number}" for number in range(first, first + several)]
