"""Stored documents, and pages of rows, newest first, restricted to readable locations."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import Column, ColumnElement, Select, Table, and_, false, or_, true, tuple_

from reenact.exchange.model import Exchange
from reenact.server.auth.permissions import ResourceScope
from reenact.server.problems import Problem

__all__ = [
    "Page",
    "exchange_of",
    "newest",
    "pack",
    "unpack",
    "within",
]

T = TypeVar("T")
_LEVEL: Final = 3


def pack(value: Any) -> bytes:
    """``value`` for the database."""
    return zlib.compress(msgspec.json.encode(value), _LEVEL)


def unpack(data: bytes, kind: type[T]) -> T:
    """Return the value of :func:`pack`. Raises :class:`Problem` for damaged data."""
    try:
        return msgspec.json.decode(zlib.decompress(data), type=kind)
    except (zlib.error, msgspec.DecodeError):
        raise Problem(
            "damaged", "a stored value cannot be read", hint="restore the database from a copy"
        ) from None


def exchange_of(row: Any) -> Exchange:
    """The exchange of a row that has its content."""
    return unpack(row.document, Exchange)


class Page(msgspec.Struct, frozen=True):
    """``size`` items from the one after (``at``, ``id``); from the newest one when ``id`` is empty."""

    size: int
    at: int = 0
    id: str = ""


def newest(chosen: Select[Any], at: Column[Any], id: Column[Any], page: Page) -> Select[Any]:
    """One more than the page, so that it shows whether there is another one."""
    if page.id:
        chosen = chosen.where(tuple_(at, id) < tuple_(page.at, page.id))
    return chosen.order_by(at.desc(), id.desc()).limit(page.size + 1)


def within(table: Table, places: Sequence[ResourceScope] | None) -> ColumnElement[bool]:
    """Rows in one of ``places``; None stands for everywhere."""
    if places is None:
        return true()
    return or_(false(), *(_in_place(table, place) for place in places))


def _in_place(table: Table, place: ResourceScope) -> ColumnElement[bool]:
    limits: list[ColumnElement[bool]] = []
    if place.environment is not None:
        limits.append(table.c.environment == place.environment)
    if place.app is not None:
        limits.append(table.c.app == place.app)
    return and_(true(), *limits)
