"""The seed of Python's hashes: sets are iterated in the recorded order when a replay has the same."""

from __future__ import annotations

from collections.abc import Iterable

from reenact._system import entropy
from reenact.format.event import Event

__all__ = ["HASH_SEED", "new_seed", "recorded_seed"]

HASH_SEED = "PYTHONHASHSEED"


def new_seed() -> str:
    """A hash seed: a replay starts Python with the same one."""
    return str(int.from_bytes(entropy(4), "big"))


def recorded_seed(source: Iterable[Event]) -> str | None:
    """The hash seed of the recorded program, if it says."""
    start = next((event for event in source if event.type == "run_start"), None)
    seed = None if start is None else start.data.get("hashSeed")
    return seed if isinstance(seed, str) and _is_seed(seed) else None


def _is_seed(text: str) -> bool:
    return text == "random" or (text.isascii() and text.isdecimal() and int(text) < 2**32)
