"""Pages of lists, newest first, restricted to readable locations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Column, ColumnElement, Select, Table, and_, false, or_, true, tuple_

from reenact.server.auth.permissions import ResourceScope

__all__ = ["Page", "newest", "within"]


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
