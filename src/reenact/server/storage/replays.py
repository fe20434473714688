"""Queries of replays, their idempotency keys, and the outbox of commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Row, Select, and_, func, or_, select, text

from reenact.server.auth.permissions import ResourceScope
from reenact.server.storage.database import Platform, Scope
from reenact.server.storage.rows import Page, newest, within
from reenact.server.storage.tables import (
    AGENTS,
    COMMANDS,
    COMPARED,
    IDEMPOTENCY,
    OPEN,
    REPLAYS,
    UNSENT,
)

__all__ = [
    "LATELY",
    "ReplayFilters",
    "add_command",
    "add_replay",
    "change_replay",
    "count_replays",
    "due_replays",
    "end_command",
    "end_commands",
    "find_replay",
    "find_request",
    "has_cancel",
    "list_replays",
    "listing",
    "mark_sent",
    "open_replays",
    "pending_commands",
    "remember_request",
    "replays_of",
    "stranded_replays",
    "verdicts_of",
    "was_sent",
    "with_unsent",
]

LATELY: Final = 120_000
"""Milliseconds. The rate limit covers a minute; later times come from a clock that was set back,
and are ignored."""
_AT_ONCE: Final = 500
_DAY: Final = 86_400_000


class ReplayFilters(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of replays, times in milliseconds. An empty text and 0 match all."""

    exchange: str = ""
    app: str = ""
    environment: str = ""
    route: str = ""
    state: str = ""
    verdict: str = ""
    by: str = ""
    since: int = 0
    until: int = 0


async def add_replay(scope: Scope, values: dict[str, Any]) -> None:
    """Keep a new one; the tenant is put in."""
    await scope.add(REPLAYS, values)


async def find_replay(scope: Scope, replay_id: str) -> Row[Any] | None:
    """By its id; None when this tenant has none."""
    return await scope.one(scope.select(REPLAYS).where(REPLAYS.c.replay_id == replay_id))


async def change_replay(scope: Scope, replay_id: str, before: str, values: dict[str, Any]) -> bool:
    """False when its state is not ``before`` any more; nothing is changed then."""
    changed = await scope.run(
        scope.update(REPLAYS)
        .where(REPLAYS.c.replay_id == replay_id, REPLAYS.c.state == before)
        .values(values)
    )
    return changed.rowcount == 1


async def list_replays(
    scope: Scope, filters: ReplayFilters, places: Sequence[ResourceScope] | None, page: Page
) -> Sequence[Row[Any]]:
    """Return replays in ``places`` (None: everywhere), newest first; one more than the page."""
    return await scope.all(listing(scope, filters, places, page))


def listing(
    scope: Scope, filters: ReplayFilters, places: Sequence[ResourceScope] | None, page: Page
) -> Select[Any]:
    """Return the statement of :func:`list_replays`."""
    chosen = _filtered(scope.select(REPLAYS), filters).where(within(REPLAYS, places))
    return newest(chosen, REPLAYS.c.requested_at, REPLAYS.c.replay_id, page)


async def replays_of(scope: Scope, exchange_id: str, most: int) -> Sequence[Row[Any]]:
    """The newest replays of an exchange: their ids, states and verdicts."""
    names = ("replay_id", "state", "verdict", "ending", "http_status", "exchange_id")
    columns = [REPLAYS.c[name] for name in names]
    return await scope.all(
        scope.select(REPLAYS, *columns)
        .where(REPLAYS.c.source_exchange_id == exchange_id)
        .order_by(REPLAYS.c.requested_at.desc())
        .limit(most)
    )


async def verdicts_of(scope: Scope, ids: Sequence[str]) -> dict[str, str]:
    """The verdicts of replays, by their ids."""
    found: dict[str, str] = {}
    for start in range(0, len(ids), _AT_ONCE):
        some = REPLAYS.c.replay_id.in_(ids[start : start + _AT_ONCE])
        columns = (REPLAYS.c.replay_id, REPLAYS.c.verdict)
        for row in await scope.all(scope.select(REPLAYS, *columns).where(some)):
            found[row.replay_id] = row.verdict
    return found


async def count_replays(scope: Scope, since: int) -> int:
    """Return the number of recent replays since ``since``."""
    row = await scope.one(
        scope.select(REPLAYS, func.count()).where(
            REPLAYS.c.requested_at.between(since, since + LATELY)
        )
    )
    return 0 if row is None else int(row[0])


async def due_replays(platform: Platform, now: int, most: int) -> Sequence[Row[Any]]:
    """Tenants and ids of replays whose state has lasted as long as it may."""
    return await platform.all(
        select(REPLAYS.c.tenant, REPLAYS.c.replay_id)
        .where(text(OPEN), REPLAYS.c.due_at <= now)
        .order_by(REPLAYS.c.due_at)
        .limit(most)
    )


async def open_replays(scope: Scope, agent_id: str) -> Sequence[Row[Any]]:
    """The replays of one agent that have not ended."""
    return await scope.all(
        scope.select(REPLAYS).where(text(OPEN), REPLAYS.c.agent_id == agent_id).limit(_AT_ONCE)
    )


