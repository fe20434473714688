"""JSON pointers (RFC 6901): ``/body/items/0/sku``, ``~1`` for a slash and ``~0`` for a tilde."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from reenact.errors import UsageError

__all__ = ["Tokens", "look_up", "parse_index", "parse_pointer", "spell_pointer"]

Tokens = tuple[str, ...]

_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")
_BAD_TILDE = re.compile(r"~(?![01])")


def parse_pointer(text: str) -> Tokens:
    """The tokens of ``text``; none for the whole document. Raises :class:`UsageError`."""
    if not text:
        return ()
    if not text.startswith("/"):
        raise UsageError(f"the pointer {text[:80]!r} does not begin with a slash")
    if _BAD_TILDE.search(text):
        raise UsageError(
            f"the pointer {text[:80]!r} has a tilde that is neither ~0 nor ~1",
            hint="write a tilde as ~0, and a slash in a name as ~1",
        )
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in text[1:].split("/"))


def spell_pointer(tokens: Iterable[str | int]) -> str:
    """The inverse of :func:`parse_pointer`."""
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)


def parse_index(token: str, length: int) -> int:
    """The place in a list of ``length`` that ``token`` names. Raises :class:`LookupError` with the
    reason."""
    if not _INDEX.fullmatch(token):
        raise LookupError(f"{token[:40]!r} is no index of a list")
    index = int(token)
    if index >= length:
        raise LookupError(f"the list has {length} items and no number {index}")
    return index


def look_up(document: Any, tokens: Tokens) -> Any:
    """What stands there. Raises :class:`LookupError` with the reason when there is nothing."""
    value = document
    for token in tokens:
        if isinstance(value, dict):
            if token not in value:
                raise LookupError(f"there is no {token[:80]!r}")
            value = value[token]
        elif isinstance(value, list):
            value = value[parse_index(token, len(value))]
        else:
            raise LookupError(f"{token[:80]!r} is looked for in what is neither object nor list")
    return value
