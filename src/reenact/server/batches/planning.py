"""``POST /batches``: a plan. What it finds is what it will be, and nothing runs before somebody has
confirmed it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Row
from starlette.responses import Response

from reenact.server.access import Place
from reenact.server.answering import answer
from reenact.server.asking import Ask
from reenact.server.batches.finding import find
from reenact.server.batches.reading import show
from reenact.server.batches.shapes import BatchAsked, KeptPlan
from reenact.server.batches.sizing import sized, skips
from reenact.server.exchanges.cleaning import clean_text
from reenact.server.exchanges.documents import dense
from reenact.server.exchanges.rights import NO_RECORDING
from reenact.server.exchanges.wanting import check_variables
from reenact.server.problems import Problem
from reenact.server.storage.batch_items import add_items
from reenact.server.storage.batch_rows import add_batch, find_batch, forget_plans

__all__ = ["plan_batch"]

_DAY: Final = 86_400_000


async def plan_batch(ask: Ask) -> Response:
    """201 with the batch, ``planned``. Plans that nobody confirms within a day are forgotten."""
    asked = await ask.json(BatchAsked)
    check_variables(True, asked.boundaries, asked.environment_variables)
    async with ask.server.database.reading(ask.tenant) as scope:
        found = await find(ask, scope, asked)
        sizing = await sized(ask, scope, found.rows, found.missing, asked)
    plan = KeptPlan(sizing, _sources(found.rows))
    kept = msgspec.structs.replace(asked, search=found.search, exchanges=())
    batch_id, now = ask.server.new_id("bat"), ask.server.now()
    async with ask.server.database.writing(ask.tenant) as scope:
        await forget_plans(scope, now - _DAY)
        await add_batch(scope, _row(ask, batch_id, kept, plan, now))
        await add_items(scope, _items(ask, batch_id, found.rows, kept))
        row = await find_batch(scope, batch_id)
        if row is None:
            raise Problem("internal", "the batch was not written")
        view = await show(scope, row)
    response = answer(view, 201)
    response.headers["Location"] = f"/api/v1/batches/{batch_id}"
    return response


def _sources(rows: Sequence[Row[Any]]) -> tuple[Place, ...]:
    return tuple({Place(row.environment, row.app): None for row in rows})


def _row(ask: Ask, batch_id: str, asked: BatchAsked, plan: KeptPlan, now: int) -> dict[str, Any]:
    return {
        "batch_id": batch_id,
        "state": "planned",
        "wanted": dense(msgspec.structs.replace(asked, reason=clean_text(asked.reason))),
        "plan": dense(plan),
        "concurrency": asked.concurrency,
        "per_minute": asked.per_minute,
        "actor": "",
        "actor_name": "",
        "requested_by": ask.principal.name or ask.principal.id,
        "requested_id": ask.principal.id,
        "created_at": now,
        "confirmed_at": 0,
        "ended_at": 0,
        "hindered": "",
    }


def _items(
    ask: Ask, batch_id: str, rows: Sequence[Row[Any]], asked: BatchAsked
) -> list[dict[str, Any]]:
    return [_item(ask, batch_id, at, row, asked) for at, row in enumerate(rows, 1)]


def _item(ask: Ask, batch_id: str, at: int, row: Row[Any], asked: BatchAsked) -> dict[str, Any]:
    code = skips(row, ask.server.limits.depth, asked.boundaries)
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
