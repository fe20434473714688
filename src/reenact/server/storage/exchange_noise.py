"""Noise rules of routes, as they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Row

from reenact.exchange.comparison.noise import NoiseRule
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_tables import NOISE

__all__ = ["list_rules", "rules_in", "rules_of", "set_rules"]


async def rules_of(scope: Scope, app: str, route_id: str) -> tuple[NoiseRule, ...]:
    """Those of a route; none where nobody made any."""
    row = await scope.one(
        scope.select(NOISE).where(NOISE.c.app == app, NOISE.c.route_id == route_id)
    )
    return () if row is None else rules_in(row)


async def list_rules(scope: Scope, app: str, route_id: str) -> Sequence[Row[Any]]:
    """Of all routes, or of those that are named."""
    chosen = scope.select(NOISE).order_by(NOISE.c.app, NOISE.c.route_id)
    if app:
        chosen = chosen.where(NOISE.c.app == app)
    if route_id:
        chosen = chosen.where(NOISE.c.route_id == route_id)
    return await scope.all(chosen)


async def set_rules(
    scope: Scope, app: str, route_id: str, rules: tuple[NoiseRule, ...], at: int, by: str
) -> None:
    """Replaces what was there."""
    await scope.run(scope.delete(NOISE).where(NOISE.c.app == app, NOISE.c.route_id == route_id))
    row = {"app": app, "route_id": route_id, "rules": msgspec.json.encode(rules)}
    await scope.add(NOISE, {**row, "changed_at": at, "changed_by": by})


def rules_in(row: Row[Any]) -> tuple[NoiseRule, ...]:
    """The rules in a row of the table."""
    return msgspec.json.decode(row.rules, type=tuple[NoiseRule, ...])
