"""Values that are known to be secret: declared ones, and those of secret environment variables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus

from reenact.errors import UsageError
from reenact.policy.names import Names
from reenact.policy.placeholder import PLACEHOLDER

__all__ = ["SHORTEST_DECLARED", "SHORTEST_VARIABLE", "Known"]

SHORTEST_DECLARED = 4
"""Characters. A shorter value would blot out half of every text."""

SHORTEST_VARIABLE = 6

# Development defaults. They protect nothing, and as words they stand everywhere.
_WORDS = frozenset(
    """
    access changeme cookie cookies credential credentials default development disabled enabled
    example export localhost master password postgres private production public redacted required
    secret secrets testing
    """.split()
)

_PLAIN_RUN = re.compile(r"[A-Za-z0-9]+")


class Known:
    """The values, each in the spellings in which it may turn up. Never shown in a ``repr``."""

    def __init__(self, declared: Iterable[str], environ: Mapping[str, str], names: Names) -> None:
        spellings: dict[str, str] = {}
        for value in declared:
            for spelling in _spellings(_checked(value)):
                spellings.setdefault(spelling, "declared")
        for variable, value in environ.items():
            if names.secret(variable) and _is_usable(value):
                for spelling in _spellings(value):
                    spellings.setdefault(spelling, "env")
        # Longest first: of a password and a connection string around it, the string goes.
        self._spellings = sorted(spellings.items(), key=lambda item: -len(item[0]))
        runs = {tuple(_PLAIN_RUN.findall(spelling)) for spelling, _ in self._spellings}
        self._runs = [tuple(run.encode() for run in found) for found in runs]

    def __bool__(self) -> bool:
        return bool(self._spellings)

    def suspects(self, encoded: bytes) -> bool:
        """False proves that no value is in ``encoded``, whatever escaping it went through.

        Letters and digits come through every escaping that the gate does not report by itself.
        """
        return any(all(run in encoded for run in runs) for runs in self._runs)

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Start, end and rule of every appearance in ``text``."""
        for spelling, rule in self._spellings:
            place = text.find(spelling)
            while place >= 0:
                yield place, place + len(spelling), rule
                place = text.find(spelling, place + len(spelling))

    def is_number(self, value: int) -> str | None:
        """The rule that makes this number a secret, if one does."""
        text = str(value)
        return next((rule for spelling, rule in self._spellings if spelling == text), None)


def _checked(value: str) -> str:
    if len(value) < SHORTEST_DECLARED:
        raise UsageError(
            f"a declared secret has {len(value)} characters, at least {SHORTEST_DECLARED} are needed",
            hint="declare the name it stands under instead (secret_names)",
        )
    if value in PLACEHOLDER:
        raise UsageError("a declared secret is part of the placeholder itself")
    return value


def _is_usable(value: str) -> bool:
    return (
        len(value) >= SHORTEST_VARIABLE and value.lower() not in _WORDS and value not in PLACEHOLDER
    )


def _spellings(value: str) -> set[str]:
    """As it is, inside JSON, inside JSON inside JSON, and inside a URL or form."""
    once = json.dumps(value, ensure_ascii=False)[1:-1]
    ascii_once = json.dumps(value)[1:-1]
    try:
        in_urls = {quote(value, safe=""), quote(value), quote_plus(value)}
    except UnicodeEncodeError:  # a lone surrogate: an undecodable variable cannot be in a URL
        in_urls = set()
    nested = {json.dumps(spelling)[1:-1] for spelling in (once, ascii_once)}
    return {value, once, ascii_once} | nested | in_urls
