"""Saved searches: names for filters, for everybody in a tenant."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from sqlalchemy import Row

from reenact.server.batches.schema import SavedSearch, Search
from reenact.server.context import RequestContext
from reenact.server.problems import Problem
from reenact.server.responses import ListResponse
from reenact.server.storage.batches import find_search, keep_search, list_searches, remove_search
from reenact.server.storage.database import Scope

__all__ = ["put_search", "read_search", "read_searches", "remove", "rename"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,99}")


async def read_searches(context: RequestContext) -> ListResponse[SavedSearch]:
    """By name."""
    limit = context.limit
    async with context.server.database.reading(context.tenant) as scope:
        rows = await list_searches(scope, context.query("cursor"), limit + 1)
    shown = rows[:limit]
    return ListResponse(
        [_shown(row) for row in shown], shown[-1].name if len(rows) > limit else None
    )


async def read_search(context: RequestContext) -> SavedSearch:
    """``GET /api/v1/searches/{name}``: one of them; 404 when there is none of this name."""
    async with context.server.database.reading(context.tenant) as scope:
        return _shown(await _found(context, scope))


async def put_search(context: RequestContext) -> SavedSearch:
    """Replaces one's own of the same name."""
    name = _checked(context.path("name"))
    filters = await context.json(Search)
    values = {
        "name": name,
        "filters": msgspec.json.encode(filters).decode(),
        "changed_at": context.server.now(),
        "changed_by": context.principal.id,
        "changed_name": context.principal.name or context.principal.id,
    }
    async with context.server.database.writing(context.tenant) as scope:
        before = await find_search(scope, name)
        if before is not None:
            _check_owner(context, before)
        await keep_search(scope, values)
        return _shown(await _found(context, scope))


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Problem(
            "invalid", "a search's name is letters, digits, spaces and . _ -", field="name"
        )
    return name


async def rename(context: RequestContext, name: str) -> None:
    """The one of the path is called ``name`` from now on; 409 where there is one of that name."""
    async with context.server.database.writing(context.tenant) as scope:
        row = await _found(context, scope)
        _check_owner(context, row)
        if name == row.name:
            return
        if await find_search(scope, _checked(name)) is not None:
            raise Problem("conflict", "there is a search of this name already")
        kept = {one: getattr(row, one) for one in ("filters", "changed_by", "changed_name")}
        await keep_search(scope, {**kept, "name": name, "changed_at": context.server.now()})
        await remove_search(scope, row.name)


async def remove(context: RequestContext) -> None:
    """``DELETE /api/v1/searches/{name}``: 204.

    409 for the search of a different user, except for administrators.
    """
    async with context.server.database.writing(context.tenant) as scope:
        _check_owner(context, await _found(context, scope))
        await remove_search(scope, context.path("name"))


def _check_owner(context: RequestContext, row: Row[Any]) -> None:
    if row.changed_by != context.principal.id and not context.may("tenant:admin").allowed:
        raise Problem(
            "conflict",
            f"this search is one of {row.changed_name}",
            hint="save it under another name",
        )


async def _found(context: RequestContext, scope: Scope) -> Row[Any]:
    row = await find_search(scope, context.path("name"))
    if row is None:
        raise Problem("not_found", "there is no saved search of this name")
    return row


def _shown(row: Row[Any]) -> SavedSearch:
    return SavedSearch(
        name=row.name,
        filters=msgspec.json.decode(row.filters, type=Search),
        changed_at=row.changed_at,
        changed_by=row.changed_name,
    )
