"""Known secret values: declared values, and the values of secret environment variables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus

from reenact.errors import UsageError
from reenact.policy.patterns import lazy_pattern
from reenact.policy.redaction.names import Names, is_harmless
from reenact.policy.redaction.placeholder import PLACEHOLDER

__all__ = ["SHORTEST_DECLARED", "SHORTEST_VARIABLE", "KnownValues"]

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

_ESCAPED = len("\\\\u0020")
_ESCAPABLE = {'"': r"\\*\"", "'": r"\\*'", "\\": r"\\+"}
_PLAIN_RUN = lazy_pattern(r"[A-Za-z0-9]+")


class KnownValues:
    """The values, each in the spellings in which it may turn up. Never shown in a ``repr``."""

    def __init__(self, declared: Iterable[str], environ: Mapping[str, str], names: Names) -> None:
        rules: dict[str, str] = {}
        for value in declared:
            rules.setdefault(_checked(value), "declared")
        for variable, value in environ.items():
            if (
                names.secret(variable)
                and _is_usable(value)
                and not _is_word(names, variable, value)
            ):
                rules.setdefault(value, "env")
        self._rules = rules
        self._patterns = [
            (re.compile(_pattern(spelling)), rule)
            for value, rule in rules.items()
            for spelling in sorted(_spellings(value))
        ]
        runs = {
            tuple(_PLAIN_RUN.findall(spelling)) for value in rules for spelling in _spellings(value)
        }
        self._runs = [tuple(run.encode() for run in found) for found in runs]
        self.reach = max((len(one) * _ESCAPED for one in rules if _has_blank(one)), default=0)
        """As long as this is a value with blanks in it, at most, however it is spelled."""

    def __bool__(self) -> bool:
        """Is there anything to look for?"""
        return bool(self._runs)

    def suspects(self, encoded: bytes) -> bool:
        """Return False only if ``encoded`` contains no known value, independent of escaping.

        Letters and digits survive every escaping that the gate does not report.
        """
        return any(all(run in encoded for run in runs) for runs in self._runs)

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Start, end and rule of every appearance in ``text``, which may be folded."""
        for pattern, rule in self._patterns:
            for match in pattern.finditer(text):
                yield *match.span(), rule

    def is_number(self, value: int) -> str | None:
        """The rule that makes this number a secret, if one does."""
        return self._rules.get(str(value)) if self._rules else None


def _checked(value: str) -> str:
    if len(value) < SHORTEST_DECLARED:
        raise UsageError(
            f"a declared secret has {len(value)} characters, at least {SHORTEST_DECLARED} are needed",
            hint="declare the name it stands under instead (secret_names)",
        )
    if value in PLACEHOLDER:
        raise UsageError("a declared secret is part of the placeholder itself")
    return value


def _is_word(names: Names, variable: str, value: str) -> bool:
    """Return whether the variable has an ambiguous name and a common value."""
    return names.ambiguous(variable) and is_harmless(variable, value)


def _has_blank(value: str) -> bool:
    return any(char.isspace() for char in value)


def _is_usable(value: str) -> bool:
    return (
        len(value) >= SHORTEST_VARIABLE and value.lower() not in _WORDS and value not in PLACEHOLDER
    )


def _spellings(value: str) -> set[str]:
    """As it is, in ASCII, and inside a URL or form."""
    in_ascii = json.dumps(value)[1:-1]
    try:
        in_urls = {quote(value, safe=""), quote(value), quote_plus(value)}
    except UnicodeEncodeError:  # a lone surrogate: an undecodable variable cannot be in a URL
        in_urls = set()
    return {value, in_ascii} | in_urls


def _pattern(spelling: str) -> str:
    """Matches the spelling at any depth of JSON: quotes and backslashes may be escaped."""
    first, rest = spelling[0], spelling[1:]
    start = r"(?<!\\)\\+" if first == "\\" else re.escape(first)
    return start + "".join(_ESCAPABLE.get(char) or re.escape(char) for char in rest)
