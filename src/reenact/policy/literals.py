"""Values as they are written in text: JSON at any depth of escaping, ``repr``, cookies.

All functions take a text and a place and return places; nothing is decoded or rewritten. They
tolerate what is cut off: a literal without an end goes to the end of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from reenact.policy.patterns import late

__all__ = ["Literal", "Span", "cookies", "leaves", "literal", "string"]

Span = tuple[int, int]

_STRING_START = late(r"[bBrRuUfF]{0,2}(\\*)([\"'])")
_DOUBLE = late(r'(?<!\\)\\*+"')
_SINGLE = late(r"(?<!\\)\\*+'")
_NUMBER = late(r"-?[0-9](?:[0-9.eE+\-])*")
_TOKEN = late(r"[{}\[\]()]|(?<!\\)\\*+[\"']|(?<![\w.])-?[0-9][0-9.eE+\-]*")
_COLON = late(r"[ \t\r\n]*(?::|=>)")
_SCHEMA = late(
    r"\"type\\*\"\s{0,8}:\s{0,8}\[?\s{0,8}\\*\"(?:string|integer|number|boolean|object|array|null)\\*\""
    r"|\"(?:\$ref|anyOf|oneOf|allOf)\\*\"\s{0,8}:",
    re.ASCII,
)
_SCHEMA_VALUE = late(
    r"[\"'](?:default|const|examples?)\\*[\"']\s{0,16}:\s{0,16}\[?\s{0,16}\\*[\"']?\Z", re.ASCII
)
_SCHEMA_REACH = 20_000
_JOINED_COOKIE = late(r",[ \t]*([^=;,\s]+)=([^;,]*)")
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
    """How many JSON strings a quote behind ``run`` backslashes is inside of.

    Level 1 is written ``\\"``, level 2 ``\\\\\\"``: each level doubles the run and adds one, so
    the level is the number of trailing ones of the run, in binary.
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
    """The strings and numbers in the container that opens at ``place``, and the place behind it.

    Keys are no leaves. Of a JSON schema only the defaults and examples are: it describes a secret.
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
