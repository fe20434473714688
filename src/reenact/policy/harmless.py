"""Values under an ambiguous name that are evidently not secrets.

``"token": "hello"``, ``"cookie": "chocolate chip"``, ``"credentials": "include"``, ``"pwd": "/home/ada"``:
names such as these also stand before words, paths and counts. A value is harmless only if it is made of
a few short words, or is a path, a keyboard shortcut, a small number or an identifier of a known form.
Everything else under a secret name is redacted.
"""

from __future__ import annotations

import re

from reenact.policy.names import normalise
from reenact.policy.patterns import late

__all__ = ["is_harmless"]

_LONGEST = 120
_MOST_WORDS = 3
# One case, or a capital letter first: `Hello`, `NONE`. Mixed case is how random texts look.
_WORDS = late(
    r"(?:[a-z]{1,12}|[A-Z][a-z]{0,11}|[A-Z]{1,12})(?:[ _-](?:[a-z]{1,12}|[A-Z][a-z]{0,11}))*"
)
_WORD = late(r"[A-Za-z]+")
_VOWEL = late(r"[aeiouyAEIOUY]")
_CONSONANTS = late(r"[^aeiouyAEIOUY]{5}")
_SHORTEST_UNSPOKEN = 4
"""Letters: a shorter word needs no vowel (``GET``, ``x``, ``css``)."""
_PATH = late(
    r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\]+(?:\.?[A-Za-z][A-Za-z._ -]{0,30}[0-9]{0,4}|[0-9]{1,6}|\.{1,2})){1,20}[/\\]?"
)
_SHORTCUT = late(
    r"(?:(?:ctrl|control|alt|option|shift|cmd|command|meta|super|win)[ ]?[+-][ ]?){1,4}[!-~]{1,10}",
    re.IGNORECASE | re.ASCII,
)
_UUID = late(r"(?:[a-z]{1,12}[_-])?[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_TWILIO = late(r"[A-Z]{2}[0-9a-f]{32}")
_NUMBERED = late(r"[a-z]{1,12}-[0-9]{1,4}")
_IDENTIFIERS = (_UUID, _TWILIO, _NUMBERED)
_ID_NAMES = ("sid", "sessionid")
_FRACTION = late(r"-?[0-9]{1,4}\.[0-9]{1,20}")
_LONGEST_COUNT = {"pin": 2}
# Short for password: a word may be one, but for the words that tell how a test ended.
_PASSWORDS = frozenset({"pass", "pw", "pwd"})
_OUTCOMES = frozenset("yes no ok true false none null pass passed fail failed skip skipped".split())


def is_harmless(name: str, value: str) -> bool:
    """Whether ``value``, under the ambiguous ``name``, is evidently not a secret."""
    if not value or len(value) > _LONGEST:
        return False
    plain = normalise(name)
    if value.isdigit():
        return len(value) <= _LONGEST_COUNT.get(plain[-3:], 3)
    if plain.endswith(_ID_NAMES) and any(one.fullmatch(value) for one in _IDENTIFIERS):
        return True
    if _FRACTION.fullmatch(value) or _PATH.fullmatch(value):
        return True
    if plain in _PASSWORDS:
        return value.lower() in _OUTCOMES
    return _SHORTCUT.fullmatch(value) is not None or _is_words(value)


def _is_words(value: str) -> bool:
    if _WORDS.fullmatch(value) is None:
        return False
    words = _WORD.findall(value)
    return len(words) <= _MOST_WORDS and all(map(_is_spoken, words))


def _is_spoken(word: str) -> bool:
    """Whether someone could say it: random letters have few vowels, or many consonants in a row."""
    if len(word) < _SHORTEST_UNSPOKEN:
        return True
    return _VOWEL.search(word) is not None and _CONSONANTS.search(word) is None
