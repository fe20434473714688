"""How a model's answer ended and what it cost, read from the shapes that clients give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from reenact.format.event import Data

__all__ = ["read_answer"]

_STOPS: Final = ("stopReason", "stop_reason", "finish_reason", "finishReason", "done_reason")
_USAGES: Final = ("usage", "usageMetadata", "usage_metadata", "tokenUsage", "token_usage")
_INSIDE: Final = ("delta", "message", "response", "response_metadata", "messageStop", "metadata")
_LISTS: Final = ("choices", "candidates", "generations")


def read_answer(answer: Any, /) -> tuple[str | None, Data | None]:
    """The reason and the usage, each None where none is to be seen. Of a stream the last ones."""
    parts = list(reversed(answer)) if isinstance(answer, list) else [answer]
    places = [place for part in parts for place in _places(part)]
    stops = (place.get(name) for place in places for name in _STOPS)
    usages = (place.get(name) for place in places for name in _USAGES)
    stop = next((one for one in stops if isinstance(one, str)), None)
    return stop, next((one for one in usages if isinstance(one, dict)), None)


def _places(part: Any) -> Iterator[Data]:
    """Where in one answer it may stand."""
    if not isinstance(part, dict):
        return
    yield part
    for name in _LISTS:
        items = part.get(name)
        if isinstance(items, list) and items:
            yield from _places(items[0])
    for name in _INSIDE:
        yield from _places(part.get(name))
