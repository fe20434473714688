"""Queries of retention: what is too old is found and erased.

The append-only tables of the audit log are not touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Row, exists, or_, select, text

from reenact.server.storage.database import Platform, Scope
from reenact.server.storage.tables import (
    AUDIT_VALUES,
    BATCH_ITEMS,
    CAPTURES,
    ERASED,
    EXCHANGES,
    REPLAYS,
    RETENTION,
    WITH_RECORDING,
)

__all__ = [
    "Days",
    "erase_captures",
    "erase_edits",
    "erase_exchanges",
    "erase_values",
    "is_erased",
    "note_erased",
    "old_captures",
    "old_exchanges",
    "old_recordings",
    "read_days",
    "set_days",
    "still_named",
    "tenants_with_days",
]

_OPEN = ("requested", "delivered", "running")


class Days(msgspec.Struct, frozen=True):
    """Retention periods in days; 0 means unlimited."""

    exchanges: int = 0
    recordings: int = 0
    captures: int = 0


async def read_days(scope: Scope) -> Row[Any] | None:
    """Return the retention periods, or None without configuration."""
    return await scope.one(scope.select(RETENTION))


async def set_days(scope: Scope, days: Days, now: int, by: str) -> None:
    """Store the retention periods."""
    await scope.run(scope.delete(RETENTION))
    values = {**msgspec.structs.asdict(days), "changed_at": now, "changed_by": by}
    await scope.add(RETENTION, values)


async def tenants_with_days(platform: Platform) -> Sequence[Row[Any]]:
    """Return the configured retention periods by tenant."""
    return await platform.all(select(RETENTION).order_by(RETENTION.c.tenant))


async def old_exchanges(scope: Scope, before: int, most: int) -> Sequence[Row[Any]]:
    """Return ``exchange_id`` and ``recording_digest`` of exchanges older than ``before`` that no
    unfinished replay needs."""
    needed = exists().where(
        REPLAYS.c.tenant == EXCHANGES.c.tenant,
        REPLAYS.c.source_exchange_id == EXCHANGES.c.exchange_id,
        REPLAYS.c.state.in_(_OPEN),
    )
    columns = (EXCHANGES.c.exchange_id, EXCHANGES.c.recording_digest)
    return await scope.all(
        scope.select(EXCHANGES, *columns)
        .where(EXCHANGES.c.started_at < before, EXCHANGES.c.received_at < before, ~needed)
        .order_by(EXCHANGES.c.started_at)
        .limit(most)
    )


async def erase_exchanges(scope: Scope, ids: Sequence[str]) -> None:
    """Delete the rows of exchanges. Their audit records stay."""
    await scope.run(scope.delete(EXCHANGES).where(EXCHANGES.c.exchange_id.in_(ids)))


async def old_recordings(scope: Scope, before: int, most: int) -> list[str]:
    """Digests of recordings of exchanges from before ``before`` that are still there."""
    erased = exists().where(
        ERASED.c.tenant == EXCHANGES.c.tenant, ERASED.c.digest == EXCHANGES.c.recording_digest
    )
    needed = exists().where(
        REPLAYS.c.tenant == EXCHANGES.c.tenant,
        REPLAYS.c.source_exchange_id == EXCHANGES.c.exchange_id,
        REPLAYS.c.state.in_(_OPEN),
    )
    rows = await scope.all(
        scope.select(EXCHANGES, EXCHANGES.c.recording_digest)
        .where(
            EXCHANGES.c.started_at < before,
            EXCHANGES.c.received_at < before,
            EXCHANGES.c.recording_digest != "",
            ~erased,
            ~needed,
        )
        .distinct()
        .limit(most)
    )
    return [row.recording_digest for row in rows]


async def still_named(scope: Scope, digests: Sequence[str], since: int) -> set[str]:
    """Return the ``digests`` that an exchange since ``since`` or a capture also uses."""
    newer = scope.select(EXCHANGES, EXCHANGES.c.recording_digest).where(
        text(WITH_RECORDING),
        EXCHANGES.c.recording_digest.in_(digests),
        (EXCHANGES.c.started_at >= since) | (EXCHANGES.c.received_at >= since),
    )
    pushed = scope.select(CAPTURES, CAPTURES.c.digest).where(CAPTURES.c.digest.in_(digests))
    return {row[0] for query in (newer, pushed) for row in await scope.all(query)}


async def is_erased(scope: Scope, digest: str) -> bool:
    """Was this recording erased while its exchange is kept?"""
    return await scope.one(scope.select(ERASED).where(ERASED.c.digest == digest)) is not None


async def note_erased(scope: Scope, digests: Sequence[str], now: int) -> None:
    """Record that these recordings were erased although their exchanges exist."""
    await scope.add(ERASED, *({"digest": digest, "at": now} for digest in digests))


async def old_captures(scope: Scope, before: int, most: int) -> Sequence[Row[Any]]:
    """``capture_id`` and ``digest``, and whether an exchange has the same recording."""
    shared = exists().where(
        text(WITH_RECORDING),
        EXCHANGES.c.tenant == CAPTURES.c.tenant,
        EXCHANGES.c.recording_digest == CAPTURES.c.digest,
    )
    columns = (CAPTURES.c.capture_id, CAPTURES.c.digest, shared.label("shared"))
    return await scope.all(
        scope.select(CAPTURES, *columns)
        .where(CAPTURES.c.created_at < before)
        .order_by(CAPTURES.c.created_at)
        .limit(most)
    )


async def erase_captures(scope: Scope, ids: Sequence[str]) -> None:
    """Their rows; not their blobs."""
    await scope.run(scope.delete(CAPTURES).where(CAPTURES.c.capture_id.in_(ids)))


async def erase_values(scope: Scope, before: int) -> int:
    """Erase the values behind salted digests of the audit log, and return their number."""
    gone = await scope.run(scope.delete(AUDIT_VALUES).where(AUDIT_VALUES.c.at < before))
    return int(gone.rowcount)


async def erase_edits(scope: Scope, before: int, nothing: bytes) -> int:
    """Replace the edits of ended replays by ``nothing``, erase their causes, and return the number
    of changed replays."""
    gone = await scope.run(
        scope.update(REPLAYS)
        .where(
            REPLAYS.c.requested_at < before,
            REPLAYS.c.state.notin_(_OPEN),
            or_(REPLAYS.c.patch != nothing, REPLAYS.c.cause != ""),
        )
        .values(patch=nothing, cause="")
    )
    await scope.run(
        scope.update(BATCH_ITEMS)
        .where(BATCH_ITEMS.c.asked_at < before, BATCH_ITEMS.c.cause != "")
        .values(cause="")
    )
    return int(gone.rowcount)
