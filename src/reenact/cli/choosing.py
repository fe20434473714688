"""Which recordings ``reenact regress`` is about: in folders, on a server, in an object store."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from reenact._system import start_clock
from reenact.cli.client import Client, part, signed_in_client
from reenact.cli.listing import since_and_until
from reenact.cli.saved import to_search
from reenact.errors import RecordingMissing, UsageError
from reenact.runs.afar.bucket import find_objects
from reenact.runs.afar.place import Place, Remote, is_afar
from reenact.runs.regression.finding import find_recordings, shard_of

__all__ = ["check_choice", "chosen", "said"]

_MOST = 10_000
_OF_EXCHANGES = ("saved", "app", "environment", "route", "status", "replays", "trace")
_FLAGS = (*_OF_EXCHANGES, "correlation", "text", "since", "until", "limit")


def check_choice(args: argparse.Namespace) -> None:
    """Raises :class:`UsageError` for what makes no sense together."""
    if not args.path and args.from_server is None:
        raise UsageError("which recordings?", hint="name folders or s3://…, or say --from-server")
    given = [name for name in _FLAGS if getattr(args, name) is not None]
    if args.replayable:
        given.append("replayable")
    if given and args.from_server is None:
        raise UsageError(f"--{given[0]} goes with --from-server", hint="say both, or none")
    others = [name for name in given if name in (*_OF_EXCHANGES, "correlation", "replayable")]
    if others and args.from_server == "captures":
        raise UsageError(
            f"--{others[0]} finds exchanges, and captures of runs have none",
            hint="--from-server exchanges",
        )
    if args.saved is not None and len(given) > 1 + (args.limit is not None):
        raise UsageError("--saved has its own filters", hint="use one or the other")


def said(args: argparse.Namespace) -> list[str]:
    """The places as they were named, for reports."""
    return [*args.path, *([] if args.from_server is None else [f"server:{args.from_server}"])]


def chosen(args: argparse.Namespace) -> list[Place]:
    """Each once, in the order in which they were named. Only names are read here."""
    found: dict[str, Place] = {}
    for one in _named(args.path):
        found.setdefault(one.name if isinstance(one, Remote) else str(one), one)
    if args.from_server is not None:
        for remote in _listed(args):
            found.setdefault(remote.name, remote)
    every = list(found.values())
    return every if args.shard is None else shard_of(every, args.shard)


def _named(places: list[str]) -> Iterator[Place]:
    here = [Path(place) for place in places if not is_afar(place)]
    yield from find_recordings(here)
    for place in filter(is_afar, places):
        if place.startswith("s3://"):
            yield from find_objects(place, os.environ)
        else:
            yield Remote(keeper=_keeper(place), name=place)


def _keeper(name: str) -> Any:
    return name.partition(":")[0]


def _listed(args: argparse.Namespace) -> list[Remote]:
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
