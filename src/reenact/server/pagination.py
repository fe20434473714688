"""Lists: responses with cursors, and query parameters."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

import msgspec
from sqlalchemy import Row

from reenact.server.context import RequestContext
from reenact.server.problems import Problem
from reenact.server.storage.rows import Page

__all__ = [
    "REPLAYS",
    "ListResponse",
    "list_response",
    "listed",
    "one_of",
    "page_of",
    "with_replays",
    "yes_or_no",
]

T = TypeVar("T")
Item = TypeVar("Item")
REPLAYS = ("false", "true", "any")
"""Values of the filter ``replay``: without replays, only replays, both."""


class ListResponse(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list; ``next`` is the cursor of the following page."""

    items: list[T]
    next: str | None = None


def list_response(
    rows: Sequence[Item], limit: int, show: Callable[[Item], T], cursor: Callable[[Item], str]
) -> ListResponse[T]:
    """Return one page. ``rows`` has more than ``limit`` items if there is another page, which
    starts after the ``cursor`` of the last shown row."""
    shown = rows[:limit]
    following = cursor(shown[-1]) if len(rows) > limit else None
    return ListResponse([show(row) for row in shown], following)


def page_of(context: RequestContext) -> Page:
    """Return the requested page. Raises :class:`Problem`."""
    text = context.query("cursor")
    if not text:
        return Page(context.limit)
    try:
        at, id = msgspec.json.decode(urlsafe_b64decode(text.encode()), type=tuple[int, str])
    except (msgspec.DecodeError, Base64Error, ValueError):
        raise Problem("invalid", "invalid list cursor", field="cursor") from None
    return Page(context.limit, min(max(at, 0), 2**53), id)


def listed(
    rows: Sequence[Row[Any]], page: Page, at: str, id: str, show: Callable[[Row[Any]], T]
) -> ListResponse[T]:
    """Return one page of ``rows``, which are ordered by the columns ``at`` and ``id``."""

    def cursor(row: Row[Any]) -> str:
        place = msgspec.json.encode((getattr(row, at), getattr(row, id)))
        return urlsafe_b64encode(place).decode()

    return list_response(rows, page.size, show, cursor)


def one_of(context: RequestContext, name: str, words: Sequence[str]) -> str:
    """A filter that is one of ``words``, or empty where it is not there. Raises :class:`Problem`."""
    text = context.query(name)
    if text not in ("", *words):
        raise Problem("invalid", f"{name} is one of {', '.join(words)}", field=name)
    return text


def yes_or_no(context: RequestContext, name: str) -> bool | None:
    """A filter that is ``true`` or ``false``, or not there. Raises :class:`Problem`."""
    text = context.query(name)
    if text not in ("", "true", "false"):
        raise Problem("invalid", f"{name} is true or false", field=name)
    return None if not text else text == "true"


def with_replays(context: RequestContext) -> bool | Literal["any"] | None:
    """Return the filter ``replay`` as a search has it, None where it is missing. Raises
    :class:`Problem`."""
    text = one_of(context, "replay", REPLAYS)
    if text == "any":
        return "any"
    return None if not text else text == "true"
