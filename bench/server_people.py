"""Rows about people, and of what they did: replays, searches, noise rules, accounts, grants, keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from sqlalchemy import Column, Integer, LargeBinary

from bench.server_exchanges import APPS, ENVIRONMENTS, START, STEP
from reenact.exchange.model import STATES, VERDICTS
from reenact.policy.noise import NoiseRule
from reenact.server.batches.schema import Search
from reenact.server.storage.rows import pack
from reenact.server.storage.tables import REPLAYS

__all__ = ["PEOPLE", "replay"]


def _nothing(column: Column[Any]) -> Any:
    if isinstance(column.type, LargeBinary):
        return b""
    return 0 if isinstance(column.type, Integer) else ""


_NOTHING: Final = {one.name: _nothing(one) for one in REPLAYS.c if one.name != "tenant"}


def replay(number: int) -> dict[str, Any]:
    """One in ten came to nothing, and has no verdict; one in 50 has regressed. The columns are those of
    the table, whatever they are by now."""
    at = START + number * 10 * STEP
    state = STATES[4 + number // 10 % 4] if number % 10 == 9 else "completed"
    came = VERDICTS[(0, 0, 0, 0, 1, 1, 2, 2, 4)[number % 9]]
    verdict = "regressed" if number % 50 == 0 else came
    return {
        **_NOTHING,
        "app": APPS[number % 5],
        "environment": ENVIRONMENTS[number % 2],
        "replay_id": f"rpl_{number:026}",
        "source_exchange_id": f"ex_{number:026}",
        "exchange_id": f"ex_r{number:025}",
        "state": state,
        "requested_at": at,
        "delivered_at": at + 20,
        "started_at": at + 30,
        "ended_at": at + 90,
        "due_at": at + 60_000,
        "deadline": at + 60_000,
        "agent_id": f"agent-{number % 200}",
        "route_id": f"GET /items/{number % 20}",
        "boundaries": "recorded",
        "revision": "current",
        "reason": "after the fix",
        "patch": pack([{"op": "replace", "path": "/body/amount", "value": number}]),
        "redacted": "[]",
        "requested_by": f"person-{number % 7}@example.com",
        "actor": "{}",
        "permission": "replay:execute",
        "depth": 1,
        "verdict": verdict if state == "completed" else "",
        "audit_seq": number,
        "result_seq": number,
    }


def search(number: int) -> dict[str, Any]:
    filters = Search(app=APPS[number % 5], status="failed", within=86_400_000)
    return {
        "name": f"failed {number:04}",
        "filters": msgspec.json.encode(filters).decode(),
        "changed_at": START + number,
        "changed_by": "usr_ada",
        "changed_name": "ada@example.com",
    }


def noise(number: int) -> dict[str, Any]:
    rules = [NoiseRule(path=f"/result/body/{name}", kind="present") for name in ("id", "at")]
    return {
        "app": APPS[number % 5],
        "route_id": f"GET /items/{number}",
        "rules": msgspec.json.encode(rules),
        "changed_at": START + number,
        "changed_by": "usr_ada",
    }


def user(number: int) -> dict[str, Any]:
    return {
        "id": f"usr_{number:026}",
        "email": f"person-{number}@example.com",
        "password": "none",
        "invite_hash": "",
        "invite_expires_at": 0,
        "created_at": START + number,
        "removed_at": 0,
    }


def grant(number: int) -> dict[str, Any]:
    return {
        "id": f"grt_{number:026}",
        "holder_type": "user",
        "holder_id": f"usr_{number:026}",
        "what": "viewer",
        "environment": ENVIRONMENTS[number % 2],
        "app": "",
        "expires_at": 0,
        "created_at": START + number,
        "created_by": "usr_ada",
    }


def key(number: int) -> dict[str, Any]:
    return {
        "app": APPS[number % 5],
        "environment": ENVIRONMENTS[number % 2],
        "id": f"key_{number:026}",
        "kind": "agent",
        "name": f"{APPS[number % 5]} {number}",
        "hash": f"{number:064x}",
        "owner": "",
        "created_at": START + number,
        "expires_at": 0,
        "revoked_at": 0,
        "last_used_at": START + number,
    }


PEOPLE: Final[dict[str, Callable[[int], dict[str, Any]]]] = {
    "searches": search,
    "noise": noise,
    "users": user,
    "grants": grant,
    "keys": key,
}
"""By table, what makes a row of it."""
