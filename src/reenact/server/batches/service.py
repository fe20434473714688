"""Batches: read, watch, confirm, cancel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Row
from starlette.responses import Response

from reenact._system import monotonic
from reenact.server.audit.log import actor_of, changed
from reenact.server.auth.permissions import ResourceScope, replay_permission
from reenact.server.batches.plan import find, sized, skips, standing_at
from reenact.server.batches.schema import (
    BatchAsked,
    BatchView,
    CauseView,
    ItemView,
    KeptPlan,
    Progress,
)
from reenact.server.context import RequestContext
from reenact.server.exchanges.redaction import clean_text
from reenact.server.exchanges.service import places_of
from reenact.server.http.sse import Channel, EventStream
from reenact.server.notifications import DRIVERS, batch_subject, rest
from reenact.server.pagination import listed, page_of
from reenact.server.problems import Problem
from reenact.server.replays.checks import NO_RECORDING, permission_used
from reenact.server.replays.schema import check_variables
from reenact.server.replays.service import cancel
from reenact.server.responses import ListResponse, answer
from reenact.server.storage.batches import (
    add_batch,
    add_items,
    asked_items,
    cancel_waiting,
    change_batch,
    count_causes,
    count_outcomes,
    find_batch,
    forget_plans,
    list_batches,
    list_items,
    open_groups,
)
from reenact.server.storage.database import Scope
from reenact.server.storage.documents import pack, unpack
from reenact.server.storage.people import environment_kind

__all__ = [
    "ITEM_FILTERS",
    "cancel_batch",
    "confirm_batch",
    "get_batch",
    "plan_batch",
    "read_batch",
    "read_batches",
    "read_causes",
    "read_items",
    "show",
    "watch_batch",
]

ITEM_FILTERS: Final = ("state", "verdict", "cause")
_DAY: Final = 86_400_000
_LAST: Final = ("completed", "cancelled")


async def show(scope: Scope, row: Row[Any]) -> BatchView:
    """The batch of ``row``, with how far it is."""
    return (await _show_all(scope, [row]))[0]


async def _show_all(scope: Scope, rows: Sequence[Row[Any]]) -> list[BatchView]:
    counted = await count_outcomes(scope, [row.batch_id for row in rows])
    return [_view(row, Progress.of(counted[row.batch_id])) for row in rows]


def _view(row: Row[Any], progress: Progress) -> BatchView:
    wanted = unpack(row.wanted, BatchAsked)
    return BatchView(
        batch_id=row.batch_id,
        state=row.state,
        search=wanted.search,
        saved=wanted.saved,
        environment=wanted.environment,
        boundaries=wanted.boundaries,
        strict=wanted.strict,
        environment_variables=wanted.environment_variables,
        revision=wanted.revision,
        reason=wanted.reason,
        concurrency=row.concurrency,
        per_minute=row.per_minute,
        requested_by=row.requested_by,
        confirmed_by=row.actor_name,
        created_at=row.created_at,
        confirmed_at=row.confirmed_at,
        ended_at=row.ended_at,
        hindered=row.hindered,
        plan=unpack(row.plan, KeptPlan).sizing,
        progress=progress,
    )


async def get_batch(ask: RequestContext, scope: Scope, batch_id: str) -> Row[Any]:
    """Return the row of a batch that the caller can read completely. Raises :class:`Problem`."""
    row = await find_batch(scope, batch_id)
    if row is None:
        raise Problem("not_found", "there is no such batch")
    for place in unpack(row.plan, KeptPlan).sources:
        ask.require("exchange:read", place)
    return row


async def read_batch(ask: RequestContext) -> BatchView:
    """``GET /api/v1/batches/{id}``: one, with how far it is."""
    async with ask.server.database.reading(ask.tenant) as scope:
        return await show(scope, await get_batch(ask, scope, ask.path("id")))


async def read_batches(ask: RequestContext) -> ListResponse[BatchView]:
    """``GET /api/v1/batches``: all batches for a caller who can read everything, otherwise their
    own."""
    page = page_of(ask)
    everywhere = places_of(ask, "exchange:read") is None
    async with ask.server.database.reading(ask.tenant) as scope:
        owner = "" if everywhere else ask.principal.id
        rows = await list_batches(scope, ask.query("state"), owner, page)
        seen = [row for row in rows[: page.size] if _readable(ask, row)]
        views = {one.batch_id: one for one in await _show_all(scope, seen)}
    found = listed(rows, page, "created_at", "batch_id", lambda row: views.get(row.batch_id))
    return ListResponse([one for one in found.items if one is not None], found.next)


def _readable(ask: RequestContext, row: Row[Any]) -> bool:
    sources = unpack(row.plan, KeptPlan).sources
    return all(ask.may("exchange:read", place).allowed for place in sources)


async def read_items(ask: RequestContext) -> ListResponse[ItemView]:
    """In the order of the plan."""
    after, limit = ask.number("cursor", 0), ask.limit
    async with ask.server.database.reading(ask.tenant) as scope:
        row = await get_batch(ask, scope, ask.path("id"))
        filters = {name: ask.query(name) for name in ITEM_FILTERS}
        rows = await list_items(scope, row.batch_id, filters, after, limit + 1)
    shown = rows[:limit]
    cursor = str(shown[-1].position) if len(rows) > limit else None
    return ListResponse([ItemView.of(row) for row in shown], cursor)


async def read_causes(ask: RequestContext) -> ListResponse[CauseView]:
    """``GET /api/v1/batches/{id}/causes``: why replays of it differ, what most of them have first."""
    async with ask.server.database.reading(ask.tenant) as scope:
        row = await get_batch(ask, scope, ask.path("id"))
        rows = await count_causes(scope, row.batch_id, ask.limit)
    return ListResponse([CauseView.of(one) for one in rows], None)


async def watch_batch(ask: RequestContext) -> Response:
    """The batch as it is now, and whenever it has got on, until it has ended."""
    async with ask.server.database.reading(ask.tenant) as scope:
        row = await get_batch(ask, scope, ask.path("id"))

    async def write(channel: Channel) -> None:
        await channel.retry(ask.server.timings.retry)
        await _tell(ask, channel, row.batch_id)

    return EventStream(write, ask.server.timings.slow)


async def _tell(ask: RequestContext, channel: Channel, batch_id: str) -> None:
    server, said, quiet_since = ask.server, b"", monotonic()
    with server.hints.listening(batch_subject(ask.tenant, batch_id)) as ear:
        while not server.stopping.is_set():
            async with server.database.reading(ask.tenant) as scope:
                view = await show(scope, await get_batch(ask, scope, batch_id))
            data = msgspec.json.encode(view)
            if data != said:
                said, quiet_since = data, monotonic()
                await channel.event("progress", data)
            if view.state in _LAST:
                return
            if monotonic() - quiet_since >= server.timings.ping:
                quiet_since = monotonic()
                await channel.ping()
            await rest(server, ear, server.timings.poll)


async def confirm_batch(ask: RequestContext) -> BatchView:
    """Confirm a batch.

    Its replays are requested on behalf of the confirming user. Repeating it changes nothing.
    """
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


async def _permission(ask: RequestContext, scope: Scope, row: Row[Any]) -> str:
    """One by which something of it may be replayed. Raises :class:`Problem` when nothing may."""
    wanted = unpack(row.wanted, BatchAsked)
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


async def _open_places(scope: Scope, row: Row[Any]) -> list[ResourceScope]:
    groups = await open_groups(scope, row.batch_id)
    return list({ResourceScope(one.environment, one.app): None for one in groups})


async def _begin(ask: RequestContext, scope: Scope, row: Row[Any], permission: str) -> None:
    wanted, who = unpack(row.wanted, BatchAsked), ask.principal
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


async def cancel_batch(ask: RequestContext) -> BatchView:
    """Cancel the waiting items and the running replays of a batch.

    A batch that has ended is unchanged.
    """
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


async def _end(ask: RequestContext, scope: Scope, row: Row[Any], after: str) -> None:
    """Cancel a batch; requires the replay permission in all of its locations."""
    permission = "replay:execute"
    for place in await _open_places(scope, row):
        needed = replay_permission(await environment_kind(scope, place.environment or ""))
        permission = ask.require(needed, place).permission
    ended = {"ended_at": ask.server.now()} if after == "cancelled" else {}
    if await change_batch(scope, row.batch_id, row.state, {"state": after, **ended}):
        await cancel_waiting(scope, row.batch_id)
        record = changed(ask.principal, "batch.cancelled", "batch", row.batch_id, permission)
        await ask.server.auditor.write(scope, record)


async def plan_batch(ask: RequestContext) -> Response:
    """``POST /api/v1/batches``: 201 with the planned batch.

    Plans that are not confirmed within a day are deleted.
    """
    asked = await ask.json(BatchAsked)
    check_variables(True, asked.boundaries, asked.environment_variables)
    async with ask.server.database.reading(ask.tenant) as scope:
        found = await find(ask, scope, asked)
        sizing = await sized(ask, scope, found.rows, found.missing, asked)
    plan = KeptPlan(sizing, _sources(found.rows))
    kept = msgspec.structs.replace(asked, search=found.search, exchanges=())
    batch_id, now = ask.server.new_id("bat"), ask.server.now()
    async with ask.server.database.writing(ask.tenant) as scope:
        await forget_plans(scope, now - _DAY)
        await add_batch(scope, _row(ask, batch_id, kept, plan, now))
        await add_items(scope, _items(ask, batch_id, found.rows, kept))
        row = await find_batch(scope, batch_id)
        if row is None:
            raise Problem("internal", "the batch was not written")
        view = await show(scope, row)
    response = answer(view, 201)
    response.headers["Location"] = f"/api/v1/batches/{batch_id}"
    return response


def _sources(rows: Sequence[Row[Any]]) -> tuple[ResourceScope, ...]:
    return tuple({ResourceScope(row.environment, row.app): None for row in rows})


def _row(
    ask: RequestContext, batch_id: str, asked: BatchAsked, plan: KeptPlan, now: int
) -> dict[str, Any]:
    return {
        "batch_id": batch_id,
        "state": "planned",
        "wanted": pack(msgspec.structs.replace(asked, reason=clean_text(asked.reason))),
        "plan": pack(plan),
        "concurrency": asked.concurrency,
        "per_minute": asked.per_minute,
        "actor": "",
        "actor_name": "",
        "requested_by": ask.principal.name or ask.principal.id,
        "requested_id": ask.principal.id,
        "created_at": now,
        "confirmed_at": 0,
        "ended_at": 0,
        "hindered": "",
    }


def _items(
    ask: RequestContext, batch_id: str, rows: Sequence[Row[Any]], asked: BatchAsked
) -> list[dict[str, Any]]:
    return [_item(ask, batch_id, at, row, asked) for at, row in enumerate(rows, 1)]


def _item(
    ask: RequestContext, batch_id: str, at: int, row: Row[Any], asked: BatchAsked
) -> dict[str, Any]:
    code = skips(row, ask.server.limits.depth, asked.boundaries)
    return {
        "batch_id": batch_id,
        "exchange_id": row.exchange_id,
        "position": at,
        "app": row.app,
        "environment": asked.environment or row.environment,
        "route_id": row.route_id,
        "state": "skipped" if code else "waiting",
        "replay_id": "",
        "agent_id": "",
        "asked_at": 0,
        "outcome": "",
        "code": code,
        "message": row.not_replayable or (NO_RECORDING if code == "not_replayable" else ""),
        "verdict": "",
        "cause": "",
        "ending": "",
        "http_status": 0,
    }
