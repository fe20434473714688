"""The ``agents`` command: connected app agents and their state."""

from __future__ import annotations

import argparse
from typing import Any

from reenact.cli._client import signed_in_client
from reenact.cli._output import Column, field, print_table, time_field
from reenact.cli._parser import Command, argument, list_flags, takes

__all__ = ["COMMANDS"]

_TABLE: tuple[Column, ...] = (
    ("agent", field("agentId")),
    ("app", field("app")),
    ("environment", lambda one: _environment(one)),
    ("version", field("version")),
    ("state", field("state")),
    ("last seen", time_field("lastSeenAt")),
    ("drivers", lambda one: _drivers(one)),
    ("routes", lambda one: str(len(one.get("routes") or []))),
    ("spooled", lambda one: str(one.get("spooled") or 0)),
    ("dropped", lambda one: str(one.get("dropped") or 0)),
)


def _environment(one: dict[str, Any]) -> str:
    kind = "" if one.get("environmentKind") != "production" else " (production)"
    return f"{one.get('environment')}{kind}"


def _drivers(one: dict[str, Any]) -> str:
    """Return drivers with their treatment in a replay: ``psycopg allow, sqlite3 undeclared``."""
    found = (one.get("containment") or {}).get("drivers") or []
    named = (f"{it.get('name')} {it.get('treatment', 'undeclared')}" for it in found)
    return ", ".join(named) or "none"


def agents(args: argparse.Namespace) -> int:
    query = {"app": args.app, "environment": args.environment, "state": args.state}
    if args.all:
        query["all"] = "true"
    found = signed_in_client().items("/api/v1/agents", query, args.limit)
    print_table(args, found, _TABLE, "no agent has come yet")
    return 0


COMMANDS = {
    "agents": Command(
        description="Lists the agents of apps, with their environments and the number of exchanges in "
        "their spools. Agents without a sign of life for a day are omitted by default.",
        example="reenact agents --state online",
        arguments=takes(
            argument("--app APP", "only this app"),
            argument("--environment NAME", "only this environment"),
            argument("--state", "only agents in this state", choices=("online", "offline", "gone")),
            argument("--all", "include agents without a sign of life for a day"),
            list_flags("the agents"),
        ),
        run=agents,
    )
}
