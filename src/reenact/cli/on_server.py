"""The recordings that a server has, by their names."""

from __future__ import annotations

import argparse
from typing import Any

import msgspec

from reenact._system import start_clock
from reenact.cli.client import Client, part, signed_in_client
from reenact.cli.listing import since_and_until
from reenact.cli.saved import to_search
from reenact.errors import RecordingMissing, UsageError
from reenact.runs.afar.place import Remote

__all__ = ["find_on_server"]

_MOST = 10_000


def find_on_server(args: argparse.Namespace) -> list[Remote]:
    """Those that ``--from-server`` and its filters mean, the newest first. Raises
    :class:`RecordingMissing` when there is none, :class:`UsageError` when there are too many."""
    client = signed_in_client()
    most = args.limit or _MOST
    if args.from_server == "captures":
        query = {"text": args.text, **since_and_until(args)}
        items = client.items("/api/v1/captures", query, most + 1)
        found = [_capture(one) for one in items]
    else:
        items = client.items("/api/v1/exchanges", _filters(client, args), most + 1)
        found = [Remote(keeper="exchange", name=f"exchange:{one['exchangeId']}") for one in items]
    if not found:
        raise RecordingMissing(
            f"the server has no such {args.from_server}",
            hint="send some: reenact push RUN"
            if args.from_server == "captures"
            else "see what there is: reenact exchange ls",
        )
    if len(found) > most and args.limit is None:
        raise UsageError(
            f"there are more than {most:,} of them",
            hint="say how many of the newest: --limit N; or which: --since, --until, --text",
        )
    return found[:most]


def _capture(one: dict[str, Any]) -> Remote:
    return Remote(keeper="capture", name=f"capture:{one['captureId']}", version=str(one["digest"]))


def _filters(client: Client, args: argparse.Namespace) -> dict[str, Any]:
    """Those that can be replayed: of others the calls were not recorded."""
    now = start_clock()()
    if args.saved is not None:
        search = dict(client.get(f"/api/v1/searches/{part(args.saved)}")["filters"])
    else:
        search = to_search(args, now)
    within = search.pop("within", None)
    if within:
        search["since"] = now - within
    wanted = {"replay": False, **search, "replayable": True}
    return {
        name: msgspec.json.encode(value).decode() if isinstance(value, bool) else value
        for name, value in wanted.items()
    }
