"""The seed of Python's hashes: sets are iterated in the recorded order when a replay has the same."""

from __future__ import annotations

from reenact._system import entropy

__all__ = ["HASH_SEED", "is_seed", "new_seed"]

HASH_SEED = "PYTHONHASHSEED"


def new_seed() -> str:
    """A hash seed: a replay starts Python with the same one."""
    return str(int.from_bytes(entropy(4), "big"))


def is_seed(text: object) -> bool:
    """Does Python start with it?"""
    if not isinstance(text, str):
        return False
    return text == "random" or (text.isascii() and text.isdecimal() and int(text) < 2**32)
