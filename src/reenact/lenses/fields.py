"""Access to untyped values.

A missing value, or one of the wrong type, results in an empty value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from reenact.lenses.model import Usage

__all__ = [
    "counted",
    "decode",
    "described_url",
    "inside",
    "joined",
    "listed",
    "mapped",
    "mappings",
    "parsed",
    "shown",
    "size_of",
    "text",
    "text_of",
    "without",
]

_decode = msgspec.json.decode
_MOST_TOKENS = 2**53


def mapped(value: Any) -> dict[str, Any]:
    """Return ``value`` if it is an object, otherwise an empty dict."""
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    """Return ``value`` if it is a list, otherwise an empty list."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """Return ``value`` if it is a string, otherwise an empty string."""
    return value if isinstance(value, str) else ""


def inside(value: Any, *names: str) -> Any:
    """Return the member at the path ``names``, or None."""
    for name in names:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def mappings(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects in a list."""
    return (item for item in listed(value) if isinstance(item, dict))


def without(value: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """Return a shallow copy of ``value`` without the members ``names``."""
    return {name: item for name, item in value.items() if name not in names}


def joined(texts: Iterable[Any], between: str = "") -> str:
    """Join the non-empty strings in ``texts``."""
    return between.join(item for item in texts if isinstance(item, str) and item)


def text_of(content: Any) -> str:
    """Return a text, or the joined texts and refusals of a list of parts."""
    if isinstance(content, str):
        return content
    return joined(item.get("text") or item.get("refusal") for item in mappings(content))


def described_url(kind: str, url: str, data: Any) -> str:
    """Describe an attachment by its URL or, without one, by its base64 ``data``."""
    if url.startswith("data:"):
        return f"{kind} {url[5:].partition(',')[0][:80]} ({size_of(url.partition(',')[2])})"
    return f"{kind} {url[:200]}" if url else f"{kind} ({size_of(data)})"


def counted(told: Any, *names: tuple[str, tuple[str, ...]]) -> Usage | None:
    """Return the token counts at the given paths, or None if there are none."""
    found: Usage = {}
    for name, path in names:
        number = inside(told, *path)
        if type(number) is int and 0 <= number < _MOST_TOKENS:
            found[name] = number
    return found or None


def decode(encoded: bytes | str) -> tuple[Any, bool]:
    """Return the value of ``encoded``, and whether it is JSON."""
    try:
        return _decode(encoded), True
    except (ValueError, RecursionError):  # DecodeError and UnicodeDecodeError are ValueErrors
        return _mended(encoded)


def _mended(encoded: bytes | str) -> tuple[Any, bool]:
    """Decode JSON with lone surrogates, which are replaced by a question mark.

    Servers send them if they cut a text in the middle of a character. They cannot be stored.
    """
    if not (b"\\u" in encoded if isinstance(encoded, bytes) else "\\u" in encoded):
        return None, False
    try:
        whole = json.dumps(json.loads(encoded), ensure_ascii=False)
        return _decode(whole.encode("utf-8", "replace")), True
    except (ValueError, RecursionError):
        return None, False


def parsed(arguments: Any) -> Any:
    """Parse the arguments of a tool call, which some APIs send as JSON in a string."""
    if not isinstance(arguments, str):
        return arguments
    value, is_json = decode(arguments)
    return value if is_json else arguments


def shown(value: Any) -> str:
    """Return ``value`` as JSON for display, or an empty string if it cannot be encoded."""
    try:
        return msgspec.json.encode(value).decode("utf-8")
    except (TypeError, ValueError, OverflowError, RecursionError):
        return ""


def size_of(encoded: Any) -> str:
    """Describe the length of a base64 text."""
    return f"{len(encoded)} characters" if isinstance(encoded, str) else "of unknown size"
