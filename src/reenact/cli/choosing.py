"""Which recordings ``reenact regress`` is about: in folders, on a server, in an object store."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reenact.errors import UsageError
from reenact.runs.afar.place import Place, Remote, is_afar
from reenact.runs.regression.finding import find_recordings, shard_of

__all__ = ["check_choice", "chosen", "said"]

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
        from reenact.cli.on_server import find_on_server  # most have all of them here

        for remote in find_on_server(args):
            found.setdefault(remote.name, remote)
    every = list(found.values())
    return every if args.shard is None else shard_of(every, args.shard)


def _named(places: list[str]) -> Iterator[Place]:
    here = [Path(place) for place in places if not is_afar(place)]
    yield from find_recordings(here)
    for place in filter(is_afar, places):
        if place.startswith("s3://"):
            from reenact.runs.afar.bucket import find_objects

            yield from find_objects(place, os.environ)
        else:
            yield Remote(keeper=_keeper(place), name=place)


def _keeper(name: str) -> Any:
    return name.partition(":")[0]
