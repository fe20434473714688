"""The proof of a replay: its two records, and the values behind their digests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Row

from reenact.audit.record import Record, read_record
from reenact.audit.replay_proof import Opening, ReplayProof
from reenact.server.auth.permissions import ResourceScope
from reenact.server.context import Caller
from reenact.server.problems import Problem
from reenact.server.storage.database import Scope
from reenact.server.storage.replays import find_replay

__all__ = ["prove_replay"]


async def prove_replay(caller: Caller, replay_id: str) -> ReplayProof:
    """Return a proof that can be verified offline. Raises :class:`Problem`.

    It contains values only for a caller who can also read the exchange.
    """
    async with caller.server.database.reading(caller.tenant) as scope:
        row = await find_replay(scope, replay_id)
        if row is None:
            raise Problem("not_found", "there is no such replay")
        caller.require("audit:read", ResourceScope(row.environment, row.app))
        return await _proof(caller, scope, row)


async def _proof(caller: Caller, scope: Scope, row: Row[Any]) -> ReplayProof:
    auditor = caller.server.auditor
    requested = await auditor.prove(scope, row.audit_seq)
    finished = await auditor.prove(scope, row.result_seq) if row.result_seq else None
    records = [read_record(one.leaf) for one in (requested, finished) if one is not None]
    readable = caller.may("exchange:read", ResourceScope(row.environment, row.app)).allowed
    return ReplayProof(
        replay_id=row.replay_id,
        key=auditor.key(scope.tenant).to_text(),
        requested=requested.to_text(),
        finished=finished.to_text() if finished is not None else "",
        values=await _openings(caller, scope, records) if readable else (),
    )


async def _openings(caller: Caller, scope: Scope, records: list[Record]) -> tuple[Opening, ...]:
    found: list[Opening] = []
    for digest in dict.fromkeys(one for record in records for one in _digests(record)):
        kept = await caller.server.auditor.recall(scope, digest)
        if kept is not None:
            found.append(Opening(digest, kept.salt, kept.value))
    return tuple(found)


def _digests(record: Record) -> Iterator[str]:
    digests = [record.payload_digest_before, record.payload_digest_after, record.result_digest]
    for change in record.patch:
        digests += (change.before, change.after)
    yield from filter(None, digests)
