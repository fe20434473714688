"""``batch ls``, ``plan``, ``run``, ``show`` and ``cancel``."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import msgspec

from reenact._system import pause, start_clock
from reenact.cli.batch_text import print_causes, print_plan, print_progress, progress_line
from reenact.cli.client import Client, part, signed_in_client
from reenact.cli.listing import Column, ended, print_table, told, when
from reenact.cli.render import escape_controls, json_line
from reenact.cli.saved import to_search
from reenact.cli.waiting import exit_code
from reenact.errors import ServerUnusable, UsageError

__all__ = ["cancel", "ls", "plan", "run", "show"]

_PATH = "/api/v1/batches"
_LAST = ("completed", "cancelled")
_AGAIN, _TRIES = 1.0, 5
_ALL, _CAUSES = 10_000, 20

_TABLE: tuple[Column, ...] = (
    ("made", when("createdAt")),
    ("batch", told("batchId")),
    ("state", told("state")),
    ("replays", lambda one: str(one["plan"]["replayable"])),
    ("by", told("requestedBy")),
    ("", lambda one: ", ".join(f"{n} {v}" for v, n in one["progress"]["verdicts"].items())),
)
_ITEMS: tuple[Column, ...] = (
    ("exchange", told("exchangeId")),
    ("environment", told("environment")),
    ("route", told("routeId")),
    ("replay", told("replayId")),
    ("state", told("outcome", "state")),
    ("verdict", told("verdict")),
    ("ended", ended),
    ("", lambda one: ": ".join(filter(None, (one["code"], one["message"] or one["cause"])))),
)


def ls(args: argparse.Namespace) -> int:
    """The command ``batch ls``."""
    print_table(args, signed_in_client().items(_PATH, {}, args.limit), _TABLE, "no batch")
    return 0


def plan(args: argparse.Namespace) -> int:
    """The command ``batch plan``."""
    found = signed_in_client().send("POST", _PATH, _wanted(args))
    if args.json:
        print(json_line(found))
        return 0
    print_plan(found)
    print(
        f"nothing has run yet; run it with: reenact batch run {escape_controls(found['batchId'])}"
    )
    return 0


def _wanted(args: argparse.Namespace) -> dict[str, Any]:
    wanted: dict[str, Any] = {
        "boundaries": args.boundaries,
        "environmentVariables": args.environment_variables,
        "revision": args.revision,
    }
    search = to_search(args, start_clock()())
    if bool(search) + bool(args.saved) + bool(args.exchange) > 1:
        raise UsageError(
            "filters, --saved and --exchange are three ways to say which", hint="use one"
        )
    if args.saved:
        wanted["saved"] = args.saved
    elif args.exchange:
        wanted["exchanges"] = args.exchange
    elif search:
        wanted["search"] = search
    else:
        raise UsageError(
            "which exchanges?", hint="say --since 1d, --status failed, or --saved NAME"
        )
    more = {
        "environment": args.target,
        "strict": args.strict or None,
        "reason": args.reason,
        "concurrency": args.concurrency,
        "perMinute": args.per_minute,
    }
    return {**wanted, **{name: value for name, value in more.items() if value}}


def run(args: argparse.Namespace) -> int:
    """The command ``batch run``."""
    client = signed_in_client()
    found = client.send("POST", f"{_PATH}/{part(args.id)}/confirm")
    if not args.no_wait:
        found = _wait(client, found)
    if args.json:
        print(json_line(found))
    else:
        _tell(client, found)
    return 0 if args.no_wait else _code(found)


def _tell(client: Client, batch: dict[str, Any]) -> None:
    """What came of it, and why."""
    print_progress(batch)
    causes = f"{_PATH}/{part(batch['batchId'])}/causes"
    print_causes(client.items(causes, {}, _CAUSES))


def _code(batch: dict[str, Any]) -> int:
    """0 when every replay came to a good end."""
    progress = batch["progress"]
    good = progress["outcomes"].get("completed", 0) == progress["ended"]
    left = progress["refused"] + progress["cancelled"]
    return max([*map(exit_code, progress["verdicts"]), 0 if good and not left else 1])


def _wait(client: Client, batch: dict[str, Any]) -> dict[str, Any]:
    """The batch as it is once it has ended. How far it is is said on stderr."""
    said, failures = "", 0
    try:
        while True:
            line = progress_line(batch)
            if line != said:
                said = line
                print(f"reenact: {line}", file=sys.stderr)
            if batch["state"] in _LAST:
                return batch
            try:
                batch, failures = _next(client, batch), 0
            except ServerUnusable:
                failures += 1
                if failures == _TRIES:
                    raise
                pause(_AGAIN)
    except KeyboardInterrupt:
        name = escape_controls(batch["batchId"])
        print(f"\nreenact: the batch goes on; end it: reenact batch cancel {name}", file=sys.stderr)
        raise


def _next(client: Client, batch: dict[str, Any]) -> dict[str, Any]:
    """The batch when it has got on. A stream that ends before that is no matter."""
    path = f"{_PATH}/{part(batch['batchId'])}"
    for sent in client.events(f"{path}/events"):
        if sent.event == "progress":
            found: dict[str, Any] = msgspec.json.decode(sent.data)
            if found != batch:
                return found
    now: dict[str, Any] = client.get(path)
    if now == batch:
        pause(_AGAIN)
    return now


def show(args: argparse.Namespace) -> int:
    """The command ``batch show``."""
    client = signed_in_client()
    path = f"{_PATH}/{part(args.id)}"
    found = client.get(path)
    if args.items or args.verdict:
        items = client.items(f"{path}/items", {"verdict": args.verdict}, _ALL)
        if not args.json:
            _tell(client, found)
        print_table(args, items, _ITEMS, "no such exchange in it")
    elif args.json:
        print(json_line(found))
    else:
        print_plan(found)
        _tell(client, found)
    return 0


def cancel(args: argparse.Namespace) -> int:
    """The command ``batch cancel``."""
    found = signed_in_client().send("POST", f"{_PATH}/{part(args.id)}/cancel")
    print(json_line(found) if args.json else progress_line(found))
    return 0
