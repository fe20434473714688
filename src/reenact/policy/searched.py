"""A text that a hundred patterns are tried on, and what is known of it before.

An expression that is searched for is tried at every character. Nearly all of ours start with a word, or
cannot match without one: going from word to word takes a tenth of the time, and most words are not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

__all__ = ["Searched", "matches_at", "probe", "words_in"]

_LONG = 2_000
"""Characters from which on it pays to have the set of words."""
_WORDS = bytes(ord(chr(c).lower()) if c < 128 and chr(c).isalnum() else 32 for c in range(256))


def words_in(data: bytes) -> str:
    """The set of words of ``data``, in lower case, with blanks around each. Texts repeat their words, so
    this is short. As text, which tests for substrings several times faster than bytes do."""
    return f" {' '.join(set(data.translate(_WORDS).decode('ascii').split()))} "


@lru_cache(maxsize=1024)
def probe(need: bytes) -> str:
    """What is in the set of words when ``need``, in lower case, is in the data."""
    parts = re.findall(" ?[a-z0-9]+ ?", need.translate(_WORDS).decode("ascii"))
    return max(parts, key=len, default="")


class Searched:
    """``text``, and the same in lower case."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.low = text.lower()
        self.aligned = len(self.low) == len(text)
        """Do the places of both agree? There is a capital letter that becomes two small ones."""
        self._words = ""
        if len(text) > _LONG:
            self._words = words_in(self.low.encode("utf-8", "surrogatepass"))

    def has(self, need: str) -> bool:
        """Is ``need``, which is in lower case, in the text in some case?"""
        if not self._words:
            return need in self.low
        word = probe(need.encode())
        return word in self._words and (word == need or need in self.low)

    def matches(
        self, pattern: re.Pattern[str], word: str, before: int = 0
    ) -> Iterator[re.Match[str]]:
        """What ``pattern.finditer`` gives, if each match has ``word``, in some case, ``before``
        characters behind its start."""
        if not self.aligned:
            return pattern.finditer(self.text)
        return matches_at(pattern, self.text, word, low=self.low, before=before)


def matches_at(
    pattern: re.Pattern[str], text: str, word: str, *, low: str = "", before: int = 0
) -> Iterator[re.Match[str]]:
    """What ``pattern.finditer(text)`` gives, if each match has ``word`` in it, ``before`` characters
    behind its start. The word is looked for in ``low``, if that is given."""
    low = low or text
    place = low.find(word, before)
    while place >= 0:
        match = pattern.match(text, place - before)
        if match is not None:
            yield match
        place = low.find(word, match.end() + before if match else place + 1)
