"""``retention``: how long a tenant keeps what."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from reenact.cli.client import signed_in_client
from reenact.cli.render import json_line, rows
from reenact.errors import UsageError

__all__ = ["set_days", "show"]

_PATH = "/api/v1/retention"
_KINDS = ("exchanges", "recordings", "captures")


def show(args: argparse.Namespace) -> int:
    """The command ``retention show``."""
    return _print(args, signed_in_client().get(_PATH))


def set_days(args: argparse.Namespace) -> int:
    """The command ``retention set``. What is not named stays as it is."""
    asked = {kind: getattr(args, kind) for kind in _KINDS}
    changed = {kind: days for kind, days in asked.items() if days is not None}
    if not changed:
        raise UsageError(
            "nothing is to be set", hint="--exchanges DAYS, --recordings DAYS, --captures DAYS"
        )
    client = signed_in_client()
    found = client.send("PUT", _PATH, {**client.get(_PATH), **changed})
    if any(changed.values()):
        print(
            "reenact: what is older goes within the hour, and does not come back", file=sys.stderr
        )
    return _print(args, found)


def _print(args: argparse.Namespace, found: dict[str, Any]) -> int:
    if args.json:
        print(json_line(found))
        return 0
    for line in rows([(kind, _words(found.get(kind))) for kind in _KINDS]):
        print(line)
    return 0


def _words(days: Any) -> str:
    if not isinstance(days, int) or not days:
        return "for ever"
    return "1 day" if days == 1 else f"{days} days"
