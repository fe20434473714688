"""Saved searches: names for filters, for all users of a tenant."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from sqlalchemy import Row

from reenact.server.batches.schema import SavedSearch, Search
from reenact.server.context import Caller
from reenact.server.pagination import ListResponse, list_response
from reenact.server.problems import Problem
from reenact.server.storage import batches
from reenact.server.storage.database import Scope

__all__ = ["list_searches", "read_search", "remove_search", "rename_search", "save_search"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,99}")


async def list_searches(caller: Caller, after: str, limit: int) -> ListResponse[SavedSearch]:
    """Return the saved searches by name. ``after`` is the cursor."""
    caller.require_anywhere("exchange:read")
    async with caller.server.database.reading(caller.tenant) as scope:
        rows = await batches.list_searches(scope, after, limit + 1)
    return list_response(rows, limit, _view, lambda row: str(row.name))


async def read_search(caller: Caller, name: str) -> SavedSearch:
    """Return a saved search. Raises :class:`Problem`."""
    caller.require_anywhere("exchange:read")
    async with caller.server.database.reading(caller.tenant) as scope:
        return _view(await _row(scope, name))


async def save_search(caller: Caller, name: str, filters: Search) -> SavedSearch:
    """Save a search, or replace the caller's own search of the same name. Raises :class:`Problem`."""
    caller.require_anywhere("exchange:read")
    values = {
        "name": _checked(name),
        "filters": msgspec.json.encode(filters).decode(),
        "changed_at": caller.server.now(),
        "changed_by": caller.principal.id,
        "changed_name": caller.principal.name or caller.principal.id,
    }
    async with caller.server.database.writing(caller.tenant) as scope:
        before = await batches.find_search(scope, name)
        if before is not None:
            _check_owner(caller, before)
        await batches.keep_search(scope, values)
        return _view(await _row(scope, name))


async def rename_search(caller: Caller, name: str, new: str) -> None:
    """Rename a search. Raises :class:`Problem` ``conflict`` if the new name is taken."""
    caller.require_anywhere("exchange:read")
    async with caller.server.database.writing(caller.tenant) as scope:
        row = await _row(scope, name)
        _check_owner(caller, row)
        if new == row.name:
            return
        if await batches.find_search(scope, _checked(new)) is not None:
            raise Problem("conflict", "there is a search of this name already")
        kept = {one: getattr(row, one) for one in ("filters", "changed_by", "changed_name")}
        await batches.keep_search(scope, {**kept, "name": new, "changed_at": caller.server.now()})
        await batches.remove_search(scope, row.name)


async def remove_search(caller: Caller, name: str) -> None:
    """Delete a search. Raises :class:`Problem` ``conflict`` for the search of a different user,
    except for administrators."""
    caller.require_anywhere("exchange:read")
    async with caller.server.database.writing(caller.tenant) as scope:
        _check_owner(caller, await _row(scope, name))
        await batches.remove_search(scope, name)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Problem(
            "invalid", "a search's name is letters, digits, spaces and . _ -", field="name"
        )
    return name


def _check_owner(caller: Caller, row: Row[Any]) -> None:
    if row.changed_by != caller.principal.id and not caller.may("tenant:admin").allowed:
        raise Problem(
            "conflict",
            f"this search is one of {row.changed_name}",
            hint="save it under another name",
        )


async def _row(scope: Scope, name: str) -> Row[Any]:
    row = await batches.find_search(scope, name)
    if row is None:
        raise Problem("not_found", "no saved search has this name")
    return row


def _view(row: Row[Any]) -> SavedSearch:
    return SavedSearch(
        name=row.name,
        filters=msgspec.json.decode(row.filters, type=Search),
        changed_at=row.changed_at,
        changed_by=row.changed_name,
    )
