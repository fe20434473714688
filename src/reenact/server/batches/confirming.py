"""A batch, confirmed or cancelled by somebody who may."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Row

from reenact.server.access import Place, replay_permission
from reenact.server.asking import Ask
from reenact.server.audit import actor_of
from reenact.server.batches.reading import get_batch, show
from reenact.server.batches.shapes import BatchAsked, BatchView
from reenact.server.batches.sizing import standing_at
from reenact.server.batches.subjects import DRIVERS, batch_subject
from reenact.server.changing import changed
from reenact.server.exchanges.documents import loose
from reenact.server.exchanges.replays import cancel
from reenact.server.exchanges.rights import permission_used
from reenact.server.problems import Problem
from reenact.server.storage.batch_items import asked_items, cancel_waiting, open_groups
from reenact.server.storage.batch_rows import change_batch
from reenact.server.storage.database import Scope
from reenact.server.storage.people_rows import environment_kind

__all__ = ["cancel_batch", "confirm_batch"]


async def confirm_batch(ask: Ask) -> BatchView:
    """From now on its replays are ordered in the name of whoever confirms it. Once is enough."""
    server = ask.server
    async with server.database.writing(ask.tenant) as scope:
        row = await get_batch(ask, scope, ask.path("id"))
        if row.state in ("cancelling", "cancelled"):
            raise Problem("conflict", f"this batch is {row.state}")
        if row.state == "planned":
            permission = await _permission(ask, scope, row)
            await _begin(ask, scope, row, permission)
        view = await show(scope, await get_batch(ask, scope, row.batch_id))
    server.hints.give(DRIVERS)
    return view


async def _permission(ask: Ask, scope: Scope, row: Row[Any]) -> str:
    """One by which something of it may be replayed. Raises :class:`Problem` when nothing may."""
    wanted = loose(row.wanted, BatchAsked)
    places = await _open_places(scope, row)
    if not places:
        raise Problem("conflict", "nothing in this batch can be replayed")
    refused: Problem | None = None
    for place in places:
        found = await standing_at(ask, scope, place, wanted.boundaries, wanted.reason)
        if found.refused is None:
            return permission_used(found.kind, wanted.boundaries)
        refused = refused or found.refused
    raise refused or Problem("conflict", "nothing in this batch can be replayed")


async def _open_places(scope: Scope, row: Row[Any]) -> list[Place]:
    groups = await open_groups(scope, row.batch_id)
    return list({Place(one.environment, one.app): None for one in groups})


async def _begin(ask: Ask, scope: Scope, row: Row[Any], permission: str) -> None:
    wanted, who = loose(row.wanted, BatchAsked), ask.principal
    values = {
        "state": "running",
        "actor": msgspec.json.encode(actor_of(who)).decode(),
        "actor_name": who.name or who.id,
        "confirmed_at": ask.server.now(),
    }
    if await change_batch(scope, row.batch_id, "planned", values):
        record = changed(
            who,
            "batch.confirmed",
            "batch",
            row.batch_id,
            permission,
            tier=who.tenant.tier,
            boundaries=wanted.boundaries,
            reason=wanted.reason,
        )
        await ask.server.auditor.write(scope, record)


async def cancel_batch(ask: Ask) -> BatchView:
    """What waits is not tried any more; replays under way are told to end. One that has ended stays
    as it is."""
    server = ask.server
    async with server.database.writing(ask.tenant) as scope:
        row = await get_batch(ask, scope, ask.path("id"))
        after = {"planned": "cancelled", "running": "cancelling"}.get(row.state, "")
        under_way = await asked_items(scope, row.batch_id)
        if after:
            await _end(ask, scope, row, after)
    for item in under_way:
        await cancel(ask, item.replay_id)
    server.hints.give(DRIVERS)
    server.hints.give(batch_subject(ask.tenant, row.batch_id))
    async with server.database.reading(ask.tenant) as scope:
        return await show(scope, await get_batch(ask, scope, row.batch_id))


async def _end(ask: Ask, scope: Scope, row: Row[Any], after: str) -> None:
    """Whoever may replay in all its places may cancel it."""
    permission = "replay:execute"
    for place in await _open_places(scope, row):
        needed = replay_permission(await environment_kind(scope, place.environment or ""))
        permission = ask.require(needed, place).permission
    ended = {"ended_at": ask.server.now()} if after == "cancelled" else {}
    if await change_batch(scope, row.batch_id, row.state, {"state": after, **ended}):
        await cancel_waiting(scope, row.batch_id)
        record = changed(ask.principal, "batch.cancelled", "batch", row.batch_id, permission)
        await ask.server.auditor.write(scope, record)
