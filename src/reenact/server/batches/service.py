"""Batches: plan, list, read, confirm, cancel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Row

from reenact.server.audit.log import actor_of
from reenact.server.auth.permissions import ResourceScope, replay_permission
from reenact.server.batches.plan import Standing, find, sized, skips, standing_at
from reenact.server.batches.schema import (
    BatchRequest,
    BatchView,
    CauseView,
    ItemView,
    KeptPlan,
    Progress,
)
from reenact.server.context import Caller
from reenact.server.exchanges.redaction import clean_text
from reenact.server.exchanges.service import places_of
from reenact.server.notifications import DRIVERS, batch_subject
from reenact.server.pagination import ListResponse, list_response, listed
from reenact.server.problems import Problem
from reenact.server.replays.checks import NO_RECORDING, permission_used
from reenact.server.replays.schema import check_variables
from reenact.server.replays.service import cancel
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
from reenact.server.storage.people import environment_kind
from reenact.server.storage.rows import Page, pack, unpack

__all__ = [
    "ITEM_FILTERS",
    "cancel_batch",
    "confirm_batch",
    "get_batch",
    "plan_batch",
    "read_batch",
    "read_causes",
    "read_items",
    "read_standings",
    "search_batches",
]

ITEM_FILTERS: Final = ("state", "verdict", "cause")
_DAY: Final = 86_400_000


async def _show(scope: Scope, row: Row[Any]) -> BatchView:
    """Return the batch of ``row`` with its progress."""
    return (await _show_all(scope, [row]))[0]


async def _show_all(scope: Scope, rows: Sequence[Row[Any]]) -> list[BatchView]:
    counted = await count_outcomes(scope, [row.batch_id for row in rows])
    return [_view(row, Progress.of(counted[row.batch_id])) for row in rows]


def _view(row: Row[Any], progress: Progress) -> BatchView:
    wanted = unpack(row.wanted, BatchRequest)
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


async def get_batch(caller: Caller, scope: Scope, batch_id: str) -> Row[Any]:
    """Return the row of a batch that the caller can read completely. Raises :class:`Problem`."""
    row = await find_batch(scope, batch_id)
    if row is None:
        raise Problem("not_found", "there is no such batch")
    for place in unpack(row.plan, KeptPlan).sources:
        caller.require("exchange:read", place)
    return row


async def read_batch(caller: Caller, batch_id: str) -> BatchView:
    """Return a batch with its progress. Raises :class:`Problem`."""
    async with caller.server.database.reading(caller.tenant) as scope:
        return await _show(scope, await get_batch(caller, scope, batch_id))


async def search_batches(caller: Caller, state: str, page: Page) -> ListResponse[BatchView]:
    """Return batches, newest first: all of them, or only the caller's own batches without a grant for
    everything."""
    everywhere = places_of(caller, "exchange:read") is None
    async with caller.server.database.reading(caller.tenant) as scope:
        owner = "" if everywhere else caller.principal.id
        rows = await list_batches(scope, state, owner, page)
        seen = [row for row in rows[: page.size] if _readable(caller, row)]
        views = {one.batch_id: one for one in await _show_all(scope, seen)}
    found = listed(rows, page, "created_at", "batch_id", lambda row: views.get(row.batch_id))
    return ListResponse([one for one in found.items if one is not None], found.next)


def _readable(caller: Caller, row: Row[Any]) -> bool:
    sources = unpack(row.plan, KeptPlan).sources
    return all(caller.may("exchange:read", place).allowed for place in sources)


async def read_items(
    caller: Caller, batch_id: str, filters: dict[str, str], after: int, limit: int
) -> ListResponse[ItemView]:
    """Return the items of a batch in the order of the plan. ``filters`` has :data:`ITEM_FILTERS`."""
    async with caller.server.database.reading(caller.tenant) as scope:
        row = await get_batch(caller, scope, batch_id)
        rows = await list_items(scope, row.batch_id, filters, after, limit + 1)
    return list_response(rows, limit, ItemView.of, lambda row: str(row.position))


async def read_causes(caller: Caller, batch_id: str, limit: int) -> ListResponse[CauseView]:
    """Return the causes of diverged replays, most frequent first. Raises :class:`Problem`."""
    async with caller.server.database.reading(caller.tenant) as scope:
        row = await get_batch(caller, scope, batch_id)
        rows = await count_causes(scope, row.batch_id, limit)
    return ListResponse([CauseView.of(one) for one in rows], None)


async def read_standings(caller: Caller, found: BatchView) -> list[tuple[ResourceScope, Standing]]:
    """Return whether the caller could replay the parts of a plan, by location."""
    caller.require_anywhere("exchange:read")
    places = {ResourceScope(one.environment, one.app): None for one in found.plan.groups}
    async with caller.server.database.reading(caller.tenant) as scope:
        return [
            (place, await standing_at(caller, scope, place, found.boundaries, found.reason))
            for place in places
        ]


async def confirm_batch(caller: Caller, batch_id: str) -> BatchView:
    """Confirm a batch.

    Its replays are requested on behalf of the confirming user. Repeating it changes nothing.
    """
    server = caller.server
    async with server.database.writing(caller.tenant) as scope:
        row = await get_batch(caller, scope, batch_id)
        if row.state in ("cancelling", "cancelled"):
            raise Problem("conflict", f"this batch is {row.state}")
        if row.state == "planned":
            permission = await _permission(caller, scope, row)
            await _begin(caller, scope, row, permission)
        view = await _show(scope, await get_batch(caller, scope, row.batch_id))
    server.notifications.publish(DRIVERS)
    return view


async def _permission(caller: Caller, scope: Scope, row: Row[Any]) -> str:
    """Return a permission for at least one item. Raises :class:`Problem` if no item can be replayed."""
    wanted = unpack(row.wanted, BatchRequest)
    places = await _open_places(scope, row)
    if not places:
        raise Problem("conflict", "nothing in this batch can be replayed")
    refused: Problem | None = None
    for place in places:
        found = await standing_at(caller, scope, place, wanted.boundaries, wanted.reason)
        if found.refused is None:
            return permission_used(found.kind, wanted.boundaries)
        refused = refused or found.refused
    raise refused or Problem("conflict", "nothing in this batch can be replayed")


async def _open_places(scope: Scope, row: Row[Any]) -> list[ResourceScope]:
    groups = await open_groups(scope, row.batch_id)
    return list({ResourceScope(one.environment, one.app): None for one in groups})


async def _begin(caller: Caller, scope: Scope, row: Row[Any], permission: str) -> None:
    wanted, who = unpack(row.wanted, BatchRequest), caller.principal
    values = {
        "state": "running",
        "actor": msgspec.json.encode(actor_of(who)).decode(),
        "actor_name": who.name or who.id,
        "confirmed_at": caller.server.now(),
    }
    if await change_batch(scope, row.batch_id, "planned", values):
        await caller.record(
            scope,
            "batch.confirmed",
            "batch",
            row.batch_id,
            permission,
            tier=who.tenant.tier,
            boundaries=wanted.boundaries,
            reason=wanted.reason,
        )


async def cancel_batch(caller: Caller, batch_id: str) -> BatchView:
    """Cancel the waiting items and the running replays of a batch.

    A batch that has ended is unchanged.
    """
    server = caller.server
    async with server.database.writing(caller.tenant) as scope:
        row = await get_batch(caller, scope, batch_id)
        after = {"planned": "cancelled", "running": "cancelling"}.get(row.state, "")
        under_way = await asked_items(scope, row.batch_id)
        if after:
            await _end(caller, scope, row, after)
    for item in under_way:
        await cancel(caller, item.replay_id)
    server.notifications.publish(DRIVERS)
    server.notifications.publish(batch_subject(caller.tenant, row.batch_id))
    async with server.database.reading(caller.tenant) as scope:
        return await _show(scope, await get_batch(caller, scope, row.batch_id))


async def _end(caller: Caller, scope: Scope, row: Row[Any], after: str) -> None:
    """Cancel a batch; requires the replay permission in all of its locations."""
    permission = "replay:execute"
    for place in await _open_places(scope, row):
        needed = replay_permission(await environment_kind(scope, place.environment or ""))
        permission = caller.require(needed, place).permission
    ended = {"ended_at": caller.server.now()} if after == "cancelled" else {}
    if await change_batch(scope, row.batch_id, row.state, {"state": after, **ended}):
        await cancel_waiting(scope, row.batch_id)
        await caller.record(scope, "batch.cancelled", "batch", row.batch_id, permission)


async def plan_batch(caller: Caller, asked: BatchRequest) -> BatchView:
    """Store a plan and return the batch. Raises :class:`Problem`.

    Plans that are not confirmed within a day are deleted.
    """
    check_variables(True, asked.boundaries, asked.environment_variables)
    async with caller.server.database.reading(caller.tenant) as scope:
        found = await find(caller, scope, asked)
        sizing = await sized(caller, scope, found.rows, found.missing, asked)
    plan = KeptPlan(sizing, _sources(found.rows))
    kept = msgspec.structs.replace(asked, search=found.search, exchanges=())
    batch_id, now = caller.server.new_id("bat"), caller.server.now()
    async with caller.server.database.writing(caller.tenant) as scope:
        await forget_plans(scope, now - _DAY)
        await add_batch(scope, _row(caller, batch_id, kept, plan, now))
        await add_items(scope, _items(caller, batch_id, found.rows, kept))
        row = await find_batch(scope, batch_id)
        if row is None:
            raise Problem("internal", "the batch was not written")
        return await _show(scope, row)


def _sources(rows: Sequence[Row[Any]]) -> tuple[ResourceScope, ...]:
    return tuple({ResourceScope(row.environment, row.app): None for row in rows})


def _row(
    caller: Caller, batch_id: str, asked: BatchRequest, plan: KeptPlan, now: int
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
        "requested_by": caller.principal.name or caller.principal.id,
        "requested_id": caller.principal.id,
        "created_at": now,
        "confirmed_at": 0,
        "ended_at": 0,
        "hindered": "",
    }


def _items(
    caller: Caller, batch_id: str, rows: Sequence[Row[Any]], asked: BatchRequest
) -> list[dict[str, Any]]:
    return [_item(caller, batch_id, at, row, asked) for at, row in enumerate(rows, 1)]


def _item(
    caller: Caller, batch_id: str, at: int, row: Row[Any], asked: BatchRequest
) -> dict[str, Any]:
    code = skips(row, caller.server.limits.depth, asked.boundaries)
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
