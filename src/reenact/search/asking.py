"""The words that are looked for. Pure: a text has them or not, whatever an index thinks of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

from reenact.errors import UsageError

__all__ = ["Term", "fold", "read_terms"]

_GRAM = 3
"""Characters of the pieces by which the index finds texts."""

_TOKEN = re.compile(r'(-?)(?:"([^"]*)"|(\S+))')


def fold(text: str) -> str:
    """``text`` without upper and lower case, every character in its place."""
    folded = text.casefold()
    return folded if len(folded) == len(text) else "".join(map(_fold_one, text))


def _fold_one(char: str) -> str:
    folded = char.casefold()
    return folded if len(folded) == 1 else char


class Term(msgspec.Struct, frozen=True):
    """Something that has to be there, or must not be: a text that is found inside of words, too.

    With ``starts`` a word has to begin with it. Any white space stands for any other.
    """

    text: str
    unwanted: bool = False
    starts: bool = False

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where it stands in ``text``, from and to."""
        return [found.span() for found in self._pattern().finditer(fold(text))]

    def is_in(self, text: str) -> bool:
        """Does ``text`` have it?"""
        return self.finder()(text)

    def finder(self) -> Callable[[str], bool]:
        """The same, for many texts."""
        if self.starts or len(self.text.split()) > 1:
            search = self._pattern().search
            return lambda text: search(fold(text)) is not None
        sought = fold(self.text.strip())
        return lambda text: sought in fold(text)

    def _pattern(self) -> re.Pattern[str]:
        words = map(re.escape, fold(self.text).split())
        # An underscore parts words: weather* is in get_weather.
        return re.compile((r"(?<![^\W_])" if self.starts else "") + r"\s+".join(words))

    def grams(self) -> str:
        """For the index: what every text with this term has. Empty where it cannot help."""
        words = self.text.split()
        found = {word[at : at + _GRAM] for word in words for at in range(len(word) - _GRAM + 1)}
        quoted = ('"' + one.replace('"', '""') + '"' for one in sorted(found))
        return " AND ".join(quoted)


def read_terms(words: Iterable[str], unwanted: Iterable[str] = ()) -> tuple[Term, ...]:
    """The words of a command line: ``warm``, ``wea*``, ``-cold``, ``"two words"``.

    One argument with white space in it is a phrase, unless it has quotes or a word with ``-``: then
    it is several. Raises :class:`UsageError` for nothing at all.
    """
    found = [term for word in words for term in _terms(word)]
    found += [msgspec.structs.replace(_term(word), unwanted=True) for word in unwanted]
    for term in found:
        if not term.text.strip():
            raise UsageError("an empty text is everywhere", hint="say what to look for")
    return tuple(found)


def _terms(word: str) -> list[Term]:
    if '"' not in word and not re.search(r"(^|\s)-\S", word):
        return [_term(word)]
    return [
        Term(quoted, bool(minus))
        if plain == ""
        else msgspec.structs.replace(_term(plain), unwanted=bool(minus))
        for minus, quoted, plain in _TOKEN.findall(word)
    ]


def _term(word: str) -> Term:
    if word.endswith("*") and word != "*":
        return Term(word[:-1], starts=True)
    return Term(word)
