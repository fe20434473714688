"""Queries of batches, their items, and saved searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Row, func, select, text

from reenact.server.auth.permissions import ResourceScope
from reenact.server.storage.database import Platform, Scope
from reenact.server.storage.replays import LATELY
from reenact.server.storage.rows import Page, newest
from reenact.server.storage.tables import ASKED, BATCH_ITEMS, BATCHES, REPLAYS, SEARCHES

__all__ = [
    "add_batch",
    "add_items",
    "asked_items",
    "cancel_waiting",
    "change_batch",
    "change_item",
    "count_asked",
    "count_causes",
    "count_of_agent",
    "count_outcomes",
    "find_batch",
    "find_item",
    "find_search",
    "forget_plans",
    "keep_search",
    "list_batches",
    "list_items",
    "list_searches",
    "locked_batch",
    "open_groups",
    "refuse_place",
    "remove_search",
    "set_hindered",
    "settled",
    "under_way",
    "waiting_items",
]


_DRIVEN = ("running", "cancelling")


async def add_batch(scope: Scope, values: dict[str, Any]) -> None:
    """Keep a new one; the tenant is put in."""
    await scope.add(BATCHES, values)


async def find_batch(scope: Scope, batch_id: str) -> Row[Any] | None:
    """By its id; None when this tenant has none."""
    return await scope.one(scope.select(BATCHES).where(BATCHES.c.batch_id == batch_id))


async def locked_batch(scope: Scope, batch_id: str) -> Row[Any] | None:
    """Return a batch, locked until the transaction ends."""
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
    """Store the code of the current obstacle."""
    chosen = scope.update(BATCHES).where(BATCHES.c.batch_id == batch_id)
    await scope.run(chosen.values(hindered=code))


async def list_batches(
    scope: Scope, state: str, requested_id: str, page: Page
) -> Sequence[Row[Any]]:
    """Return batches, newest first; with ``requested_id`` only the ones of that user."""
    chosen = scope.select(BATCHES)
    if state:
        chosen = chosen.where(BATCHES.c.state == state)
    if requested_id:
        chosen = chosen.where(BATCHES.c.requested_id == requested_id)
    return await scope.all(newest(chosen, BATCHES.c.created_at, BATCHES.c.batch_id, page))


async def under_way(platform: Platform) -> Sequence[Row[Any]]:
    """Return tenants and ids of all running batches, oldest first."""
    return await platform.all(
        select(BATCHES.c.tenant, BATCHES.c.batch_id)
        .where(BATCHES.c.state.in_(_DRIVEN))
        .order_by(BATCHES.c.batch_id)
    )


async def forget_plans(scope: Scope, before: int) -> None:
    """Delete plans that were not confirmed since ``before``."""
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


_AT_ONCE: Final = 500


async def add_items(scope: Scope, rows: Sequence[dict[str, Any]]) -> None:
    """Keep the exchanges of a new batch, however many."""
    for start in range(0, len(rows), _AT_ONCE):
        await scope.add(BATCH_ITEMS, *rows[start : start + _AT_ONCE])


async def find_item(scope: Scope, batch_id: str, exchange_id: str) -> Row[Any] | None:
    """An exchange of a batch; None when it is not in it."""
    return await scope.one(_of(scope, batch_id).where(BATCH_ITEMS.c.exchange_id == exchange_id))


def _of(scope: Scope, batch_id: str, *columns: Any) -> Any:
    return scope.select(BATCH_ITEMS, *columns).where(BATCH_ITEMS.c.batch_id == batch_id)


async def change_item(
    scope: Scope, batch_id: str, exchange_id: str, before: str, values: dict[str, Any]
) -> bool:
    """False when its state is not ``before`` any more; nothing is changed then."""
    changed = await scope.run(
        scope.update(BATCH_ITEMS)
        .where(
            BATCH_ITEMS.c.batch_id == batch_id,
            BATCH_ITEMS.c.exchange_id == exchange_id,
            BATCH_ITEMS.c.state == before,
        )
        .values(values)
    )
    return changed.rowcount == 1


async def waiting_items(scope: Scope, batch_id: str, after: int, most: int) -> Sequence[Row[Any]]:
    """In order, from the one after the position ``after``."""
    chosen = _of(scope, batch_id).where(
        BATCH_ITEMS.c.state == "waiting", BATCH_ITEMS.c.position > after
    )
    return await scope.all(chosen.order_by(BATCH_ITEMS.c.position).limit(most))


async def asked_items(scope: Scope, batch_id: str) -> Sequence[Row[Any]]:
    """Return the items whose replays have not ended according to the batch."""
    return await scope.all(_of(scope, batch_id).where(BATCH_ITEMS.c.state == "asked"))


async def settled(scope: Scope, batch_id: str, last: Sequence[str]) -> Sequence[Row[Any]]:
    """Items whose replays are in one of the states ``last``, with what came of these."""
    names = ("state", "code", "message", "verdict", "cause", "ending", "http_status")
    columns = (BATCH_ITEMS.c.exchange_id, *(REPLAYS.c[name] for name in names))
    joined = (REPLAYS.c.tenant == scope.tenant, REPLAYS.c.replay_id == BATCH_ITEMS.c.replay_id)
    return await scope.all(
        _of(scope, batch_id, *columns).where(
            BATCH_ITEMS.c.state == "asked", *joined, REPLAYS.c.state.in_(last)
        )
    )


async def count_asked(scope: Scope, since: int) -> int:
    """Replays that batches have asked for lately, from ``since`` on."""
    row = await scope.one(
        scope.select(BATCH_ITEMS, func.count()).where(
            BATCH_ITEMS.c.asked_at.between(since, since + LATELY)
        )
    )
    return 0 if row is None else int(row[0])


async def count_of_agent(scope: Scope, agent_id: str, since: int) -> tuple[int, int]:
    """Return the number of current batch replays of an agent, and of its batch replays since
    ``since``."""
    mine = scope.select(BATCH_ITEMS, func.count()).where(BATCH_ITEMS.c.agent_id == agent_id)
    busy = await scope.one(mine.where(text(ASKED)))
    lately = await scope.one(mine.where(BATCH_ITEMS.c.asked_at.between(since, since + LATELY)))
    return (int(busy[0]) if busy else 0, int(lately[0]) if lately else 0)


async def count_outcomes(scope: Scope, ids: Sequence[str]) -> dict[str, list[Row[Any]]]:
    """By batch: ``state``, ``outcome``, ``verdict``, ``ending``, ``code`` and how many ``items`` have
    them."""
    names = ("batch_id", "state", "outcome", "verdict", "ending", "code")
    columns = [BATCH_ITEMS.c[name] for name in names]
    counted = scope.select(BATCH_ITEMS, *columns, func.count().label("items"))
    counted = counted.where(BATCH_ITEMS.c.batch_id.in_(ids))
    found: dict[str, list[Row[Any]]] = {one: [] for one in ids}
    for row in await scope.all(counted.group_by(*columns).order_by(*columns)):
        found[row.batch_id].append(row)
    return found


async def count_causes(scope: Scope, batch_id: str, most: int) -> Sequence[Row[Any]]:
    """``verdict``, ``cause``, how many ``exchanges`` have them, and the ``replay_id`` of one; the most
    frequent first."""
    items = BATCH_ITEMS.c
    many = func.count().label("exchanges")
    columns = (items.verdict, items.cause, many, func.min(items.replay_id).label("replay_id"))
    counted = _of(scope, batch_id, *columns).where(items.cause != "")
    counted = counted.group_by(items.verdict, items.cause)
    order = (many.desc(), items.verdict, items.cause)
    return await scope.all(counted.order_by(*order).limit(most))


async def open_groups(
    scope: Scope, batch_id: str, states: Sequence[str] = ("waiting", "asked")
) -> Sequence[Row[Any]]:
    """``environment``, ``app`` and ``route_id`` of what is in one of ``states``."""
    columns = (BATCH_ITEMS.c.environment, BATCH_ITEMS.c.app, BATCH_ITEMS.c.route_id)
    chosen = _of(scope, batch_id, *columns).where(BATCH_ITEMS.c.state.in_(states))
    return await scope.all(chosen.distinct())


async def refuse_place(
    scope: Scope, batch_id: str, place: ResourceScope, code: str, message: str
) -> None:
    """Nothing that waits there is tried any more."""
    await scope.run(
        scope.update(BATCH_ITEMS)
        .where(
            BATCH_ITEMS.c.batch_id == batch_id,
            BATCH_ITEMS.c.state == "waiting",
            BATCH_ITEMS.c.environment == place.environment,
            BATCH_ITEMS.c.app == place.app,
        )
        .values(state="refused", code=code, message=message)
    )


async def cancel_waiting(scope: Scope, batch_id: str) -> None:
    """Cancel all waiting items."""
    await scope.run(
        scope.update(BATCH_ITEMS)
        .where(BATCH_ITEMS.c.batch_id == batch_id, BATCH_ITEMS.c.state == "waiting")
        .values(state="cancelled")
    )


async def list_items(
    scope: Scope, batch_id: str, filters: Mapping[str, str], after: int, most: int
) -> Sequence[Row[Any]]:
    """In order, from the one after the position ``after``. ``filters`` are values by their column;
    an empty one is none."""
    chosen = _of(scope, batch_id).where(BATCH_ITEMS.c.position > after)
    for name, value in filters.items():
        if value:
            chosen = chosen.where(BATCH_ITEMS.c[name] == value)
    return await scope.all(chosen.order_by(BATCH_ITEMS.c.position).limit(most))
