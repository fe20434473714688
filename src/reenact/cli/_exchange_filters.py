"""Filters for exchanges, shared by ``exchange ls``, ``batch plan`` and ``regress``."""

from __future__ import annotations

import argparse
import re
from typing import Any

from reenact.cli._parser import Parser, times

__all__ = ["VERDICTS", "add_filters", "since_and_until", "to_search"]

VERDICTS = ("identical", "equivalent", "fixed", "regressed", "diverged")
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
"""Names of the filters by option."""


def add_filters(parser: Parser) -> None:
    """Add the options that filter exchanges."""
    add = parser.add_argument
    add("--app", metavar="APP", help="only this app")
    add("--environment", metavar="NAME", help="only this environment")
    add("--route", metavar="ROUTE", help="only this route")
    add("--status", choices=("completed", "failed"), help="only exchanges with this outcome")
    add(
        "--replays",
        choices=("none", "only", "any"),
        help="without replays, only replays, or both (default: none)",
    )
    add("--replayable", action="store_true", help="only replayable exchanges")
    add("--trace", metavar="ID", help="only this trace")
    add("--correlation", metavar="ID", help="only this correlation id")
    times(parser)


def to_search(args: argparse.Namespace, now: int) -> dict[str, Any]:
    """Return the filters as the server saves them. ``now`` is in milliseconds.

    ``--since 2h`` is stored as a duration, so a saved search starts two hours before each use.
    """
    found: dict[str, Any] = {
        name: value for option, name in _NAMES.items() if (value := getattr(args, option))
    }
    if args.replays is not None:
        found["replay"] = {"none": False, "only": True, "any": "any"}[args.replays]
    if args.replayable:
        found["replayable"] = True
    limits = {name: value for name, value in since_and_until(args).items() if value is not None}
    if args.since is not None and _AGO.fullmatch(args.since.strip()):
        found["within"] = max(now - limits.pop("since"), 1)
    return {**found, **limits}


def since_and_until(args: argparse.Namespace) -> dict[str, int | None]:
    """Return ``--since`` and ``--until`` in milliseconds."""
    from datetime import datetime

    from reenact.search.query import read_moment

    now = datetime.now().astimezone()
    return {
        "since": None if args.since is None else read_moment(args.since, now),
        "until": None if args.until is None else read_moment(args.until, now, end=True),
    }
