"""Placeholders and pseudonyms of redacted values, and their recognition."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Any

from reenact.policy.patterns import lazy_pattern

__all__ = ["PLACEHOLDER", "blind", "essence", "is_mark", "pseudonym"]

PLACEHOLDER = "***REDACTED***"

_MARK = lazy_pattern(r"\*\*\*REDACTED(?::[0-9a-f]{12})?\*\*\*")
_PSEUDONYM = lazy_pattern(r"\*\*\*REDACTED:[0-9a-f]{12}\*\*\*")
_PSEUDONYM_BYTES = lazy_pattern(_PSEUDONYM.pattern.encode())
_PLACEHOLDER_BYTES = PLACEHOLDER.encode()
# In UTF-16 and UTF-32 there are one or three NULs between two characters, in either byte order.
_GAPS = ("\0", "\0\0\0")
_WIDE_PSEUDONYMS = tuple(
    lazy_pattern(
        gap.join([*map(re.escape, "***REDACTED:"), *["[0-9a-f]"] * 12, *map(re.escape, "***")])
    )
    for gap in _GAPS
)
_WIDE_STARTS = tuple(gap.join("***REDACTED:") for gap in _GAPS)
_SCHEME = lazy_pattern(r"(?:bearer|basic|token|dpop)[ \t\r\n]{1,8}", re.IGNORECASE | re.ASCII)


def is_mark(text: str) -> bool:
    """Return whether ``text`` is exactly one placeholder or pseudonym."""
    return _MARK.fullmatch(text) is not None


def essence(secret: str) -> str:
    """The secret without its authorization scheme: ``Bearer x`` and ``x`` are the same secret."""
    scheme = _SCHEME.match(secret)
    return secret[scheme.end() :] if scheme else secret


def pseudonym(salt: bytes | None, secret: str) -> str:
    """The replacement of ``secret``: the constant, or with a salt a name that only equals share."""
    if salt is None:
        return PLACEHOLDER
    plain = essence(secret).encode("utf-8", "surrogatepass")
    return f"***REDACTED:{hmac.new(salt, plain, hashlib.sha256).hexdigest()[:12]}***"


def blind(value: Any) -> Any:
    """Return ``value`` with every pseudonym replaced by the constant placeholder, also in keys.

    Used to compare redacted values, because a replay has different credentials or none. Unchanged
    parts are shared with the input, which is never mutated.
    """
    if isinstance(value, str):
        plain = _PSEUDONYM.sub(PLACEHOLDER, value) if "***REDACTED:" in value else value
        return _blind_wide(plain) if "*\0" in plain else plain
    if isinstance(value, bytes):
        if b"***REDACTED:" in value:
            value = _PSEUDONYM_BYTES.sub(_PLACEHOLDER_BYTES, value)
        if b"*\0" not in value:
            return value
        text = value.decode("latin-1")
        wide = _blind_wide(text)
        return value if wide is text else wide.encode("latin-1")
    if isinstance(value, dict):
        return _blind_object(value)
    if isinstance(value, (list, tuple)):
        items = [blind(item) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return tuple(items) if isinstance(value, tuple) else items
    return value


def _blind_wide(text: str) -> str:
    """Replace pseudonyms in UTF-16 or UTF-32 text that is represented with one character per byte."""
    for gap, start, pattern in zip(_GAPS, _WIDE_STARTS, _WIDE_PSEUDONYMS, strict=True):
        if start in text:
            text = pattern.sub(gap.join(PLACEHOLDER), text)
    return text


def _blind_object(value: dict[Any, Any]) -> dict[Any, Any]:
    changed = False
    result: dict[Any, Any] = {}
    for key, item in value.items():
        new_key, new_item = blind(key), blind(item)
        changed = changed or new_key is not key or new_item is not item
        result[new_key] = new_item
    return result if changed else value
