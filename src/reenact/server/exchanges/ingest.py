"""``POST /ingest``: exchanges of app agents, stored in one transaction per request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
from sqlalchemy import Row

from reenact.audit.record import Actor
from reenact.exchange.comparison.result import http_status_of
from reenact.exchange.model import Exchange, ReplayOf
from reenact.server.audit.log import actor_of
from reenact.server.context import RequestContext
from reenact.server.exchanges.ingest_parser import (
    Batch,
    Taken,
    Turned,
    read_batch,
    with_clean_recordings,
)
from reenact.server.notifications import replay_subject
from reenact.server.problems import Problem
from reenact.server.replays.result import (
    START_MISMATCH,
    ReplayVerdict,
    complete,
    judge,
    refuse_start,
)
from reenact.server.runtime import Principal, Server
from reenact.server.storage.agents import find_agent
from reenact.server.storage.database import Scope
from reenact.server.storage.exchanges import add_exchanges, digests_of
from reenact.server.storage.replays import find_replay
from reenact.server.storage.telemetry import queue_exports
from reenact.server.telemetry.targets import target_of

__all__ = [
    "IngestAnswer",
    "IngestResult",
    "columns_of",
    "ingest",
    "store",
]


class IngestAnswer(msgspec.Struct, frozen=True):
    """One result per exchange, in order."""

    results: tuple[IngestResult, ...]


async def ingest(context: RequestContext) -> IngestAnswer:
    """All of a request is read before anything of it is kept."""
    headers = context.request.headers
    content = headers.get("content-type", "").partition(";")[0].strip().lower()
    if content != "application/x-ndjson":
        raise Problem("unsupported", "the body has to be application/x-ndjson")
    coding = headers.get("content-encoding", "").strip().lower()
    async with context.taken(context.server.limits.batch) as data:
        limits = context.server.limits
        batch = await asyncio.to_thread(read_batch, data, coding, limits)
        if batch.blobs:
            batch = await asyncio.to_thread(with_clean_recordings, batch, limits)
        results = await store(context.server, context.principal, batch)
    for status, number in Counter(one.status for one in results).items():
        context.server.meters.add("reenact_exchanges_ingested_total", number, status=status)
    return IngestAnswer(results)


_UNKNOWN: Final = "no such replay of this agent is under way"


class IngestResult(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Result for one exchange."""

    exchange_id: str
    status: Literal["stored", "duplicate", "refused"]
    code: str = ""
    message: str = ""


async def store(server: Server, principal: Principal, batch: Batch) -> tuple[IngestResult, ...]:
    """Keep what can be kept. The blobs are on the disk before any exchange that names them."""
    tenant = principal.tenant.id
    for data in batch.blobs.values():
        await server.blobs.put(tenant, data)
    items = [await _with_recording(server, tenant, item, batch) for item in batch.exchanges]
    judged = [await _judged(server, tenant, item) for item in items]
    async with server.database.writing(tenant) as scope:
        keeping = _Keeping(server, scope, principal)
        results = await keeping.all(items, judged)
    for replay_id in keeping.completed:
        server.notifications.publish(replay_subject(tenant, replay_id))
    return results


async def _with_recording(
    server: Server, tenant: str, item: Taken | Turned, batch: Batch
) -> Taken | Turned:
    """``item``, unless it names a recording that is not here."""
    if isinstance(item, Turned) or item.exchange.recording is None:
        return item
    recording = item.exchange.recording
    data = batch.blobs.get(recording.digest)
    try:
        data = data if data is not None else await server.blobs.get(tenant, recording.digest)
    except Problem:
        return Turned(item.exchange.exchange_id, "recording_missing", "its recording is not here")
    if len(data) != recording.size:
        return Turned(
            item.exchange.exchange_id, "exchange_invalid", "its recording's size is wrong"
        )
    return item


async def _judged(server: Server, tenant: str, item: Taken | Turned) -> ReplayVerdict | None:
    if isinstance(item, Turned) or item.exchange.replay is None:
        return None
    return await judge(server, tenant, item.exchange)


