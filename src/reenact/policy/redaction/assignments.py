"""Secrets in text that are recognised by the name in front of them.

Covered notations: ``"password": …`` in JSON at any depth, ``{'token': …}`` in a ``repr``, ``API_KEY=…`` in an
environment or a form, ``?token=…`` in a URL, ``--api-key …`` on a command line, ``Cookie: …`` in a
header, fields of ``multipart/form-data``, pairs ``["authorization", …]``, ``<password>…`` in XML, and
the ``code`` of OAuth.

XML elements can have namespaces, attributes, CDATA sections and nested elements, and can be written
as text inside XML (``&lt;password&gt;``). Pairs of elements such as ``<key>password</key><string>…</string>``
and names in an attribute such as ``<entry key="password">…</entry>`` are recognised too.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

import msgspec

from reenact.policy.patterns import lazy_pattern
from reenact.policy.redaction.grammar import (
    BEHIND_BARE,
    BEHIND_QUOTED,
    EXCUSABLE,
    Finding,
    Found,
    argument,
    part_body,
    string,
)
from reenact.policy.redaction.names import (
    CASELESS,
    TAIL,
    Names,
    Stem,
    is_always_sent,
    is_harmless,
    normalise,
)
from reenact.policy.redaction.prescan import ClueIndex, IndexedText, clue_of, matches_at

__all__ = [
    "Assignments",
    "Element",
    "attributed_content",
    "element_at",
    "element_content",
    "paired_content",
]

_DELIMITER = r"(?:[ \t]{0,6}[:=]|(?P<run>\\*)(?P<quote>[\"'])|(?P<tag>(?=[ \t\r\n]|/?>|/?&gt;|</)))"
_NAME_BEFORE = lazy_pattern(r"[A-Za-z0-9_.\-\[\]+~$]{0,100}\Z")
_PART = lazy_pattern(r"form-data[ \t]{0,4};[ \t]{0,4}name=([^\s\"';\\]{1,100})", CASELESS)
_OWNER = lazy_pattern(
    r"[\"']?([A-Za-z][A-Za-z_.-]{2,40})\\*[\"']?[ \t\r\n]{0,16}[:=][ \t\r\n]{0,16}\Z"
)
_BLANKS = tuple(" \t")
_COUNT = lazy_pattern(r"[0-9]{1,3}[,;.)\]}]*")
_AUTHORIZATION_CODE = lazy_pattern(
    r"(?<![A-Za-z0-9_.\-\[%])code=([^&\"'<>\\`\x00-\x20\x7f]+)", CASELESS
)
_CODE_FIELD = lazy_pattern(
    r"(?P<quote>\\*[\"'])code(?P=quote)[ \t\r\n]{0,16}:[ \t\r\n]{0,16}(?=\\*[\"'])", CASELESS
)
_BESIDE_CODE = lazy_pattern(
    r"(?:\A|[?&#;\"' \t\r\n])(?:state|session_state|iss|redirect_uri|grant_type|code_verifier)=",
    CASELESS,
)
_BESIDE_CODE_FIELD = lazy_pattern(
    r"[\"'](?:redirect_?uri|grant_?type|code_?verifier)\\*[\"']", CASELESS
)
_BESIDE_CODE_WORDS = ("redirect", "grant", "verifier")
_RUN = lazy_pattern(r"[^\s\"'<>`]+")
_BESIDE = 1_000
_FLAG = lazy_pattern(r"(?<![A-Za-z0-9_\-])--([A-Za-z][A-Za-z0-9_.\-]{0,80})[ \t]{1,8}(?![-\s])")


_Tables = tuple[list[tuple[Stem, re.Pattern[str]]], ClueIndex[int]]
"""Stems with their patterns, and the index of the clues to them."""


class Assignments:
    """Finds them for one set of names. Stateless apart from compiled patterns."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._tables: _Tables | None = None

    def _make_tables(self) -> _Tables:
        """Make the patterns and their index on first use: many processes search nothing."""
        names = self._names
        patterns = [
            (stem, lazy_pattern(f"(?:{stem.pattern}){TAIL}{_DELIMITER}", CASELESS))
            for stem in names.stems
        ]
        by_clue = ClueIndex(
            (clue_of(stem.needs[0], ends=stem.ends), at) for at, stem in enumerate(names.stems)
        )
        self._tables = patterns, by_clue
        return self._tables

    def find(self, searched: IndexedText) -> Iterator[Finding]:
        """Every secret behind a name in the text."""
        text = searched.text
        matches: list[re.Match[str]] = []
        patterns, by_clue = self._tables or self._make_tables()
        for at in set(by_clue.fitting(searched.index, searched.low)):
            stem, pattern = patterns[at]
            if all(map(searched.has, stem.needs)):
                matches += searched.matches(pattern, stem.needs[0], stem.before)
        done = 0
        unclosed: set[str] = set()
        for match in sorted(matches, key=re.Match.start):
            # Inside a value that is replaced as a whole; also what keeps hostile nesting linear.
            if match.start() >= done:
                findings, upto = self._at(text, match, unclosed)
                done = max(done, upto)
                yield from findings
        if "--" in text:
            yield from self._flags(text)
        if searched.has("form-data"):
            yield from self._parts(text)
        if searched.has("code"):
            yield from _authorization_codes(searched)

    def _at(self, text: str, match: re.Match[str], unclosed: set[str]) -> Found:
        if match["tag"] is not None:
            return self._element(text, match, unclosed)
        name, opening = _quoted_name(text, match) if match["quote"] else _bare_name(text, match)
        if not name or not self._names.secret(name):
            return [], 0
        for follow in BEHIND_QUOTED if match["quote"] else BEHIND_BARE:
            found = follow(text, opening, match.end(), name)
            if found is not None:
                if (
                    follow in EXCUSABLE
                    and self._names.ambiguous(name)
                    and _is_excused(text, opening, match.end(), name, found[0])
                ):
                    return [], 0
                return found
        return self._attributed(text, match, opening, name) if match["quote"] else ([], 0)

    def _attributed(self, text: str, match: re.Match[str], opening: int, name: str) -> Found:
        found = attributed_content(text, opening, match.end())
        if found is None:
            return [], 0
        [one] = found[0]
        is_excused = self._names.ambiguous(name) and is_harmless(name, text[one.start : one.end])
        return ([], 0) if is_excused else found

    def _element(self, text: str, match: re.Match[str], unclosed: set[str]) -> Found:
        start, end = match.span()
        element = element_at(text, start, end)
        if element is not None:
            if not self._names.secret(element.local_name):
                return [], 0
            found = element_content(text, element, end, unclosed)
        else:
            before = _NAME_BEFORE.search(text, max(0, start - 100), start)
            name = (before[0] if before else "") + text[start:end]
            pair = paired_content(text, start, end) if self._names.secret(name.strip()) else None
            return pair or ([], 0)
        if len(found[0]) == 1 and self._names.ambiguous(element.local_name):
            [one] = found[0]
            if is_harmless(element.local_name, text[one.start : one.end]):
                return [], 0
        return found

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


