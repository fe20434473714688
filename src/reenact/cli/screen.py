"""What the place where we print can show."""

from __future__ import annotations

import os
from typing import NamedTuple, TextIO

__all__ = ["Screen", "has_colour", "screen_of"]

_DUMB = ("", "dumb")
_BLOCKS = "█▐▁"


class Screen(NamedTuple):
    """``blocks``: can it draw with them? ``encoding`` is that of its text."""

    blocks: bool
    colour: bool
    encoding: str


def screen_of(out: TextIO) -> Screen:
    """A terminal shows blocks if its encoding has them; whatever is no terminal gets plain text."""
    encoding = getattr(out, "encoding", None) or "ascii"
    smart = out.isatty() and os.environ.get("TERM", "") not in _DUMB
    return Screen(smart and _has(encoding, _BLOCKS), has_colour(out), encoding)


def has_colour(out: TextIO) -> bool:
    """Is it a terminal that obeys, and does nobody mind colours?"""
    return (
        out.isatty() and os.environ.get("TERM", "") not in _DUMB and not os.environ.get("NO_COLOR")
    )


def _has(encoding: str, characters: str) -> bool:
    try:
        characters.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
