"""Words of a command, and names of places, as data: for the system they are bytes, and need not be
text in any encoding. Python has them as texts with lone surrogates then, which JSON cannot hold."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

__all__ = ["dump_words", "in_words", "load_words"]


def dump_words(words: Iterable[str]) -> list[str | bytes]:
    """``words`` for an event: texts, and bytes where they are none, in whatever locale."""
    return [_dumped(os.fsencode(word)) for word in words]


def _dumped(word: bytes) -> str | bytes:
    try:
        return word.decode()
    except UnicodeDecodeError:
        return word


def load_words(said: Any) -> list[str]:
    """What :func:`dump_words` has made, as a program gets it here; nothing where something else
    stands."""
    if not isinstance(said, list) or not all(isinstance(word, str | bytes) for word in said):
        return []
    return [os.fsdecode(word.encode() if isinstance(word, str) else word) for word in said]


def in_words(word: str) -> str:
    r"""``word`` for people and for JSON: what is no text in it is written as ``\xff``."""
    return os.fsencode(word).decode("utf-8", "backslashreplace")