def _is_excused(text: str, opening: int, place: int, name: str, found: list[Finding]) -> bool:
    """Return whether the only value after an ambiguous name is evidently not a secret."""
    if len(found) != 1:
        return False
    [one] = found
    value = text[one.start : one.end]
    if one.bare:
        # Parameters of a URL and of a form have no blank before them.
        if text[place : place + 1] not in _BLANKS:
            return normalise(name) == "pass" and _COUNT.fullmatch(value) is not None
        value = value.rstrip(",;:)]}")
    elif (not one.quote and text[one.start - 1] not in "\"'") or any(
        bracket in text[place : one.start] for bracket in "[{("
    ):
        return False
    if not is_harmless(name, value):
        return False
    brace = text.rfind("{", max(0, opening - 2_000), opening)
    owner = _OWNER.search(text, max(0, brace - 80), brace) if brace >= 0 else None
    return owner is None or not is_always_sent(owner[1])


def _authorization_codes(searched: IndexedText) -> Iterator[Finding]:
    """Find the ``code`` of OAuth, which is recognised by neighbouring parameters or fields."""
    text = searched.text
    for run in _RUN.finditer(text) if searched.has("code=") else ():
        if "code=" in run[0].lower() and _BESIDE_CODE.search(run[0]):
            for match in _AUTHORIZATION_CODE.finditer(text, *run.span()):
                yield Finding(*match.span(1), "name", bare=True)
    is_beside = any(map(searched.has, _BESIDE_CODE_WORDS))
    beside = [match.start() for match in _BESIDE_CODE_FIELD.finditer(text)] if is_beside else []
    for match in _CODE_FIELD.finditer(text) if beside else ():
        next_one = bisect_left(beside, match.start() - _BESIDE)
        found = string(text, match.end())
        if found and next_one < len(beside) and beside[next_one] < found.after + _BESIDE:
            yield Finding(found.start, found.end, "name")


_OPENING = lazy_pattern(
    r"(?P<open><|&lt;)(?P<name>(?:[A-Za-z_][\w.\-]{0,60}:)?[\w.\-]{0,100})\Z", re.ASCII
)
_REACH = 200
_TAG_END = lazy_pattern(r"""(?:[^<>"']++|"[^"<]{0,4000}"|'[^'<]{0,4000}')*+>""")
_ESCAPED_TAG_END = lazy_pattern(r"[^<>]{0,4000}?&gt;")
_PIECES = lazy_pattern(
    r"<!\[CDATA\[(?P<cdata>.*?)(?:\]\]>|\Z)|<!--.*?-->|<[^<>]*>|(?P<run>[^<]+)", re.DOTALL
)
_ESCAPED_PIECES = lazy_pattern(
    r"&lt;!\[CDATA\[(?P<cdata>.*?)(?:\]\]&gt;|\Z)|&lt;.*?&gt;|(?P<run>(?:[^&<]++|&(?!lt;))+)",
    re.DOTALL,
)
_NAMED_BEFORE = lazy_pattern(
    r"<(?P<tag>key|name)>\s{0,20}[\w.\-]{0,100}\Z", re.IGNORECASE | re.ASCII
)
_NAMED_AFTER = lazy_pattern(
    r"\s{0,20}</(?:key|name)>\s{0,100}<(?P<tag>[A-Za-z_][\w.:\-]{0,60})>(?P<value>[^<]*)",
    re.IGNORECASE | re.ASCII,
)