async def stranded_replays(platform: Platform, heard: int, most: int) -> Sequence[Row[Any]]:
    """Return tenants and ids of replays whose agents were lost: they signed off, or were not heard
    after ``heard``."""
    silent = or_(AGENTS.c.gone_at > 0, AGENTS.c.last_seen_at <= heard)
    same = and_(AGENTS.c.tenant == REPLAYS.c.tenant, AGENTS.c.agent_id == REPLAYS.c.agent_id)
    return await platform.all(
        select(REPLAYS.c.tenant, REPLAYS.c.replay_id)
        .join(AGENTS, same)
        .where(text(OPEN), REPLAYS.c.state == "requested", silent)
        .limit(most)
    )


async def find_request(scope: Scope, principal: str, key: str) -> Row[Any] | None:
    """Return the earlier request under this idempotency key."""
    return await scope.one(
        scope.select(IDEMPOTENCY).where(
            IDEMPOTENCY.c.principal == principal, IDEMPOTENCY.c.key == key
        )
    )


async def remember_request(
    scope: Scope, principal: str, key: str, digest: str, replay_id: str, at: int
) -> None:
    """Keys are remembered for a day."""
    await scope.run(scope.delete(IDEMPOTENCY).where(IDEMPOTENCY.c.at < at - _DAY))
    row = {"principal": principal, "key": key, "digest": digest, "replay_id": replay_id, "at": at}
    await scope.add(IDEMPOTENCY, row)


_EQUAL: Final = {
    "exchange": "source_exchange_id",
    "app": "app",
    "environment": "environment",
    "route": "route_id",
    "state": "state",
    "verdict": "verdict",
    "by": "requested_by",
}


def _filtered(chosen: Select[Any], filters: ReplayFilters) -> Select[Any]:
    columns = REPLAYS.c
    for name, column in _EQUAL.items():
        value = getattr(filters, name)
        if value:
            chosen = chosen.where(columns[column] == value)
    if filters.verdict:
        chosen = chosen.where(text(COMPARED))
    if filters.since:
        chosen = chosen.where(columns.requested_at >= filters.since)
    if filters.until:
        chosen = chosen.where(columns.requested_at < filters.until)
    return chosen


async def add_command(scope: Scope, values: dict[str, Any]) -> None:
    """Put one in; it was not sent, and is not done."""
    await scope.add(COMMANDS, {"sent_at": 0, "done_at": 0, **values})


async def pending_commands(
    scope: Scope, agent_id: str, after: int, now: int, most: int
) -> Sequence[Row[Any]]:
    """Return the unacknowledged commands of an agent after ``after``, in order."""
    return await scope.all(
        scope.select(COMMANDS)
        .where(
            COMMANDS.c.agent_id == agent_id,
            COMMANDS.c.number > after,
            COMMANDS.c.done_at == 0,
            COMMANDS.c.expires_at > now,
        )
        .order_by(COMMANDS.c.number)
        .limit(most)
    )


async def mark_sent(scope: Scope, agent_id: str, number: int, now: int) -> None:
    """It leaves ``now``, in milliseconds; the first time is the one that stays."""
    await scope.run(
        scope.update(COMMANDS)
        .where(
            COMMANDS.c.agent_id == agent_id, COMMANDS.c.number == number, COMMANDS.c.sent_at == 0
        )
        .values(sent_at=now)
    )


async def with_unsent(scope: Scope, now: int) -> set[str]:
    """Agents for which there is something that was never sent."""
    rows = await scope.all(
        scope.select(COMMANDS, COMMANDS.c.agent_id)
        .where(text(UNSENT), COMMANDS.c.expires_at > now)
        .distinct()
    )
    return {row.agent_id for row in rows}


async def was_sent(scope: Scope, replay_id: str) -> bool:
    """Has the command of this replay ever left?"""
    sent = _of(scope, replay_id, "replay").where(COMMANDS.c.sent_at > 0)
    return bool(await scope.all(sent))


async def has_cancel(scope: Scope, replay_id: str) -> bool:
    """Return whether a cancel command exists for this replay."""
    return bool(await scope.all(_of(scope, replay_id, "cancel")))


def _of(scope: Scope, replay_id: str, kind: str) -> Select[Any]:
    return scope.select(COMMANDS, COMMANDS.c.number).where(
        COMMANDS.c.replay_id == replay_id, COMMANDS.c.type == kind
    )


async def end_command(scope: Scope, agent_id: str, number: int, now: int) -> None:
    """Withdraw a command."""
    await scope.run(
        scope.update(COMMANDS)
        .where(COMMANDS.c.agent_id == agent_id, COMMANDS.c.number == number)
        .values(done_at=now, document=b"")
    )


async def end_commands(scope: Scope, replay_id: str, now: int, *, only: str = "") -> None:
    """Withdraw all commands of a replay, or the ones of one type."""
    chosen = scope.update(COMMANDS).where(
        COMMANDS.c.replay_id == replay_id, COMMANDS.c.done_at == 0
    )
    if only:
        chosen = chosen.where(COMMANDS.c.type == only)
    await scope.run(chosen.values(done_at=now, document=b""))
