"""``agents``: which apps are connected, and how they are."""

from __future__ import annotations

import argparse
from typing import Any

from reenact.cli.client import signed_in_client
from reenact.cli.listing import Column, print_table, told, when

__all__ = ["agents"]

_TABLE: tuple[Column, ...] = (
    ("agent", told("agentId")),
    ("app", told("app")),
    ("environment", lambda one: _environment(one)),
    ("version", told("version")),
    ("state", told("state")),
    ("last seen", when("lastSeenAt")),
    ("drivers", lambda one: _drivers(one)),
    ("routes", lambda one: str(len(one.get("routes") or []))),
    ("spooled", lambda one: str(one.get("spooled") or 0)),
    ("dropped", lambda one: str(one.get("dropped") or 0)),
)


def _environment(one: dict[str, Any]) -> str:
    kind = "" if one.get("environmentKind") != "production" else " (production)"
    return f"{one.get('environment')}{kind}"


def _drivers(one: dict[str, Any]) -> str:
    """``psycopg allow, sqlite3 undeclared``: the treatment in a replay."""
    found = (one.get("containment") or {}).get("drivers") or []
    named = (f"{it.get('name')} {it.get('treatment', 'undeclared')}" for it in found)
    return ", ".join(named) or "none"


def agents(args: argparse.Namespace) -> int:
    """The command ``agents``."""
    query = {"app": args.app, "environment": args.environment, "state": args.state}
    if args.all:
        query["all"] = "true"
    found = signed_in_client().items("/api/v1/agents", query, args.limit)
    print_table(args, found, _TABLE, "no agent has come yet")
    return 0