_ATTRIBUTE_BEFORE = lazy_pattern(
    r"<(?:[\w.\-]{1,60}:)?(?:arg|attribute|entry|env|field|item|param|parameter|prop|property|setting|string"
    r"|variable)\s[^<>]{0,200}?(?:key|name)\s{0,4}=\s{0,4}\\*\Z",
    re.IGNORECASE | re.ASCII,
)
_ATTRIBUTE_AFTER = lazy_pattern(r"[^<>]{0,200}(?<!/)>(?P<value>[^<]+)</", re.ASCII)


class Element(msgspec.Struct, frozen=True):
    """``name`` as it is written, with its namespace; ``escaped``: its tags are ``&lt;`` and ``&gt;``.

    ``alone``: no letter stands before the tag, as one does in ``List<Token>``.
    """

    name: str
    escaped: bool
    alone: bool

    @property
    def local_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(":")[2]


def element_at(text: str, start: int, end: int) -> Element | None:
    """The element whose opening tag has the end of its name at ``start`` to ``end``, or None."""
    opening = _OPENING.search(text, max(0, start - _REACH), start)
    if opening is None:
        return None
    name = opening["name"] + text[start:end].rstrip(" .+[]-")
    before = text[opening.start() - 1 : opening.start()] if opening.start() else ""
    return Element(name, opening["open"] != "<", not (before.isalnum() or before == "_"))


def element_content(text: str, element: Element, place: int, unclosed: set[str]) -> Found:
    """Every text in ``element``, whose opening tag continues at ``place`` behind its name.

    Nothing for an empty element. Of one that is cut off, the text up to the cut. ``unclosed`` are the
    closing tags that were searched for in vain before ``place``: none of them is behind it.
    """
    tag = (_ESCAPED_TAG_END if element.escaped else _TAG_END).match(text, place)
    if tag is None:
        return [], 0
    mark = "&gt;" if element.escaped else ">"
    if text[place : tag.end() - len(mark)].endswith("/"):
        return [], 0
    start = tag.end()
    closing = ("&lt;/" if element.escaped else "</") + element.name
    end = -1 if closing in unclosed else text.find(closing, start)
    if end < 0:
        unclosed.add(closing)
        end = _cut_off(text, element, start, closing)
    if end <= start:
        return [], 0
    pieces = (_ESCAPED_PIECES if element.escaped else _PIECES).finditer(text, start, end)
    return [found for piece in pieces for found in _found(text, piece)], end


def _cut_off(text: str, element: Element, start: int, closing: str) -> int:
    """Return the end of unclosed content; ``start`` if this is not an element."""
    if not element.alone:
        return start
    mark = "&lt;" if element.escaped else "<"
    rest = text.find(mark, start)
    if rest == start and text.startswith(mark + "![CDATA[", start):
        return len(text)
    if rest >= 0:
        is_cut = len(text) - rest <= len(closing) and closing.startswith(text[rest:])
        return rest if is_cut else start
    return start if any(map(str.isspace, text[start:].strip())) else len(text)


def _found(text: str, piece: re.Match[str]) -> list[Finding]:
    group = "cdata" if piece["cdata"] is not None else "run"
    start, end = piece.span(group)
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return [Finding(start, end, "name")] if start < end else []


def paired_content(text: str, start: int, place: int) -> Found | None:
    """The value behind a name that is itself the content of an element; None where it is not."""
    if _NAMED_BEFORE.search(text, max(0, start - _REACH), start) is None:
        return None
    value = _NAMED_AFTER.match(text, place)
    if value is None:
        return None
    first, last = value.span("value")
    return ([Finding(first, last, "name")] if text[first:last].strip() else []), last


def attributed_content(text: str, opening: int, place: int) -> Found | None:
    """The content of the element that has the name, in quotes from ``opening`` to ``place``, in an attribute."""
    before = text[max(0, opening - _REACH) : opening]
    start = before.rfind("<")
    if start < 0 or _ATTRIBUTE_BEFORE.match(before, start) is None:
        return None
    value = _ATTRIBUTE_AFTER.match(text, place)
    if value is None or not value["value"].strip():
        return None
    return [Finding(*value.span("value"), "name")], value.end("value")
