"""The proof of a replay: its two records, and the values behind their digests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Row
from starlette.responses import Response

from reenact.audit.record import Record, read_record
from reenact.audit.replay_proof import SUFFIX, Opening, ReplayProof, dump_replay_proof
from reenact.server.auth.permissions import ResourceScope
from reenact.server.context import RequestContext
from reenact.server.problems import Problem
from reenact.server.storage.database import Scope
from reenact.server.storage.replays import find_replay

__all__ = ["prove_replay"]


async def prove_replay(ask: RequestContext) -> Response:
    """What can be verified offline. Values are in it for those who may read the exchange, too."""
    async with ask.server.database.reading(ask.tenant) as scope:
        row = await find_replay(scope, ask.path("id"))
        if row is None:
            raise Problem("not_found", "there is no such replay")
        ask.require("audit:read", ResourceScope(row.environment, row.app))
        proof = await _proof(ask, scope, row)
    name = f"{row.replay_id}{SUFFIX}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(dump_replay_proof(proof), 200, headers, "application/json")


async def _proof(ask: RequestContext, scope: Scope, row: Row[Any]) -> ReplayProof:
    auditor = ask.server.auditor
    requested = await auditor.prove(scope, row.audit_seq)
    finished = await auditor.prove(scope, row.result_seq) if row.result_seq else None
    records = [read_record(one.leaf) for one in (requested, finished) if one is not None]
    readable = ask.may("exchange:read", ResourceScope(row.environment, row.app)).allowed
    return ReplayProof(
        replay_id=row.replay_id,
        key=auditor.key(scope.tenant).to_text(),
        requested=requested.to_text(),
        finished=finished.to_text() if finished is not None else "",
        values=await _openings(ask, scope, records) if readable else (),
    )


async def _openings(
    ask: RequestContext, scope: Scope, records: list[Record]
) -> tuple[Opening, ...]:
    found: list[Opening] = []
    for digest in dict.fromkeys(one for record in records for one in _digests(record)):
        kept = await ask.server.auditor.recall(scope, digest)
        if kept is not None:
            found.append(Opening(digest, kept.salt, kept.value))
    return tuple(found)


def _digests(record: Record) -> Iterator[str]:
    digests = [record.payload_digest_before, record.payload_digest_after, record.result_digest]
    for change in record.patch:
        digests += (change.before, change.after)
    yield from filter(None, digests)
