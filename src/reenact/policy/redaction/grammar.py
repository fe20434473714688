"""Grammar of names and values in text: JSON at any depth of escaping, ``repr``, cookies, assignments.

All functions take a text and a position and return positions. They decode and rewrite nothing, and
they accept truncated text: a literal without an end extends to the end of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from reenact.policy.patterns import lazy_pattern
from reenact.policy.redaction.names import CASELESS, is_cookie, normalise

__all__ = [
    "BEHIND_BARE",
    "BEHIND_QUOTED",
    "EXCUSABLE",
    "Finding",
    "Follow",
    "Found",
    "Literal",
    "Span",
    "argument",
    "cookies",
    "is_closing_quote",
    "leaves",
    "literal",
    "part_body",
    "string",
]

Span = tuple[int, int]

_STRING_START = lazy_pattern(r"[bBrRuUfF]{0,2}(\\*)([\"'])")
_DOUBLE = lazy_pattern(r'(?<!\\)\\*+"')
_SINGLE = lazy_pattern(r"(?<!\\)\\*+'")
_NUMBER = lazy_pattern(r"-?[0-9](?:[0-9.eE+\-])*")
_TOKEN = lazy_pattern(r"[{}\[\]()]|(?<!\\)\\*+[\"']|(?<![\w.])-?[0-9][0-9.eE+\-]*")
_COLON = lazy_pattern(r"[ \t\r\n]*(?::|=>)")
_SCHEMA = lazy_pattern(
    r"\"type\\*\"\s{0,8}:\s{0,8}\[?\s{0,8}\\*\"(?:string|integer|number|boolean|object|array|null)\\*\""
    r"|\"(?:\$ref|anyOf|oneOf|allOf)\\*\"\s{0,8}:",
    re.ASCII,
)
_SCHEMA_VALUE = lazy_pattern(
    r"[\"'](?:default|const|examples?)\\*[\"']\s{0,16}:\s{0,16}\[?\s{0,16}\\*[\"']?\Z", re.ASCII
)
_SCHEMA_REACH = 20_000
_JOINED_COOKIE = lazy_pattern(r",[ \t]*([^=;,\s]+)=([^;,]*)")
_ATTRIBUTES = frozenset(
    "expires max-age domain path secure httponly samesite partitioned priority version".split()
)


class Literal(msgspec.Struct, frozen=True):
    """``start`` to ``end`` is the content; ``after`` is behind the closing quote, if any.

    ``quote`` is what must be put around a replacement: empty for a string, whose quotes stay.
    """

    start: int
    end: int
    after: int
    quote: str = ""


def _level(run: int) -> int:
    """Return the number of JSON strings around a quote that follows ``run`` backslashes.

    Level 1 is written ``\\"``, level 2 ``\\\\\\"``: each level doubles the run and adds one, so the
    level is the number of trailing ones of the run in binary.
    """
    return (run ^ (run + 1)).bit_length() - 1


def string(text: str, place: int) -> Literal | None:
    """The string literal that starts at ``place``, or None."""
    opening = _STRING_START.match(text, place)
    if opening is None:
        return None
    run, start = len(opening[1]), opening.end()
    closings = (_DOUBLE if opening[2] == '"' else _SINGLE).finditer(text, start)
    for closing in closings:
        own = _closes(len(closing[0]) - 1, run, opening[2])
        if own is not None:
            return Literal(start, closing.end() - 1 - own, closing.end())
    return Literal(start, len(text), len(text))


def _closes(found: int, opened: int, quote: str) -> int | None:
    """The backslashes that belong to the closing quote, or None when it is part of the content."""
    if quote == "'":
        # JSON does not escape it, repr does: behind more backslashes than the opening it is content.
        return found if found <= opened else None
    level = _level(found)
    return (1 << level) - 1 if level <= _level(opened) else None


def literal(text: str, place: int, quote: str = '"') -> Literal | None:
    """The string or number that starts at ``place``; None for words and containers.

    ``quote``, with its backslashes, is what strings have around them in this text.
    """
    found = string(text, place)
    if found is not None:
        return found
    number = _NUMBER.match(text, place)
    if number is None:
        return None
    return Literal(number.start(), number.end(), number.end(), quote)


def leaves(text: str, place: int, quote: str = '"') -> tuple[list[Literal], int]:
    """Return the strings and numbers in the container that opens at ``place``, and its end.

    Keys are not leaves. In a JSON schema only defaults and examples are leaves, because it
    describes a secret.
    """
    found: list[Literal] = []
    depth = 0
    here = place
    while token := _TOKEN.search(text, here):
        here = token.end()
        if token[0] in "{[(":
            depth += 1
        elif token[0] in "}])":
            depth -= 1
            if depth <= 0:
                break
        elif leaf := literal(text, token.start(), quote):
            here = max(leaf.after, here)
            if leaf.quote or not _COLON.match(text, here):
                found.append(leaf)
    else:
        here = len(text)
    if _is_schema(text, place, here):
        found = [leaf for leaf in found if _is_schema_value(text, leaf.start)]
    return found, here


def _is_schema(text: str, start: int, end: int) -> bool:
    described = text.rfind("properties", max(0, start - _SCHEMA_REACH), start) >= 0
    return described and _SCHEMA.search(text, start, end) is not None


def _is_schema_value(text: str, place: int) -> bool:
    return _SCHEMA_VALUE.search(text, max(0, place - 80), place) is not None


def cookies(text: str, start: int, end: int) -> Iterator[Span]:
    """The values in a ``Cookie`` or ``Set-Cookie`` header, without names and attributes."""
    place = start
    while place < end:
        stop = text.find(";", place, end)
        stop = end if stop < 0 else stop
        yield from _cookie(text, place, stop, first=place == start)
        place = stop + 1


def _cookie(text: str, start: int, end: int, *, first: bool) -> Iterator[Span]:
    equals = text.find("=", start, end)
    name = text[start : end if equals < 0 else equals].strip().lower()
    if name in _ATTRIBUTES and not first:
        # Several Set-Cookie headers joined into one by a comma.
        for joined in _JOINED_COOKIE.finditer(text, start, end):
            yield joined.span(2)
        return
    place = start if equals < 0 else equals + 1
    while place < end and text[place] in " \t":
        place += 1
    while end > place and text[end - 1] in " \t\r\n":
        end -= 1
    if place < end:
        yield place, end


_ASSIGN = lazy_pattern(r"\\*\]?[ \t\r\n]{0,256}(?::(?![:/])|=>|=(?![=~]))[ \t\r\n]{0,256}")
_COMMA = lazy_pattern(r"[ \t\r\n]{0,256},[ \t\r\n]{0,256}")
_BARE = lazy_pattern(r"[^&\"'<>\\`\x00-\x20\x7f]+")
_NOT_A_VALUE = lazy_pattern(
    r"(?:none|null|true|false|undefined|\$[A-Z_][A-Z0-9_]*|\$?\{[^{}]*\}|\$?\{\{.*)[,;:)\]}]*\Z",
    CASELESS,
)
# A pair in a list of pairs: `["password", "name"]` alone may be any two words.
_PAIR_OPENS = lazy_pattern(r"[\[(,][ \t\r\n]{0,256}[\[(][ \t\r\n]{0,256}[bBuU]?\\*\Z")
_PAIR_CLOSES = lazy_pattern(r"[ \t\r\n]{0,256},?[ \t\r\n]{0,256}[\])]")
_NAMED_BEFORE = lazy_pattern(
    r"[\"'](?:name|key|header|field)\\*[\"'][ \t\r\n]{0,256}:[ \t\r\n]{0,256}\\*\Z", CASELESS
)
_NAMED_AFTER = lazy_pattern(
    r"[ \t\r\n]{0,256},[ \t\r\n]{0,256}\\*[\"']value\\*[\"'][ \t\r\n]{0,256}:[ \t\r\n]{0,256}",
    CASELESS,
)
_LOG_PROBABILITY_BEFORE = lazy_pattern(
    r"log_?prob[a-z]*\\*[\"']\s{0,16}:\s{0,16}-?[0-9.eE+\-]{1,40}\s{0,16},\s{0,16}\\*\Z", CASELESS
)
_LOG_PROBABILITY_AFTER = lazy_pattern(r"\s{0,16},\s{0,16}\\*[\"']log_?prob", CASELESS)
_PART_NAME_BEFORE = lazy_pattern(r"name\*?=\\*\Z", CASELESS)
_PART_HEADERS = lazy_pattern(r"[^\r\n]{0,400}(?:\r?\n[^\r\n]{1,400}){0,8}\r?\n\r?\n")
_PART_END = lazy_pattern(r"\r?\n--|\Z")
_CLOSING = lazy_pattern(r"(?P<quote>\\*[\"'])(?:[\s,}\]):;\"'\\+]|\Z)")
_REACH = 10_000
_LONGEST_TEMPLATE = 256
_CODE = lazy_pattern(
    r"[A-Za-z_]\w*(?:\.\w+)*[(\[]|(?:self|this|os|process|settings|config|args|ctx|env)\.[A-Za-z_]",
    re.ASCII,
)
_CONTAINER = lazy_pattern(r"[(\[{][ \t]{0,8}\\*[\"']")
_HTML_VALUE = lazy_pattern(r"[ \t\r\n]{1,8}value=", CASELESS)
# Up to a quote: the rest of a long line is not looked at again for each name in it.
_LINE = lazy_pattern(r"[ \t]{0,8}(?P<value>[^\r\n\"']*)")
_WORD = lazy_pattern(r"[ \t]{1,8}(?P<value>(?=[^\s\"',;)\\]{0,100}?[0-9])[^\s\"',;)\\]{6,})")
# `/pass:…` of Windows programs.
_SWITCH = lazy_pattern(r"(?P<value>[^\s\"'<>|&]+)")
_SWITCH_BEFORE = lazy_pattern(r"(?:\A|[\s\"'])/\Z")
# `curl -H X-Api-Key:…`, `http host X-Api-Key:…`; but `user-auth:1.2.3` is an image.
_WORD_OR_HEADER = lazy_pattern(
    r"[ \t]{0,8}(?P<value>(?=[^\s\"',;)\\]{0,100}?[0-9])[^\s\"',;)\\]{6,})"
)
_TIGHT_NAMES = frozenset({"apikey", "authtoken", "privatetoken"})
_LINE_NAMES = frozenset({"authorization", "proxyauthorization", "cookie", "setcookie", "xapikey"})


class Finding(msgspec.Struct, frozen=True):
    """A secret at ``start`` to ``end``; ``quote`` must be put around what replaces it.

    ``bare``: no quote ends it, only the character behind it.
    """

    start: int
    end: int
    rule: str
    quote: str = ""
    bare: bool = False


Found = tuple[list[Finding], int]
"""Findings, and the place up to which the text is accounted for."""

Follow = Callable[[str, int, int, str], Found | None]
"""Looks behind a secret name: the text, where the name starts, the place behind it, the name."""


def _bare_equals(text: str, opening: int, place: int, name: str) -> Found | None:
    if text[place - 1] == ":":
        if text[place : place + 1] != "=":
            return None
        place += 1
    if text[place : place + 1] in ("=", "~"):
        return None
    value = _skip(text, place + (text[place : place + 1] == ">"))
    if text[opening - 1 : opening] in tuple(" \t(,{") and _is_code(text, value, name):
        return [], 0
    if _CONTAINER.match(text, value):
        return _value(text, value, name, '"')
    return argument(text, value, name)


def _bare_colon(text: str, opening: int, place: int, name: str) -> Found | None:
    if text[place - 1] != ":" or text[place : place + 1] == "=":
        return None
    quoted = _skip(text, place, " \t\r\n")
    found = None if is_closing_quote(text, quoted) else string(text, quoted)
    if found is not None:
        return _secret(text, found, name)
    value = _behind_colon(text, opening, name).match(text, place)
    if value is None or _is_no_value(text, *value.span("value")):
        return None
    start, end = value.span("value")
    while end > start and text[end - 1] in "\\ \t":  # the quote behind it is escaped
        end -= 1
    return _secret(text, Literal(start, end, end), name)


def _behind_colon(text: str, opening: int, name: str) -> re.Pattern[str]:
    if normalise(name) in _LINE_NAMES:
        return _LINE
    if _SWITCH_BEFORE.search(text, max(0, opening - 2), opening):
        return _SWITCH
    is_header = name.lower().startswith("x-") or ("-" in name and normalise(name) in _TIGHT_NAMES)
    return _WORD_OR_HEADER if is_header else _WORD


def _assigned(text: str, opening: int, place: int, name: str) -> Found | None:
    operator = _ASSIGN.match(text, place)
    if operator is None:
        return None
    if _is_piece_of_text(text, opening, operator.end(), name):
        return [], 0
    return _value(text, operator.end(), name, _quote_before(text, place))


def _named(text: str, opening: int, place: int, name: str) -> Found | None:
    behind = _NAMED_AFTER.match(text, place)
    if behind is None or not _NAMED_BEFORE.search(text, max(0, opening - 600), opening):
        return None
    return _value(text, behind.end(), name, _quote_before(text, place))


def _paired(text: str, opening: int, place: int, name: str) -> Found | None:
    comma = _COMMA.match(text, place)
    found = string(text, comma.end()) if comma else None
    if found is None:
        return None
    is_pair = _PAIR_OPENS.search(text, max(0, opening - 600), opening) and _PAIR_CLOSES.match(
        text, found.after
    )
    return _secret(text, found, name) if is_pair or name.startswith("--") else None


def _html(text: str, opening: int, place: int, name: str) -> Found | None:
    value = _HTML_VALUE.match(text, place)
    found = string(text, value.end()) if value else None
    return _secret(text, found, name) if found else None


def _multipart(text: str, opening: int, place: int, name: str) -> Found | None:
    if not _PART_NAME_BEFORE.search(text, max(0, opening - 40), opening):
        return None
    return part_body(text, place)


BEHIND_BARE: tuple[Follow, ...] = (_bare_colon, _bare_equals)
BEHIND_QUOTED: tuple[Follow, ...] = (_assigned, _named, _paired, _html, _multipart)
EXCUSABLE: tuple[Follow, ...] = (_bare_colon, _bare_equals, _assigned)
"""Ways of writing that code, SQL and JSON share with each other: a word there may be just a word."""


def argument(text: str, place: int, name: str) -> Found:
    """Return the value after ``=`` or a flag: a quoted string, or everything up to a blank, ``&``
    or quote.
    """
    found = None if is_closing_quote(text, place) else string(text, place)
    if found is not None:
        return _secret(text, found, name)
    value = _BARE.match(text, place)
    if value is None or _is_no_value(text, *value.span()):
        return [], 0
    return [Finding(value.start(), value.end(), "name", bare=True)], value.end()


def _value(text: str, place: int, name: str, quote: str) -> Found:
    """Return the value after the colon of JSON or of a ``repr``. Every leaf of it is secret."""
    if text[place : place + 1] in ("{", "[", "("):
        found, end = leaves(text, place, quote)
        return [finding for leaf in found for finding in _secret(text, leaf, "")[0]], end
    one = literal(text, place, quote)
    return _secret(text, one, name) if one else ([], 0)


def part_body(text: str, place: int) -> Found | None:
    """Return the body of the multipart part whose headers continue at ``place``."""
    headers = _PART_HEADERS.match(text, place)
    if headers is None:
        return None
    end = _PART_END.search(text, headers.end())
    stop = end.start() if end else len(text)
    return _secret(text, Literal(headers.end(), stop, stop), "")


def _secret(text: str, found: Literal, name: str) -> Found:
    if found.start >= found.end:
        return [], found.after
    if is_cookie(name) and "=" in text[found.start : found.end]:
        spans = cookies(text, found.start, found.end)
        return [Finding(start, end, "cookie") for start, end in spans], found.after
    return [Finding(found.start, found.end, "name", found.quote)], found.after


def _is_piece_of_text(text: str, opening: int, place: int, name: str) -> bool:
    """Return whether this is the ``token`` of a log probability."""
    if normalise(name) != "token":
        return False
    if _LOG_PROBABILITY_BEFORE.search(text, max(0, opening - 600), opening):
        return True
    found = string(text, place)
    return bool(found and _LOG_PROBABILITY_AFTER.match(text, found.after))


def _is_code(text: str, place: int, name: str) -> bool:
    """Return whether this is source code: ``token=self.token``, ``api_key=os.environ["…"]``."""
    word = _BARE.match(text, place)
    if word is None:
        return False
    return _CODE.match(word[0]) is not None or normalise(word[0]) == normalise(name)


def _quote_before(text: str, place: int) -> str:
    start = place - 1
    while start > 0 and text[start - 1] == "\\":
        start -= 1
    return text[start:place]


def is_closing_quote(text: str, place: int) -> bool:
    """Return whether a quote here ends the string that contains the name: ``"Enter the password:",
    …``.
    """
    closing = _CLOSING.match(text, place)
    if closing is None:
        return False
    quote = closing["quote"]
    before = text[max(0, place - _REACH) : place]
    return (before.count(quote) - before.count("\\" + quote)) % 2 == 1


def _is_no_value(text: str, start: int, end: int) -> bool:
    """Is this a word for nothing, or the place of a value in a template?"""
    if end - start > _LONGEST_TEMPLATE:
        return False
    return _NOT_A_VALUE.match(text, start, end) is not None


def _skip(text: str, place: int, blanks: str = " \t") -> int:
    while place < len(text) and text[place] in blanks:
        place += 1
    return place
