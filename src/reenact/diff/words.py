"""Two texts, word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Literal

from reenact.diff.align import align

__all__ = ["Piece", "word_diff"]

Piece = tuple[Literal["same", "removed", "added"], str]

_WORD = re.compile(r"\s+|\w+|[^\w\s]")


def word_diff(one: str, other: str) -> list[Piece]:
    """What to take from ``one`` and what to put in to have ``other``. The pieces that are the same
    or removed make ``one``, those that are the same or added make ``other``."""
    mine, theirs = _WORD.findall(one), _WORD.findall(other)
    tagged = (
        ("removed", mine[left])
        if right is None and left is not None
        else ("same" if left is not None else "added", theirs[right or 0])
        for left, right in align(mine, theirs)
    )
    return list(_joined(tagged))


def _joined(tagged: Iterator[tuple[str, str]]) -> Iterator[Piece]:
    for tag, words in groupby(tagged, key=lambda pair: pair[0]):
        text = "".join(word for _, word in words)
        if tag == "same":
            yield "same", text
        elif tag == "removed":
            yield "removed", text
        else:
            yield "added", text
