"""Comparison of the start payload that a replay was commanded with and the one that it reports (pure).

An agent cannot be made to run what it was told, but a result of something else must not be shown as the
result of the command. Places that either side has redacted, and credentials that only the app has, say
nothing and are not compared; neither are headers that describe how a message travelled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from reenact.errors import ReenactError
from reenact.exchange.model import Payload
from reenact.exchange.patch import format_pointer
from reenact.exchange.payload import body_bytes, to_document
from reenact.format.canonical import exact
from reenact.policy.redaction.placeholder import is_mark
from reenact.server.exchanges.wanting import hidden

__all__ = ["first_difference"]

_TRAVEL: Final = frozenset(
    {"connection", "content-length", "expect", "keep-alive", "transfer-encoding"}
)
_REDACTED: Final = re.compile(r"\*\*\*REDACTED(?::[0-9a-f]{12})?\*\*\*")


def first_difference(commanded: Payload, came: Payload, unknown: Iterable[str]) -> str | None:
    """Return the JSON pointer of the first place that differs, or None.

    ``unknown`` are pointers to values that were recorded as placeholders, which only the app can fill.
    """
    try:
        wanted, found = _document(commanded), _document(came)
    except ReenactError:
        return ""
    return _compare(wanted, found, (), frozenset(unknown))


def _document(payload: Payload) -> dict[str, Any]:
    document = to_document(payload)
    if payload.body.type == "bytes" and payload.body.clipped is None:
        document["body"] = body_bytes(payload.body).decode("latin-1")
    headers = document["headers"]
    document["headers"] = {name: headers[name] for name in headers if name not in _TRAVEL}
    clean: dict[str, Any] = hidden(document)
    return clean


def _compare(wanted: Any, found: Any, at: tuple[str, ...], unknown: frozenset[str]) -> str | None:
    pointer = format_pointer(at)
    if pointer in unknown:
        return None
    if isinstance(wanted, dict) and isinstance(found, dict):
        return _compare_objects(wanted, found, at, unknown)
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = enumerate(zip(wanted, found, strict=True))
        differences = (_compare(a, b, (*at, str(number)), unknown) for number, (a, b) in pairs)
        return next((one for one in differences if one is not None), None)
    return None if _is_same(wanted, found) else pointer


def _compare_objects(
    wanted: dict[str, Any], found: dict[str, Any], at: tuple[str, ...], unknown: frozenset[str]
) -> str | None:
    for name in sorted({*wanted, *found}):
        here = (*at, name)
        if name not in wanted or name not in found:
            if format_pointer(here) not in unknown:
                return format_pointer(here)
            continue
        difference = _compare(wanted[name], found[name], here, unknown)
        if difference is not None:
            return difference
    return None


def _is_same(wanted: Any, found: Any) -> bool:
    if exact(wanted) == exact(found):
        return True
    if isinstance(found, str) and is_mark(found) and not isinstance(wanted, (dict, list)):
        return True  # also for a number: the placeholder is always a text
    texts = isinstance(wanted, str) and isinstance(found, str)
    return texts and (_stands_for(wanted, found) or _stands_for(found, wanted))


def _stands_for(redacted: str, text: str) -> bool:
    """Can ``redacted``, in which something was taken out, have been ``text``?"""
    parts = _REDACTED.split(redacted)
    if len(parts) == 1 or not text.startswith(parts[0]):
        return False
    place = len(parts[0])
    for part in parts[1:-1]:
        place = text.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return len(text) - place >= len(parts[-1]) and text.endswith(parts[-1])
