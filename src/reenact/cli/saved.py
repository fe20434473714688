"""Searches as people type them, as the server saves and replays them."""

from __future__ import annotations

import argparse
import re
from typing import Any

from reenact.cli.client import Client, part
from reenact.cli.listing import since_and_until

__all__ = ["save", "to_search"]

_AGO = re.compile(r"\d{1,6}\s*(s|min|m|h|d|w)")
_NAMES = {
    "app": "app",
    "environment": "environment",
    "route": "route",
    "status": "status",
    "trace": "traceId",
    "correlation": "correlationId",
    "text": "text",
}


def to_search(args: argparse.Namespace, now: int) -> dict[str, Any]:
    """The filters. ``--since 2h`` means two hours before it is used, whenever that is; ``now`` is in
    milliseconds."""
    found: dict[str, Any] = {
        name: value for field, name in _NAMES.items() if (value := getattr(args, field))
    }
    if args.replays is not None:
        found["replay"] = {"none": False, "only": True, "any": "any"}[args.replays]
    if args.replayable:
        found["replayable"] = True
    times = {name: value for name, value in since_and_until(args).items() if value is not None}
    if args.since is not None and _AGO.fullmatch(args.since.strip()):
        found["within"] = max(now - times.pop("since"), 1)
    return {**found, **times}


def save(client: Client, name: str, search: dict[str, Any]) -> None:
    """For everybody in the tenant."""
    client.send("PUT", f"/api/v1/searches/{part(name)}", search)
