"""Export of exchanges as traces: OTLP/HTTP, gzipped protobuf, at least once.

Pending exports are written in the transaction that stores the exchange, and deleted when the
receiver has confirmed them. Exports that fail for a day are dropped, and the log has their number.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Row
from sqlalchemy.exc import SQLAlchemyError

from reenact.exchange.model import Exchange
from reenact.interop.otel import Group, Link
from reenact.interop.otel_protobuf import write_protobuf
from reenact.server.outgoing_http import Response, Unreachable, send_request
from reenact.server.problems import Problem
from reenact.server.runtime import Server
from reenact.server.storage import platform, telemetry
from reenact.server.storage.database import Scope
from reenact.server.storage.exchanges import find_exchange
from reenact.server.storage.replays import find_replay
from reenact.server.storage.rows import exchange_of
from reenact.server.telemetry.exchanges_to_spans import Surroundings, out_calls, root_link, to_group
from reenact.server.telemetry.targets import ExportTarget, target_of

__all__ = ["export", "run"]

_LOG: Final = logging.getLogger("reenact.server")
_AT_ONCE: Final = 100
_HOLD: Final = 120_000
"""Milliseconds for sending a batch, after which a different server can try."""
_WAIT: Final = 30_000
_KEPT: Final = 24 * 3600 * 1000
_AGAIN: Final = frozenset({408, 429, 502, 503, 504})
_LONGEST_WAIT: Final = 300


class _Outcome(msgspec.Struct, frozen=True):
    """Milliseconds to wait before the same is sent again; None when it is done with."""

    wait: int | None
    why: str = ""


async def run(server: Server, stop: asyncio.Event) -> None:
    """Export until ``stop`` is set. Without a target there is nothing to do."""
    while server.exports and not stop.is_set():
        try:
            busy = await export(server) >= _AT_ONCE
        except (SQLAlchemyError, Problem):
            _LOG.exception("exchanges could not be sent as traces")
            busy = False
        if busy:
            continue
        try:
            await asyncio.wait_for(stop.wait(), server.timings.sweep)
        except TimeoutError:
            continue


async def export(server: Server) -> int:
    """Send what is there, a batch of each tenant; gives the size of the largest one."""
    async with server.database.platform() as transaction:
        tenants = await platform.tenants(transaction)
    sizes = [0]
    for tenant in tenants:
        target = target_of(server.exports, tenant.id, tenant.name)
        if target is not None:
            sizes.append(await _export_tenant(server, tenant.id, target))
    return max(sizes)


async def _export_tenant(server: Server, tenant: str, target: ExportTarget) -> int:
    now = server.now()
    async with server.database.writing(tenant) as scope:
        lost = await telemetry.forget_old_exports(scope, now - _KEPT)
        ids = await telemetry.hold_exports(scope, now, now + _HOLD, _AT_ONCE)
    if lost:
        _LOG.warning("%s: %d exchanges could not be sent as traces for a day", tenant, lost)
    if not ids:
        return 0
    groups = [group async for group in _groups(server, tenant, ids)]
    outcome = await asyncio.to_thread(_send, target, groups)
    if outcome.why:
        _LOG.warning("%s: %d exchanges as traces: %s", tenant, len(ids), outcome.why)
    async with server.database.writing(tenant) as scope:
        if outcome.wait is None:
            await telemetry.forget_exports(scope, ids)
        else:
            await telemetry.release_exports(scope, ids, server.now() + outcome.wait)
    return len(ids) if outcome.wait is None else 0


async def _groups(server: Server, tenant: str, ids: Sequence[str]) -> AsyncIterator[Group]:
    for exchange_id in ids:
        async with server.database.reading(tenant) as scope:
            row = await find_exchange(scope, exchange_id)
            if row is None:
                continue  # gone meanwhile
            exchange = exchange_of(row)
            around = await _around(server, scope, row, exchange)
        yield to_group(exchange, around, await out_calls(server, tenant, exchange))


async def _around(server: Server, scope: Scope, row: Row[Any], exchange: Exchange) -> Surroundings:
    actor, source = "", None
    if exchange.replay is not None:
        replay = await find_replay(scope, exchange.replay.replay_id)
        actor = "" if replay is None else str(replay.requested_by)
        source = await _source(scope, exchange.replay.source_exchange_id)
    return Surroundings(
        deployment=server.deployment,
        tenant=scope.tenant,
        app=row.app,
        environment=row.environment,
        actor=actor,
        source=source,
    )


async def _source(scope: Scope, exchange_id: str) -> Link | None:
    row = await find_exchange(scope, exchange_id)
    return None if row is None else root_link(exchange_of(row))


def _send(target: ExportTarget, groups: Sequence[Group]) -> _Outcome:
    headers = {
        "Content-Type": "application/x-protobuf",
        "Content-Encoding": "gzip",
        **dict(target.headers),
    }
    body = gzip.compress(write_protobuf(groups), 1)
    try:
        answer = send_request("POST", target.url, headers=headers, body=body, seconds=30.0)
    except Unreachable as error:
        return _Outcome(_WAIT, f"not sent: {error}")
    return _judged(answer)


def _judged(answer: Response) -> _Outcome:
    """By the rules of OTLP: some refusals are for now, the others for good."""
    if 200 <= answer.status < 300:
        return _Outcome(None)
    why = f"{answer.status}"
    if answer.status not in _AGAIN:
        return _Outcome(None, f"refused for good with {why}")
    after = answer.headers.get("retry-after", "")
    seconds = min(int(after), _LONGEST_WAIT) if after.isdigit() and len(after) < 6 else 0
    return _Outcome(seconds * 1000 or _WAIT, f"refused for now with {why}")
