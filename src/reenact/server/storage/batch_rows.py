"""Batches and saved searches, as they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, select

from reenact.server.storage.batch_tables import BATCH_ITEMS, BATCHES, SEARCHES
from reenact.server.storage.database import Platform, Scope
from reenact.server.storage.exchange_paging import Page, newest

__all__ = [
    "add_batch",
    "change_batch",
    "find_batch",
    "find_search",
    "forget_plans",
    "keep_search",
    "list_batches",
    "list_searches",
    "locked_batch",
    "remove_search",
    "set_hindered",
    "under_way",
]

_DRIVEN = ("running", "cancelling")


async def add_batch(scope: Scope, values: dict[str, Any]) -> None:
    """Keep a new one; the tenant is put in."""
    await scope.add(BATCHES, values)


async def find_batch(scope: Scope, batch_id: str) -> Row[Any] | None:
    """By its id; None when this tenant has none."""
    return await scope.one(scope.select(BATCHES).where(BATCHES.c.batch_id == batch_id))


async def locked_batch(scope: Scope, batch_id: str) -> Row[Any] | None:
    """The same; nobody else changes it until the transaction ends."""
    chosen = scope.select(BATCHES).where(BATCHES.c.batch_id == batch_id)
    return await scope.one(chosen.with_for_update())


async def change_batch(scope: Scope, batch_id: str, before: str, values: dict[str, Any]) -> bool:
    """False when its state is not ``before`` any more; nothing is changed then."""
    changed = await scope.run(
        scope.update(BATCHES)
        .where(BATCHES.c.batch_id == batch_id, BATCHES.c.state == before)
        .values(values)
    )
    return changed.rowcount == 1


async def set_hindered(scope: Scope, batch_id: str, code: str) -> None:
    """What it waits for."""
    chosen = scope.update(BATCHES).where(BATCHES.c.batch_id == batch_id)
    await scope.run(chosen.values(hindered=code))


async def list_batches(
    scope: Scope, state: str, requested_id: str, page: Page
) -> Sequence[Row[Any]]:
    """Newest first; only those of somebody, when ``requested_id`` says so."""
    chosen = scope.select(BATCHES)
    if state:
        chosen = chosen.where(BATCHES.c.state == state)
    if requested_id:
        chosen = chosen.where(BATCHES.c.requested_id == requested_id)
    return await scope.all(newest(chosen, BATCHES.c.created_at, BATCHES.c.batch_id, page))


async def under_way(platform: Platform) -> Sequence[Row[Any]]:
    """Tenants and ids of all batches that somebody has to drive on, the oldest first."""
    return await platform.all(
        select(BATCHES.c.tenant, BATCHES.c.batch_id)
        .where(BATCHES.c.state.in_(_DRIVEN))
        .order_by(BATCHES.c.batch_id)
    )


async def forget_plans(scope: Scope, before: int) -> None:
    """Plans that nobody has confirmed since ``before``."""
    old = scope.select(BATCHES, BATCHES.c.batch_id).where(
        BATCHES.c.state == "planned", BATCHES.c.created_at < before
    )
    await scope.run(scope.delete(BATCH_ITEMS).where(BATCH_ITEMS.c.batch_id.in_(old)))
    await scope.run(
        scope.delete(BATCHES).where(BATCHES.c.state == "planned", BATCHES.c.created_at < before)
    )


async def find_search(scope: Scope, name: str) -> Row[Any] | None:
    """A saved search by its name; None when this tenant has none."""
    return await scope.one(scope.select(SEARCHES).where(SEARCHES.c.name == name))


async def list_searches(scope: Scope, after: str, most: int) -> Sequence[Row[Any]]:
    """By name."""
    chosen = scope.select(SEARCHES).where(SEARCHES.c.name > after)
    return await scope.all(chosen.order_by(SEARCHES.c.name).limit(most))


async def keep_search(scope: Scope, values: dict[str, Any]) -> None:
    """In the place of one of the same name."""
    await remove_search(scope, values["name"])
    await scope.add(SEARCHES, values)


async def remove_search(scope: Scope, name: str) -> bool:
    """False when there is none."""
    removed = await scope.run(scope.delete(SEARCHES).where(SEARCHES.c.name == name))
    return bool(removed.rowcount)
