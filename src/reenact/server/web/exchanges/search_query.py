"""Search filters as page addresses, API bodies and text."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from reenact.server.batches.schema import Search
from reenact.server.context import RequestContext
from reenact.server.pagination import with_replays, yes_or_no
from reenact.server.problems import Problem
from reenact.server.web.components.formatting import clock, count, duration
from reenact.server.web.components.html import url
from reenact.server.web.components.tables import times_of

__all__ = [
    "as_search",
    "filter_texts",
    "from_text",
    "history_address",
    "kept_query",
    "search_in",
    "search_text",
    "to_text",
]

_WORDS: Final = ("app", "environment", "route", "status", "traceId", "correlationId", "text")
_FLAGS: Final = ("replay", "replayable")
_CHOSEN: Final[dict[str, dict[Any, str]]] = {
    "replay": {True: "replays only", False: "originals only", "any": "originals and replays"},
    "replayable": {True: "replayable only", False: "not replayable only"},
}
"""Descriptions of the values of a flag."""
_SAID: Final = {
    "replay": "which",
    "replayable": "which",
    "traceId": "trace",
    "correlationId": "correlation",
    "since": "from",
    "until": "to",
    "within": "the last",
}


def search_in(context: RequestContext) -> dict[str, Any]:
    """Return the search in the address of a page in the form of the API.

    Raises :class:`Problem`.
    """
    found: dict[str, Any] = {name: context.query(name) for name in _WORDS if context.query(name)}
    flags = {"replay": with_replays(context), "replayable": yes_or_no(context, "replayable")}
    found |= {name: value for name, value in flags.items() if value is not None}
    return found | times_of(context)


def as_search(found: dict[str, Any]) -> Search:
    """Convert ``found`` to a search of the API. Raises :class:`Problem`."""
    try:
        return msgspec.convert(found, Search)
    except msgspec.ValidationError as error:
        raise Problem("invalid", f"this is no search: {error}") from None


def to_text(search: dict[str, Any]) -> str:
    """Return a search as text for a hidden field."""
    return msgspec.json.encode(search).decode()


def from_text(text: str) -> dict[str, Any]:
    """Parse the text of :func:`to_text`. Raises :class:`Problem`."""
    try:
        found = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        raise Problem("invalid", "this is no search", field="search") from None
    as_search(found)
    return found


def kept_query(context: RequestContext) -> dict[str, str]:
    """Return the filters in the address, for use in a different address."""
    names = (*_WORDS, *_FLAGS, "from", "to", "within")
    return {name: context.query(name) for name in names if context.query(name)}


def history_address(search: Search) -> str:
    """Return the address of the history page for ``search``."""
    found: dict[str, Any] = msgspec.to_builtins(search)
    query = {name: str(found[name]) for name in _WORDS if found.get(name)}
    query |= {name: _flag(found[name]) for name in _FLAGS if name in found}
    times = {"from": search.since, "to": search.until}
    query |= {name: clock(at).replace(" ", "T") for name, at in times.items() if at}
    return url("/exchanges", **query, within=search.within or "")


def _flag(value: bool | str) -> str:
    """Return a flag in the form of an address."""
    return value if isinstance(value, str) else "true" if value else "false"


def filter_texts(search: Search) -> list[tuple[str, str]]:
    """Return the filters of a search with their labels."""
    found: dict[str, Any] = msgspec.to_builtins(search)
    return [(_SAID.get(name, name), _said(name, value)) for name, value in found.items()]


def search_text(search: Search) -> str:
    """Return a search as one line of text."""
    found: dict[str, Any] = msgspec.to_builtins(search)
    words = (
        _said(name, value) if name in _FLAGS else f"{_SAID.get(name, name)} {_said(name, value)}"
        for name, value in found.items()
    )
    return ", ".join(words)


def _said(name: str, value: Any) -> str:
    if name in _CHOSEN:
        return _CHOSEN[name][value]
    if name in ("since", "until"):
        return f"{clock(value)} UTC"
    if name == "within":
        return _span(value)
    return str(value)


def _span(milliseconds: int) -> str:
    for word, length in (("day", 86_400_000), ("hour", 3_600_000)):
        if milliseconds % length == 0:
            return count(milliseconds // length, word)
    return duration(milliseconds)
