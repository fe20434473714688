"""Batches, looked at: one, all, the exchanges of one, and how it gets on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Row
from starlette.responses import Response

from reenact._system import monotonic
from reenact.server.agents.sse import Channel, EventStream
from reenact.server.agents.waiting import rest
from reenact.server.answering import Listed
from reenact.server.asking import Ask
from reenact.server.batches.shapes import (
    BatchAsked,
    BatchView,
    CauseView,
    ItemView,
    KeptPlan,
    Progress,
)
from reenact.server.batches.subjects import batch_subject
from reenact.server.exchanges.documents import loose
from reenact.server.exchanges.history import places_of
from reenact.server.exchanges.paging import listed, page_of
from reenact.server.problems import Problem
from reenact.server.storage.batch_items import count_causes, count_outcomes, list_items
from reenact.server.storage.batch_rows import find_batch, list_batches
from reenact.server.storage.database import Scope

__all__ = [
    "ITEM_FILTERS",
    "get_batch",
    "read_batch",
    "read_batches",
    "read_causes",
    "read_items",
    "show",
    "watch_batch",
]

ITEM_FILTERS: Final = ("state", "verdict", "cause")
_LAST: Final = ("completed", "cancelled")


async def show(scope: Scope, row: Row[Any]) -> BatchView:
    """The batch of ``row``, with how far it is."""
    return (await _show_all(scope, [row]))[0]


async def _show_all(scope: Scope, rows: Sequence[Row[Any]]) -> list[BatchView]:
    counted = await count_outcomes(scope, [row.batch_id for row in rows])
    return [_view(row, Progress.of(counted[row.batch_id])) for row in rows]


def _view(row: Row[Any], progress: Progress) -> BatchView:
    wanted = loose(row.wanted, BatchAsked)
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
        plan=loose(row.plan, KeptPlan).sizing,
        progress=progress,
    )


async def get_batch(ask: Ask, scope: Scope, batch_id: str) -> Row[Any]:
    """A row, for somebody who may read everything that is in it. Raises :class:`Problem`."""
    row = await find_batch(scope, batch_id)
    if row is None:
        raise Problem("not_found", "there is no such batch")
    for place in loose(row.plan, KeptPlan).sources:
        ask.require("exchange:read", place)
    return row


async def read_batch(ask: Ask) -> BatchView:
    """``GET /api/v1/batches/{id}``: one, with how far it is."""
    async with ask.server.database.reading(ask.tenant) as scope:
        return await show(scope, await get_batch(ask, scope, ask.path("id")))


async def read_batches(ask: Ask) -> Listed:
    """Whoever may not look everywhere sees their own."""
    page = page_of(ask)
    everywhere = places_of(ask, "exchange:read") is None
    async with ask.server.database.reading(ask.tenant) as scope:
        owner = "" if everywhere else ask.principal.id
        rows = await list_batches(scope, ask.query("state"), owner, page)
        seen = [row for row in rows[: page.size] if _readable(ask, row)]
        views = {one.batch_id: one for one in await _show_all(scope, seen)}
    found = listed(rows, page, "created_at", "batch_id", lambda row: views.get(row.batch_id))
    return Listed([one for one in found.items if one is not None], found.next)


def _readable(ask: Ask, row: Row[Any]) -> bool:
    sources = loose(row.plan, KeptPlan).sources
    return all(ask.may("exchange:read", place).allowed for place in sources)


async def read_items(ask: Ask) -> Listed:
    """In the order of the plan."""
    after, limit = ask.number("cursor", 0), ask.limit
    async with ask.server.database.reading(ask.tenant) as scope:
        row = await get_batch(ask, scope, ask.path("id"))
        filters = {name: ask.query(name) for name in ITEM_FILTERS}
        rows = await list_items(scope, row.batch_id, filters, after, limit + 1)
    shown = rows[:limit]
    cursor = str(shown[-1].position) if len(rows) > limit else None
    return Listed([ItemView.of(row) for row in shown], cursor)


async def read_causes(ask: Ask) -> Listed:
    """``GET /api/v1/batches/{id}/causes``: why replays of it differ, what most of them have first."""
    async with ask.server.database.reading(ask.tenant) as scope:
        row = await get_batch(ask, scope, ask.path("id"))
        rows = await count_causes(scope, row.batch_id, ask.limit)
    return Listed([CauseView.of(one) for one in rows], None)


async def watch_batch(ask: Ask) -> Response:
    """The batch as it is now, and whenever it has got on, until it has ended."""
    async with ask.server.database.reading(ask.tenant) as scope:
        row = await get_batch(ask, scope, ask.path("id"))

    async def write(channel: Channel) -> None:
        await channel.retry(ask.server.timings.retry)
        await _tell(ask, channel, row.batch_id)

    return EventStream(write, ask.server.timings.slow)


async def _tell(ask: Ask, channel: Channel, batch_id: str) -> None:
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