class _Keeping:
    """One transaction of an ingest request."""

    def __init__(self, server: Server, scope: Scope, principal: Principal) -> None:
        self._server = server
        self._scope = scope
        self._principal = principal
        self._actor: Actor = actor_of(principal)
        self._agents: dict[str, str] = {}
        self.completed: list[str] = []

    async def all(
        self, items: Sequence[Taken | Turned], judged: Sequence[ReplayVerdict | None]
    ) -> tuple[IngestResult, ...]:
        ids = [one.exchange.exchange_id for one in items if isinstance(one, Taken)]
        known = await digests_of(self._scope, ids)
        results: list[IngestResult] = []
        rows: list[dict[str, Any]] = []
        for item, verdict in zip(items, judged, strict=True):
            result = await self._one(item, verdict, known)
            if result.status == "stored" and isinstance(item, Taken):
                known[item.exchange.exchange_id] = item.digest
                rows.append(await self._row(item))
            results.append(result)
        await add_exchanges(self._scope, rows)
        tenant = self._principal.tenant
        if target_of(self._server.exports, tenant.id, tenant.name) is not None:
            stored = [str(row["exchange_id"]) for row in rows]
            await queue_exports(self._scope, stored, self._server.now())
        return tuple(results)

    async def _one(
        self, item: Taken | Turned, judged: ReplayVerdict | None, known: dict[str, str]
    ) -> IngestResult:
        if isinstance(item, Turned):
            return IngestResult(item.exchange_id, "refused", item.code, item.message)
        exchange_id = item.exchange.exchange_id
        before = known.get(exchange_id)
        if before == item.digest:
            return IngestResult(exchange_id, "duplicate")
        if before is not None:
            message = "another exchange is stored under this id"
            return IngestResult(exchange_id, "refused", "exchange_conflict", message)
        replay = item.exchange.replay
        if replay is not None and judged is not None and judged.other_start is not None:
            return await self._refused(item, replay, judged)
        if replay is not None and not await self._completes(item, replay, judged):
            message = f"no replay {replay.replay_id} of this agent is under way"
            return IngestResult(exchange_id, "refused", "replay_unknown", message)
        return IngestResult(exchange_id, "stored")

    async def _refused(self, item: Taken, said: ReplayOf, judged: ReplayVerdict) -> IngestResult:
        """Not stored: it is not what came of the command."""
        row = await self._replay_of(item, said)
        if row is None or not await refuse_start(
            self._server, self._scope, row, judged, self._actor
        ):
            return IngestResult(item.exchange.exchange_id, "refused", "replay_unknown", _UNKNOWN)
        self.completed.append(said.replay_id)
        return IngestResult(item.exchange.exchange_id, "refused", START_MISMATCH, judged.cause)

    async def _replay_of(self, item: Taken, said: ReplayOf) -> Row[Any] | None:
        """The replay that ``item`` is the exchange of, if this agent was to run it."""
        row = await find_replay(self._scope, said.replay_id)
        if (
            row is None
            or (row.source_exchange_id, row.depth) != (said.source_exchange_id, said.depth)
            or row.route_id != item.exchange.route_id
            or item.exchange.agent_id not in ("", row.agent_id)
            or await self._key_of(row.agent_id) != self._principal.credential
        ):
            return None
        return row

    async def _completes(self, item: Taken, said: ReplayOf, judged: ReplayVerdict | None) -> bool:
        row = await self._replay_of(item, said)
        if row is None or judged is None:
            return False
        done = await complete(self._server, self._scope, row, item, judged, self._actor)
        if done:
            self.completed.append(said.replay_id)
        return done

    async def _key_of(self, agent_id: str) -> str:
        row = await find_agent(self._scope, agent_id)
        return "" if row is None else str(row.key_id)

    async def _row(self, taken: Taken) -> dict[str, Any]:
        """Return the row of an exchange.

        Tenant, app, environment and agent come from the key, not from the content.
        """
        return {
            **columns_of(taken.exchange),
            "digest": taken.digest,
            "document": taken.document,
            "app": self._principal.app,
            "environment": self._principal.environment,
            "agent_id": await self._agent_of(taken.exchange),
            "received_at": self._server.now(),
        }

    async def _agent_of(self, exchange: Exchange) -> str:
        """The agent that it names, if that is one of this app and environment."""
        named = exchange.agent_id
        if named and named not in self._agents:
            row = await find_agent(self._scope, named)
            place = (self._principal.app, self._principal.environment)
            ours = row is not None and (row.app, row.environment) == place
            self._agents[named] = named if ours else ""
        return self._agents.get(named, "")


def columns_of(exchange: Exchange) -> dict[str, Any]:
    """Return the searchable columns of an exchange."""
    trace, replay = exchange.trace, exchange.replay
    error, recording = exchange.error, exchange.recording
    return {
        "exchange_id": exchange.exchange_id,
        "route_id": exchange.route_id,
        "revision": exchange.revision,
        "kind": exchange.kind,
        "status": exchange.status,
        "started_at": exchange.started_at,
        "duration": exchange.duration,
        "not_replayable": exchange.not_replayable,
        "replay_id": replay.replay_id if replay else "",
        "source_exchange_id": replay.source_exchange_id if replay else "",
        "depth": replay.depth if replay else 0,
        "trace_id": trace.trace_id if trace else "",
        "span_id": trace.span_id if trace else "",
        "parent_span_id": trace.parent_span_id if trace else "",
        "correlation_id": exchange.correlation_id,
        "error_type": error.type if error else "",
        "error_message": error.message if error else "",
        "http_status": http_status_of(exchange),
        "recording_digest": recording.digest if recording else "",
        "recording_size": recording.size if recording else 0,
    }
