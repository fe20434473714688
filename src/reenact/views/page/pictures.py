"""Pictures inside of what is said to a model and by it, however an API puts them there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from reenact.format.event import Data
from reenact.views.page.showing import PICTURES

__all__ = ["hang", "pictures_in"]

_URL = re.compile(r"data:(image/[a-z]+);base64,", re.IGNORECASE)
_STARTS = {
    "iVBORw0K": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}
"""How base64 of a picture begins."""
_LEAST, _MOST = 60, 1024 * 1024
"""Characters. No picture is shorter, and none that is longer is shown."""


def pictures_in(value: Any) -> list[Data]:
    """All pictures in ``value``, in the order in which they stand there, as a page shows them."""
    return [
        {"as": "image", "kind": kind, "v": data} for kind, data in _found(value) if kind in PICTURES
    ]


def hang(messages: list[Data], pictures: list[Data]) -> list[Data]:
    """Put each picture into the message that says it has one; gives those for which there is none."""
    places = [
        message
        for message in messages
        for about in message.get("attached", ())
        if "image" in about and about.endswith("characters)")
    ]
    if len(places) != len(pictures):
        return pictures
    for message, picture in zip(places, pictures, strict=True):
        message.setdefault("pictures", []).append(picture)
    return []


def _found(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _found(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _found(item)
    elif isinstance(value, str) and _LEAST <= len(value) <= _MOST:
        kind = _kind(value)
        if kind:
            yield kind, value


def _kind(text: str) -> str:
    url = _URL.match(text)
    if url is not None:
        return url[1].lower()
    return next((kind for start, kind in _STARTS.items() if text.startswith(start)), "")
