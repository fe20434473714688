"""Ids: a prefix that says of what, the time, and chance. They sort by time."""

from __future__ import annotations

from typing import Final

__all__ = ["ENTROPY", "make_id"]

ENTROPY: Final = 10
"""Random bytes in an id."""
_DIGITS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH: Final = 26


def make_id(prefix: str, at: int, chance: bytes) -> str:
    """``<prefix>_`` and 26 digits of base 32: 48 bits of ``at`` in milliseconds, 80 of ``chance``."""
    number = (at << 8 * ENTROPY) | int.from_bytes(chance[:ENTROPY])
    digits = (_DIGITS[number >> 5 * place & 31] for place in reversed(range(_LENGTH)))
    return f"{prefix}_{''.join(digits)}"
