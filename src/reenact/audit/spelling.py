"""Base64 and numbers of which there is only one spelling."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Final

__all__ = ["MAX_SIZE", "strict_base64", "strict_number"]

MAX_SIZE: Final = 2**53 - 1
"""The largest size and time: so that each is a number to every reader of JSON."""


def strict_base64(text: str) -> bytes | None:
    """The bytes, or None unless ``text`` is exactly what standard base64 makes of them.

    The decoder alone lets bits pass in the last character that stand for nothing, and so would
    several texts stand for one hash.
    """
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        return None
    return data if b64encode(data).decode() == text else None


def strict_number(text: str) -> int | None:
    """A decimal without sign and leading zeroes, up to :data:`MAX_SIZE`; None for anything else."""
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_SIZE)):
        return None
    number = int(text)
    return number if str(number) == text and number <= MAX_SIZE else None
