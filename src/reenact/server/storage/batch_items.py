"""The exchanges of batches, as they are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Row, func, text

from reenact.server.access import Place
from reenact.server.storage.batch_tables import ASKED, BATCH_ITEMS
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_replays import LATELY
from reenact.server.storage.exchange_tables import REPLAYS

__all__ = [
    "add_items",
    "asked_items",
    "cancel_waiting",
    "change_item",
    "count_asked",
    "count_causes",
    "count_of_agent",
    "count_outcomes",
    "find_item",
    "list_items",
    "open_groups",
    "refuse_place",
    "settled",
    "waiting_items",
]

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
    """Those whose replays have not ended, as far as the batch knows."""
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
    """How many replays of batches an agent has at the moment, and has got since ``since``."""
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


async def refuse_place(scope: Scope, batch_id: str, place: Place, code: str, message: str) -> None:
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
    """What waits is not tried any more."""
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
