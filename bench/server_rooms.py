"""Rows of the other lists of a server: agents, replays, recordings, batches, people, the audit log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.server_exchanges import APPS, ENVIRONMENTS, START, STEP
from bench.server_people import PEOPLE, replay
from bench.server_process import NAME, TENANT
from reenact.audit.keys import Signer
from reenact.audit.log import Log, origin_of
from reenact.audit.record import Actor, Record, Source
from reenact.exchange.model import Route
from reenact.server.auth.permissions import ResourceScope
from reenact.server.batches.schema import MOST_ITEMS, BatchRequest, KeptPlan, Sizing
from reenact.server.process.startup import read_seed
from reenact.server.storage.rows import pack

__all__ = ["LARGEST", "TABLES", "Rows", "audit_log", "record_of", "rooms"]

Rows = tuple[str, tuple[str, ...], list[tuple[Any, ...]]]
"""A table, its columns, and rows of it."""

TABLES: Final = (
    *("agents", "replays", "captures", "batches", "batch_items", *PEOPLE),
    *("audit_records", "audit_nodes", "audit_heads"),
)
_BATCHES, _ITEMS = 200, 100
LARGEST: Final = 0
"""The number of the batch that has as many exchanges as one may have."""


def rooms(data: Path, exchanges: int) -> Iterator[Rows]:
    """As many as go with so many ``exchanges``. ``data`` has the key of the audit log."""
    yield _rows("agents", map(_agent, range(200)))
    yield _rows("replays", map(replay, range(exchanges // 10)))
    yield _rows("captures", map(_capture, range(exchanges // 50)))
    yield _rows("batches", map(_batch, range(_BATCHES)))
    yield _rows("batch_items", (_item(n, k) for n in range(_BATCHES) for k in range(_items(n))))
    for table, make in PEOPLE.items():
        yield _rows(table, map(make, range(200)))
    yield from audit_log(data, exchanges // 50)


def _rows(table: str, rows: Any) -> Rows:
    made = [{"tenant": TENANT, **row} for row in rows]
    return table, tuple(made[0]), [tuple(row.values()) for row in made]


def _place(number: int) -> dict[str, Any]:
    return {"app": APPS[number % 5], "environment": ENVIRONMENTS[number % 2]}


def _agent(number: int) -> dict[str, Any]:
    routes = [Route(route_id=f"GET /items/{n}", revision="r1") for n in range(20)]
    return {
        **_place(number),
        "agent_id": f"agent-{number}",
        "key_id": "key_none",
        "name": f"host-{number}",
        "version": "1.0",
        "routes": msgspec.json.encode(routes),
        "capabilities": "replay cancel",
        "epoch": 1,
        "registered_at": START + number,
        "last_seen_at": 2 * START,  # so that it counts as here whenever one looks
        "gone_at": 0,
        "spooled": 0,
        "dropped": 0,
        "running": "[]",
        "last_command": 0,
        "stream": 0,
    }


def _capture(number: int) -> dict[str, Any]:
    return {
        "capture_id": f"cap_{number:026}",
        "digest": f"sha256:{number:064x}",
        "size": 40_000,
        "events": 120,
        "content_hash": f"sha256:{number:064x}",
        "name": f"nightly run {number}",
        "created_at": START + number * STEP,
        "created_by": "ada@example.com",
    }


def _batch(number: int) -> dict[str, Any]:
    items = _items(number)
    sizing = Sizing(
        exchanges=items,
        replayable=items,
        not_found=0,
        skipped={},
        refused={},
        live=0,
        without_recording=0,
        environments={"staging": items},
        apps={"shop": items},
        routes={"POST /orders": items},
        groups=(),
    )
    return {
        "batch_id": f"bat_{number:026}",
        "state": "completed",
        "wanted": pack(BatchRequest(saved="failed orders", reason="after the fix")),
        "plan": pack(KeptPlan(sizing, (ResourceScope("staging", "shop"),))),
        "concurrency": 4,
        "per_minute": 60,
        "actor": "",
        "actor_name": "ada@example.com",
        "requested_by": "ada@example.com",
        "requested_id": "usr_ada",
        "created_at": START + number,
        "confirmed_at": START + number,
        "ended_at": START + number + 1000,
        "hindered": "",
    }


def _items(batch: int) -> int:
    return MOST_ITEMS if batch == LARGEST else _ITEMS


def _item(batch: int, position: int) -> dict[str, Any]:
    return {
        **_place(0),
        "batch_id": f"bat_{batch:026}",
        "exchange_id": f"ex_{batch}_{position}",
        "position": position + 1,
        "route_id": "POST /orders",
        "state": "ended",
        "replay_id": f"rpl_{batch}_{position}",
        "agent_id": "agent-0",
        "asked_at": START + batch,
        "outcome": "completed",
        "code": "",
        "message": "",
        "verdict": ("identical", "fixed", "diverged")[position % 3],
        "cause": ("", "it completed, and failed before", "the result: /body/total differs")[
            position % 3
        ],
    }


def audit_log(data: Path, count: int) -> Iterator[Rows]:
    """A log that verifies, with a signed head after every record."""
    log = Log(origin_of(NAME, TENANT))
    signer = Signer(f"{NAME}/audit", read_seed(data / "keys" / "audit")).named(log.origin)
    records, nodes, heads = [], [], []
    for number in range(count):
        added = log.append(record_of(number), START + number)
        log, head = added.log.sign([signer])
        records.append(_columns(added.record, added.line))
        nodes += [
            {"level": node.level, "position": node.index, "hash": node.hash} for node in added.nodes
        ]
        heads.append(
            {
                "size": log.size,
                "last_at": log.last_at,
                "frontier": log.frontier.to_bytes(),
                "note": head.to_text(),
            }
        )
    tables: Sequence[tuple[str, Any]] = (
        ("audit_records", records),
        ("audit_nodes", nodes),
        ("audit_heads", heads),
    )
    for table, rows in tables:
        yield _rows(table, rows)


def record_of(number: int) -> Record:
    """The first one opens the log, the others ask for replays."""
    if not number:
        return Record(tenant=TENANT, actor=Actor("system", "server"), action="log.opened")
    return Record(
        tenant=TENANT,
        actor=Actor("user", f"usr_{number % 7}", "session", "ses_0123456789abcdef", "127.0.0.1"),
        action="replay.requested",
        env=ENVIRONMENTS[number % 2],
        permission="replay:execute",
        source=Source(f"ex_{number}", f"sha256:{number:064x}", "POST /orders", "r1"),
        replay_id=f"rpl_{number:026}",
        boundaries="recorded",
        payload_digest_before=f"sha256:{number:064x}",
        payload_digest_after=f"sha256:{number:064x}",
        tier="business",
        reason="after the fix",
        outcome="ok",
    )


def _columns(record: Record, line: bytes) -> dict[str, Any]:
    return {
        "seq": record.seq,
        "at": record.at,
        "action": record.action,
        "actor": record.actor.id,
        "environment": record.env,
        "exchange_id": record.source.exchange_id if record.source else "",
        "replay_id": record.replay_id,
        "outcome": record.outcome,
        "line": line,
    }
