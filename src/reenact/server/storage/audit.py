"""Queries of the audit log.

Three tables per log are append-only: the records as the bytes that were hashed, the complete nodes of the
tree, and the signed heads. ``schema`` enforces that. The columns next to ``line`` are copies for queries.
A fourth table has the values behind the digests of records, and can be erased.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Table, and_, or_

from reenact.audit.log import Appended, Log
from reenact.audit.merkle import Frontier
from reenact.server.storage.database import Scope
from reenact.server.storage.tables import AUDIT_HEADS, AUDIT_NODES, AUDIT_RECORDS, AUDIT_VALUES

__all__ = [
    "RecordFilter",
    "add_record",
    "add_value",
    "find_records",
    "head_page",
    "leaf_page",
    "line_page",
    "read_end",
    "read_head",
    "read_line",
    "read_nodes",
    "read_signed_end",
    "read_value",
]

_PAGE: Final = 1000


class RecordFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of audit records; empty and 0 match all. ``until`` and ``before`` are exclusive."""

    actor: str = ""
    action: str = ""
    environment: str = ""
    exchange_id: str = ""
    replay_id: str = ""
    outcome: str = ""
    since: int = 0
    until: int = 0
    before: int | None = None
    """Upper bound of the sequence number, for the next page."""
    actors: tuple[str, ...] = ()
    """Ids of whom any will do."""


async def read_end(scope: Scope, origin: str) -> Log:
    """The log as it is now; an empty one when there is none."""
    return (await read_signed_end(scope, origin))[0]


async def read_signed_end(scope: Scope, origin: str) -> tuple[Log, str]:
    """Return the end of the log with the note of its head, which is empty without one."""
    newest = scope.select(AUDIT_HEADS).order_by(AUDIT_HEADS.c.size.desc()).limit(1)
    row = await scope.one(newest)
    if row is None:
        return Log(origin), ""
    frontier = Frontier.from_bytes(row.size, row.frontier)
    return Log(origin, frontier, row.last_at, row.size), str(row.note)


async def add_record(scope: Scope, added: Appended, log: Log, note: str) -> None:
    """Add a record with its nodes, and the head of ``log``, which ends with it."""
    record = added.record
    row = {
        "seq": record.seq,
        "at": record.at,
        "action": record.action,
        "actor": record.actor.id,
        "environment": record.env,
        "exchange_id": record.source.exchange_id if record.source else "",
        "replay_id": record.replay_id,
        "outcome": record.outcome,
        "line": added.line,
    }
    nodes = [
        {"level": node.level, "position": node.index, "hash": node.hash} for node in added.nodes
    ]
    head = {
        "size": log.size,
        "last_at": log.last_at,
        "frontier": log.frontier.to_bytes(),
        "note": note,
    }
    await scope.add(AUDIT_RECORDS, row)
    await scope.add(AUDIT_NODES, *nodes)
    await scope.add(AUDIT_HEADS, head)


async def find_records(scope: Scope, wanted: RecordFilter, limit: int) -> list[tuple[int, bytes]]:
    """``(seq, line)`` of at most ``limit`` records, the newest first."""
    table = AUDIT_RECORDS
    query = scope.select(table, table.c.seq, table.c.line)
    for name in ("actor", "action", "environment", "exchange_id", "replay_id", "outcome"):
        if value := getattr(wanted, name):
            query = query.where(table.c[name] == value)
    if wanted.actors:
        query = query.where(table.c.actor.in_(wanted.actors))
    if wanted.since:
        query = query.where(table.c.at >= wanted.since)
    if wanted.until:
        query = query.where(table.c.at < wanted.until)
    if wanted.before is not None:
        query = query.where(table.c.seq < wanted.before)
    rows = await scope.all(query.order_by(table.c.seq.desc()).limit(limit))
    return [(row.seq, row.line) for row in rows]


async def read_line(scope: Scope, seq: int) -> bytes | None:
    """The bytes of a record, or None."""
    table = AUDIT_RECORDS
    row = await scope.one(scope.select(table, table.c.line).where(table.c.seq == seq))
    return None if row is None else bytes(row.line)


async def line_page(scope: Scope, after: int) -> list[tuple[int, bytes]]:
    """``(seq, line)`` of some of the records after ``after``, as they are stored; none at the end."""
    return await _page(scope, AUDIT_RECORDS, "seq", "line", after)


async def head_page(scope: Scope, after: int) -> list[tuple[int, str]]:
    """Return a page of heads as ``(size, note)``."""
    return await _page(scope, AUDIT_HEADS, "size", "note", after)


async def leaf_page(scope: Scope, after: int) -> list[tuple[int, bytes]]:
    """Return a page of record hashes as ``(seq, hash)``."""
    table = AUDIT_NODES
    query = scope.select(table, table.c.position, table.c.hash)
    query = query.where(table.c.level == 0, table.c.position > after)
    rows = await scope.all(query.order_by(table.c.position).limit(_PAGE))
    return [(row.position, bytes(row.hash)) for row in rows]


async def _page(scope: Scope, table: Table, key: str, name: str, after: int) -> list[Any]:
    column = table.c[key]
    query = scope.select(table, column, table.c[name]).where(column > after)
    return [tuple(row) for row in await scope.all(query.order_by(column).limit(_PAGE))]


async def read_head(scope: Scope, size: int | None = None) -> str | None:
    """The note of the newest head, or of the one of ``size``; None when there is none."""
    table = AUDIT_HEADS
    query = scope.select(table, table.c.note).order_by(table.c.size.desc()).limit(1)
    if size is not None:
        query = query.where(table.c.size == size)
    row = await scope.one(query)
    return None if row is None else str(row.note)


async def read_nodes(
    scope: Scope, wanted: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], bytes]:
    """Return the hashes of nodes by level and position, without missing ones."""
    table = AUDIT_NODES
    places: Sequence[Any] = [
        and_(table.c.level == level, table.c.position == position) for level, position in wanted
    ]
    if not places:
        return {}
    rows = await scope.all(scope.select(table).where(or_(*places)))
    return {(row.level, row.position): row.hash for row in rows}


async def add_value(scope: Scope, digest: str, salt: bytes, value: bytes, at: int) -> None:
    """Keep what a salted digest was made of."""
    await scope.add(AUDIT_VALUES, {"digest": digest, "salt": salt, "value": value, "at": at})


async def read_value(scope: Scope, digest: str) -> tuple[bytes, bytes] | None:
    """Salt and value of a salted digest; None when they were erased."""
    row = await scope.one(scope.select(AUDIT_VALUES).where(AUDIT_VALUES.c.digest == digest))
    return None if row is None else (bytes(row.salt), bytes(row.value))
