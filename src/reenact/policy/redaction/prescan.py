"""A text that a hundred patterns are tried on, and what is known of it before.

An expression that is searched for is tried at every character. Nearly all of ours start with a word, or
cannot match without one: going from word to word takes a tenth of the time, and most words are not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Generic, TypeVar

import msgspec

from reenact.policy.patterns import lazy_pattern

__all__ = ["Clue", "ClueIndex", "IndexedText", "WordIndex", "clue_of", "matches_at"]

_SEPARATORS = "\"'`,;<>(){}\\"
_PIECES = bytes(32 if c <= 32 or c > 126 or chr(c) in _SEPARATORS else c for c in range(256))
_WORDS = bytes(c if c < 128 and chr(c).isalnum() else 32 for c in range(256))
_DIGITS = "0123456789"
_LONGEST, _SHORTEST = 3, 2
"""Letters of the beginnings and ends by which words are looked up."""
_LONG = 4_000
"""Characters from which on it pays to look for what repeats."""
_MANY = 200
"""Words from which on it pays to leave out the numbers."""
_ESCAPED = (
    (b"\\", lazy_pattern(rb"\\(?:[nrtbf]|x[0-9a-f]{2}|u[0-9a-f]{4})([0-9a-z]{2,3})")),
    (b"%", lazy_pattern(rb"%[0-9a-f]{2}([0-9a-z]{2,3})")),
    (b"[", lazy_pattern(rb"\[[0-9]{1,2}m([0-9a-z]{2,3})")),
    (b";", lazy_pattern(rb";[0-9]{1,2}m([0-9a-z]{2,3})")),
)
"""Words that start behind an escape, and what there is in the data then."""
_RUN = lazy_pattern(r"[a-z0-9]+")

T = TypeVar("T")


class WordIndex:
    """The words of some data in lower case: runs of letters and digits. Texts repeat them, so they are few.

    ``starts`` and ``ends`` are their first and last two or three letters. Behind an escape a word starts
    later than its run does: ``\\nsk`` in JSON, ``%20sk`` in a URL, ``[31msk`` in a coloured text. Digits at
    the end of a name are not part of it, so that the letters before them are an end, too.
    """

    __slots__ = ("_words", "ends", "joined", "pieces", "starts")

    def __init__(self, low: bytes) -> None:
        text, pieces, joined = low, None, None
        if len(low) > _LONG and _repeats(low[: len(low) // 8]):
            pieces = _unique(low)
            text = pieces.encode("ascii")
        words = set(text.translate(_WORDS).decode("ascii").split())
        if len(words) > _MANY:
            words = {word for word in words if not word.isdigit()}
            joined = f" {' '.join(words)} "
            if 4 * len(joined) > len(low):
                joined = None
        self._words = words
        self.pieces = pieces
        """The different pieces of a long text between blanks and quotes; None if it does not repeat them."""
        self.joined = joined
        """All words, with blanks around each; None where it does not pay to search them."""
        ends = {word[-3:] for word in words}
        ends |= {word.rstrip(_DIGITS)[-3:] for word in words if word[-1] <= "9"}
        ends |= {end[-2:] for end in ends}
        self.ends = ends
        starts = {word[:3] for word in words}
        for mark, escaped in _ESCAPED:
            if mark in low:
                starts.update(found.decode("ascii") for found in escaped.findall(low))
        starts |= {start[:2] for start in starts}
        self.starts = starts


def _unique(low: bytes) -> str:
    return " ".join(set(low.translate(_PIECES).decode("ascii").split()))


def _repeats(low: bytes) -> bool:
    return 3 * len(_unique(low)) < 2 * len(low)


class Clue(msgspec.Struct, frozen=True):
    """Conditions on the words of a text that contains ``need`` in lower case.

    Some word starts with ``start`` unless it is empty, some word ends in one of ``ends`` unless
    there are none, and ``probe`` is in the joined words.
    """

    need: str
    probe: str
    start: str = ""
    ends: tuple[str, ...] = ()

    def fits(self, index: WordIndex) -> bool:
        """False proves that the need is not in the text."""
        if self.start and self.start not in index.starts:
            return False
        if self.ends and index.ends.isdisjoint(self.ends):
            return False
        if index.joined is not None and self.probe not in index.joined:
            return False
        return index.pieces is None or self.piece in index.pieces

    @property
    def piece(self) -> str:
        """The need if it cannot extend over several pieces, otherwise nothing."""
        is_one = all(" " < char <= "~" and char not in _SEPARATORS for char in self.need)
        return self.need if is_one else ""


@lru_cache(maxsize=1024)
def clue_of(
    need: str, *, leads: bool = False, ends_word: bool = False, ends: tuple[str, ...] = ()
) -> Clue:
    """Return the clue to ``need``.

    ``leads``: no letter or digit precedes it. ``ends_word``: none follows it. ``ends``: possible
    ends of the word that contains ``need``.
    """
    padded = f"{' ' * leads}{need}{' ' * ends_word}"
    runs = [(run[0], *run.span()) for run in _RUN.finditer(padded) if not run[0].isdigit()]
    if not runs:
        return Clue(need, "")
    word, first, last = max(runs, key=lambda run: len(run[0]))
    probe = " " * (first > leads) + word + " " * (last < len(padded))
    if ends:
        known = {end.rstrip(_DIGITS)[-_LONGEST:] for end in ends}
        return Clue(need, probe, ends=tuple(sorted(known)))
    end = _longest(run[-_LONGEST:] for run, _, last in runs if last < len(padded))
    start = _longest(run[:_LONGEST] for run, first, _ in runs if first > 0)
    if end and len(end) >= len(start):
        return Clue(need, probe, ends=(end,))
    return Clue(need, probe, start=start)


def _longest(pieces: Iterable[str]) -> str:
    """The longest of ``pieces`` by which words can be looked up; empty for none."""
    found = max(pieces, key=len, default="")
    return found if len(found) >= _SHORTEST else ""


class ClueIndex(Generic[T]):
    """Things that are each worth a look only where one of their clues fits."""

    def __init__(self, clues: Iterable[tuple[Clue, T]]) -> None:
        self._by_start: dict[str, list[_Entry[T]]] = {}
        self._by_end: dict[str, list[_Entry[T]]] = {}
        self._rest: list[_Entry[T]] = []
        for clue, thing in clues:
            entry = clue.probe, clue.piece, clue.need, thing
            if clue.start:
                self._by_start.setdefault(clue.start, []).append(entry)
            for end in clue.ends:
                self._by_end.setdefault(end, []).append(entry)
            if not clue.start and not clue.ends:
                self._rest.append(entry)
        self._starts = frozenset(self._by_start)
        self._ends = frozenset(self._by_end)

    def fitting(self, index: WordIndex, low: str) -> Iterator[T]:
        """The things of which a need is in the text, which is ``low`` in lower case and has the words of
        ``index``; those with several such needs as often.

        Not for bytes, because a test for a substring of a short text takes several times as long there.
        """
        joined = index.joined
        fits = self._ends & index.ends
        entries = [entry for end in fits for entry in self._by_end[end]]
        if len(fits) > 1:
            entries = list({id(entry): entry for entry in entries}.values())
        for start in self._starts & index.starts:
            entries += self._by_start[start]
        entries += self._rest
        if joined is not None:
            entries = [entry for entry in entries if entry[0] in joined]
        if index.pieces is not None:
            pieces = index.pieces
            entries = [entry for entry in entries if entry[1] in pieces]
        for _, _, need, thing in entries:
            if need in low:
                yield thing


_Entry = tuple[str, str, str, T]


class IndexedText:
    """``text``, and the same in lower case."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.low = text.lower()
        self.aligned = len(self.low) == len(text)
        """Do the places of both agree? There is a capital letter that becomes two small ones."""

    @cached_property
    def index(self) -> WordIndex:
        """The words of the text."""
        return WordIndex(self.text.encode("utf-8", "surrogatepass").lower())

    def has(self, need: str) -> bool:
        """Is ``need``, which is in lower case, in the text in some case?"""
        return clue_of(need).fits(self.index) and need in self.low

    def matches(
        self, pattern: re.Pattern[str], word: str, before: int = 0
    ) -> Iterator[re.Match[str]]:
        """Yield the matches of ``pattern.finditer``, given that ``word`` in any case is ``before``
        characters after the start of each match.
        """
        if not self.aligned:
            return pattern.finditer(self.text)
        return matches_at(pattern, self.text, word, low=self.low, before=before)


def matches_at(
    pattern: re.Pattern[str], text: str, word: str, *, low: str = "", before: int = 0
) -> Iterator[re.Match[str]]:
    """Yield the matches of ``pattern.finditer(text)``, given that ``word`` is ``before`` characters
    after the start of each.

    The word is searched in ``low`` if it is given.
    """
    low = low or text
    place = low.find(word, before)
    while place >= 0:
        match = pattern.match(text, place - before)
        if match is not None:
            yield match
        place = low.find(word, match.end() + before if match else place + 1)
