"""Secrets in text that are recognised by the name before them.

``"password": …`` in JSON at any depth, ``{'token': …}`` in a ``repr``, ``API_KEY=…`` in an
environment or a form, ``?token=…`` in a URL, ``--api-key …`` on a command line, ``Cookie: …`` in a
header, fields of ``multipart/form-data``, pairs ``["authorization", …]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from reenact.policy.behind import (
    BEHIND_BARE,
    BEHIND_QUOTED,
    Finding,
    Found,
    argument,
    part_body,
)
from reenact.policy.names import CASELESS, TAIL, Names
from reenact.policy.patterns import late
from reenact.policy.searched import Searched, matches_at

__all__ = ["Assignments"]

_DELIMITER = r"(?:[ \t]{0,6}[:=]|(?P<run>\\*)(?P<quote>[\"']))"
_NAME_BEFORE = late(r"[A-Za-z0-9_.\-\[\]+~$]{0,100}\Z")
_PART = late(r"form-data[ \t]{0,4};[ \t]{0,4}name=([^\s\"';\\]{1,100})", CASELESS)
_FLAG = late(r"(?<![A-Za-z0-9_\-])--([A-Za-z][A-Za-z0-9_.\-]{0,80})[ \t]{1,8}(?![-\s])")


class Assignments:
    """Finds them for one set of names. Stateless apart from compiled patterns."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._stems = [
            (stem, late(f"(?:{stem.pattern}){TAIL}{_DELIMITER}", CASELESS)) for stem in names.stems
        ]

    def find(self, searched: Searched) -> Iterator[Finding]:
        """Every secret behind a name in the text."""
        text = searched.text
        matches: list[re.Match[str]] = []
        for stem, pattern in self._stems:
            if all(map(searched.has, stem.needs)):
                matches += searched.matches(pattern, stem.needs[0], stem.before)
        done = 0
        for match in sorted(matches, key=re.Match.start):
            # Inside a value that is replaced as a whole; also what keeps hostile nesting linear.
            if match.start() >= done:
                findings, upto = self._at(text, match)
                done = max(done, upto)
                yield from findings
        if "--" in text:
            yield from self._flags(text)
        if searched.has("form-data"):
            yield from self._parts(text)

    def _at(self, text: str, match: re.Match[str]) -> Found:
        name, opening = _quoted_name(text, match) if match["quote"] else _bare_name(text, match)
        if not name or not self._names.secret(name):
            return [], 0
        for follow in BEHIND_QUOTED if match["quote"] else BEHIND_BARE:
            found = follow(text, opening, match.end(), name)
            if found is not None:
                return found
        return [], 0

    def _flags(self, text: str) -> Iterator[Finding]:
        for flag in matches_at(_FLAG, text, "--"):
            if self._names.secret(flag[1]):
                yield from argument(text, flag.end(), flag[1])[0]

    def _parts(self, text: str) -> Iterator[Finding]:
        done = 0
        for part in _PART.finditer(text):
            if part.start() < done or not self._names.secret(part[1]):
                continue
            findings, done = part_body(text, part.end()) or ([], done)
            yield from findings


def _quoted_name(text: str, match: re.Match[str]) -> tuple[str, int]:
    opening = text.rfind(match["quote"], max(0, match.start() - 120), match.start())
    return (text[opening + 1 : match.start("run")], opening) if opening >= 0 else ("", 0)


def _bare_name(text: str, match: re.Match[str]) -> tuple[str, int]:
    before = _NAME_BEFORE.search(text, max(0, match.start() - 100), match.start())
    start = before.start() if before else match.start()
    return text[start : match.end() - 1].strip(), start
