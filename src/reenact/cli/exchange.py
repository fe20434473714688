"""``exchange ls``, ``show``, ``replays``, ``diff``, ``cancel``, ``learn`` and ``prove``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from reenact._system import start_clock
from reenact.cli.client import Client, part, signed_in_client
from reenact.cli.comparison_text import ComparisonPrinter
from reenact.cli.exchange_text import ExchangePrinter
from reenact.cli.listing import NOTHING, Column, ended, print_table, since_and_until, told, when
from reenact.cli.newest import LAST, exchange_id, replay_id
from reenact.cli.parsing import columns
from reenact.cli.render import count, escape_controls, json_line
from reenact.cli.saved import save, to_search
from reenact.cli.waiting import ask_for_replay, exit_code, wait_for
from reenact.errors import UsageError
from reenact.exchange.model import TERMINAL
from reenact.store.files import write_private

__all__ = ["cancel", "diff", "learn", "ls", "prove", "replays", "show"]

_TABLE: tuple[Column, ...] = (
    ("started", when("startedAt")),
    ("exchange", told("exchangeId")),
    ("app", told("app")),
    ("environment", told("environment")),
    ("route", told("routeId")),
    ("status", told("status")),
    ("http", lambda one: str(one.get("httpStatus") or NOTHING)),
    ("ms", lambda one: f"{one.get('duration') or 0:,.1f}"),
    ("", lambda one: _remark(one)),
)

_REPLAYS: tuple[Column, ...] = (
    ("requested", when("requestedAt")),
    ("replay", told("replayId")),
    ("exchange", told("sourceExchangeId")),
    ("app", told("app")),
    ("environment", told("environment")),
    ("route", told("routeId")),
    ("state", told("state")),
    ("verdict", told("verdict")),
    ("ended", ended),
    ("by", told("requestedBy")),
    ("reason", told("reason")),
    ("first difference", told("cause")),
)


def _remark(one: dict[str, Any]) -> str:
    if one.get("replayId"):
        return f"replay of {one.get('sourceExchangeId') or '?'}"
    if one.get("notReplayable"):
        return f"not replayable: {one['notReplayable']}"
    return str(one.get("errorType") or "")


def ls(args: argparse.Namespace) -> int:
    """The command ``exchange ls``."""
    query = {
        "app": args.app,
        "environment": args.environment,
        "route": args.route,
        "status": args.status,
        "replay": {"none": "false", "only": "true", "any": "any"}.get(args.replays or ""),
        "replayable": "true" if args.replayable else None,
        "traceId": args.trace,
        "correlationId": args.correlation,
        "text": args.text,
        **since_and_until(args),
    }
    client = signed_in_client()
    if args.save is not None:
        save(client, args.save, to_search(args, start_clock()()))
        told_of = f"saved; replay it: reenact batch plan --saved {escape_controls(args.save)!r}"
        print(f"reenact: {told_of}", file=sys.stderr)
    found = client.items("/api/v1/exchanges", query, args.limit)
    print_table(args, found, _TABLE, "no such exchange")
    return 0


def show(args: argparse.Namespace) -> int:
    """The command ``exchange show``."""
    client = signed_in_client()
    path = f"/api/v1/exchanges/{part(exchange_id(client, args.id))}"
    found = client.get(path)
    calls = client.get(f"{path}/calls")["items"] if args.calls else []
    if args.json:
        print(json_line({**found, "calls": calls} if args.calls else found))
    else:
        ExchangePrinter(_width(args)).print(found, calls)
    return 0


def replays(args: argparse.Namespace) -> int:
    """The command ``exchange replays``."""
    client = signed_in_client()
    query = {
        "exchange": None if args.id is None else exchange_id(client, args.id),
        "app": args.app,
        "environment": args.environment,
        "route": args.route,
        "state": args.state,
        "verdict": args.verdict,
        "by": args.by,
        **since_and_until(args),
    }
    found = client.items("/api/v1/replays", query, args.limit)
    print_table(args, found, _REPLAYS, "no such replay")
    return 0


def _width(args: argparse.Namespace) -> int:
    return columns() if args.width is None else int(args.width)


def diff(args: argparse.Namespace) -> int:
    """The command ``exchange diff``."""
    client = signed_in_client()
    if args.other is None:
        found = _with_its_source(client, args.one)
    else:
        one, other = (exchange_id(client, name) for name in (args.one, args.other))
        found = client.get(f"/api/v1/exchanges/{part(one)}/diff/{part(other)}")
    return print_comparison(args, found)


def _with_its_source(client: Client, name: str) -> Any:
    """Of a replay, or of an exchange that is one."""
    if name == LAST:
        name = replay_id(client, name)
    elif not name.startswith("rpl_"):
        replay = client.get(f"/api/v1/exchanges/{part(name)}").get("replay")
        if not replay:
            raise UsageError(
                f"exchange {escape_controls(name)} is no replay",
                hint=f"reenact exchange diff {escape_controls(name)} OTHER",
            )
        name = replay["replayId"]
    return client.get(f"/api/v1/replays/{part(name)}/diff")


def print_comparison(args: argparse.Namespace, found: dict[str, Any]) -> int:
    """As text or JSON; the exit code is that of the verdict."""
    if args.json:
        print(json_line(found))
    else:
        ComparisonPrinter(_width(args)).print(found)
    return exit_code(found.get("verdict", ""))


def cancel(args: argparse.Namespace) -> int:
    """The command ``exchange cancel``."""
    client = signed_in_client()
    name = replay_id(client, args.id)
    found = client.send("POST", f"/api/v1/replays/{part(name)}/cancel")
    if args.json:
        print(json_line(found))
    else:
        state = str(found.get("state"))
        told = "" if state in TERMINAL else ", and was told to end"
        print(f"replay {escape_controls(name)} is {escape_controls(state)}{told}")
    return 0


def learn(args: argparse.Namespace) -> int:
    """The command ``exchange learn``."""
    client = signed_in_client()
    source = exchange_id(client, args.id)
    replays = []
    for _ in range(2):
        asked = ask_for_replay(client, source, {"reason": args.reason} if args.reason else {})
        done = wait_for(client, asked)
        if done["state"] != "completed":
            raise UsageError(
                f"replay {done['replayId']} is {done['state']}: {done.get('message') or ''}",
                hint="nothing was learnt; noise is learnt from two replays that were completed",
            )
        replays.append(done["replayId"])
    found = client.send("POST", "/api/v1/noise/learn", {"replays": replays})
    if args.json:
        print(json_line(found))
        return 0
    rules = found.get("rules") or []
    route = f"{found.get('app')} {found.get('route')}"
    print(f"{escape_controls(route)}: {count(len(rules), 'noise rule')} now")
    for rule in rules:
        print(
            f"  {escape_controls(str(rule.get('kind', 'ignore'))):<10} {escape_controls(str(rule.get('path')))}"
        )
    return 0


def prove(args: argparse.Namespace) -> int:
    """The command ``exchange prove``."""
    client = signed_in_client()
    data = client.text(f"/api/v1/replays/{part(replay_id(client, args.id))}/proof")
    if args.output == "-":
        sys.stdout.buffer.write(data)
        return 0
    target = Path(args.output)
    write_private(target, data)
    if args.json:
        print(json_line({"path": str(target), "size": len(data)}))
    else:
        print(
            f"wrote {escape_controls(str(target))}; verify it with: reenact audit verify {escape_controls(str(target))}"
        )
    return 0
