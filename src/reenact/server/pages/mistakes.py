"""Where in a text a mistake is (pure): in JSON, and in base64.

Whether there is one is not decided here: an exchange takes a body, or does not. Only what it does not
take is gone through for the place, which takes longer.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator
from typing import Final

import msgspec

from reenact.errors import UsageError
from reenact.exchange.document import body_value
from reenact.exchange.model import Body
from reenact.format.canonical import MAX_DEPTH

__all__ = ["Slip", "base64_slip", "json_slip"]

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+', re.DOTALL)
_HALF: Final = re.compile("[\ud800-\udfff]")
_CONSTANTS: Final = ("NaN", "Infinity", "-Infinity")
_NO_BASE64: Final = re.compile(r"[^A-Za-z0-9+/=\s]")
_AFTER_THE_END: Final = re.compile(r"=\s*(?=[^=\s])")


class Slip(msgspec.Struct, frozen=True):
    """``at`` counts characters from 0."""

    message: str
    at: int


def json_slip(text: str) -> Slip | None:
    """The first thing for which ``text`` is no JSON, or none that can be kept."""
    if _is_taken(Body(type="json", text=text)):
        return None
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return Slip(f"not JSON: {error.msg.removesuffix(' at')}", error.pos)
    except (ValueError, RecursionError):
        pass  # too many digits, too deep: the first place of that is found below
    return next(_strictly(text), Slip("not JSON that can be kept", 0))


def _is_taken(body: Body) -> bool:
    try:
        body_value(body)
    except UsageError:
        return False
    return True


def _strictly(text: str) -> Iterator[Slip]:
    """What a reader of JSON lets pass, or cannot say the place of. ``text`` is JSON otherwise."""
    inside: list[set[str] | None] = []  # the keys of an object; None is a list
    before = ""
    for match in _TOKEN.finditer(text):
        token, at = match[0], match.start()
        if len(inside) > MAX_DEPTH and token not in "]}":
            yield Slip(f"nested deeper than {MAX_DEPTH}", at)
        if token in "[{":
            inside.append(set() if token == "{" else None)
        elif token in "]}":
            inside.pop()
        elif token[0] == '"':
            keys = inside[-1] if inside and before in "{," else None
            yield from (Slip(words, at) for words in _of_text(json.loads(token), keys))
        else:
            yield from (Slip(words, at) for words in _of_number(token))
        before = token


def _of_text(text: str, keys: set[str] | None) -> Iterator[str]:
    if _HALF.search(text):
        yield "half of a surrogate pair is no text"
    if keys is not None:
        if text in keys:
            yield f"the key {text[:80]!r} stands twice in one object"
        keys.add(text)


def _of_number(token: str) -> Iterator[str]:
    if token in _CONSTANTS:
        yield f"{token} is not a JSON number"
    elif token[0] in "-0123456789":
        most = sys.get_int_max_str_digits()
        if token.lstrip("-").isdigit():
            if 0 < most < len(token.lstrip("-")):
                yield f"a number of more than {most:,} digits"
        elif math.isinf(float(token)):
            yield "a number too large for a float"


def base64_slip(text: str) -> Slip | None:
    """The first character for which ``text`` is no base64; white space is none of it."""
    if _is_taken(Body(type="bytes", base64="".join(text.split()))):
        return None
    strange = _NO_BASE64.search(text)
    if strange is not None:
        return Slip(f"not base64: {strange[0]!r}", strange.start())
    early = _AFTER_THE_END.search(text)
    if early is not None:
        return Slip("not base64: something follows the =", early.end())
    return Slip("not base64: the last of its groups of four is not whole", len(text.rstrip()))
