"""The ``batch`` commands: plan, run and follow the replay of many exchanges."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from reenact._system import start_clock
from reenact.cli._client import Client, part, signed_in_client
from reenact.cli._output import (
    Column,
    count,
    escape_controls,
    field,
    json_line,
    print_result,
    print_table,
    rows,
    time_field,
)
from reenact.cli._parser import (
    VERDICTS,
    Command,
    Group,
    argument,
    filters,
    json_flag,
    list_flags,
    positive,
    takes,
    to_search,
)
from reenact.cli.server._replays import ending, exit_code, follow, replay_arguments, replay_options
from reenact.errors import ServerUnusable, UsageError

__all__ = ["COMMANDS"]

_PATH = "/api/v1/batches"
_FINAL = ("completed", "cancelled")
_ALL, _CAUSES = 10_000, 20

_TABLE: tuple[Column, ...] = (
    ("made", time_field("createdAt")),
    ("batch", field("batchId")),
    ("state", field("state")),
    ("replays", lambda one: str(one["plan"]["replayable"])),
    ("by", field("requestedBy")),
    ("", lambda one: ", ".join(f"{n} {v}" for v, n in one["progress"]["verdicts"].items())),
)
_ITEMS: tuple[Column, ...] = (
    ("exchange", field("exchangeId")),
    ("environment", field("environment")),
    ("route", field("routeId")),
    ("replay", field("replayId")),
    ("state", field("outcome", "state")),
    ("verdict", field("verdict")),
    ("ended", ending),
    ("", lambda one: ": ".join(filter(None, (one["code"], one["message"] or one["cause"])))),
)


def ls(args: argparse.Namespace) -> int:
    print_table(args, signed_in_client().items(_PATH, {}, args.limit), _TABLE, "no batch")
    return 0


def plan(args: argparse.Namespace) -> int:
    found = signed_in_client().send("POST", _PATH, _request(args))
    if args.json:
        print(json_line(found))
        return 0
    print_plan(found)
    print(
        f"nothing has run yet; run it with: reenact batch run {escape_controls(found['batchId'])}"
    )
    return 0


def _request(args: argparse.Namespace) -> dict[str, Any]:
    wanted = replay_options(args)
    search = to_search(args, start_clock()())
    if bool(search) + bool(args.saved) + bool(args.exchange) > 1:
        raise UsageError(
            "filters, --saved and --exchange exclude each other", hint="use one of them"
        )
    if args.saved:
        wanted["saved"] = args.saved
    elif args.exchange:
        wanted["exchanges"] = args.exchange
    elif search:
        wanted["search"] = search
    else:
        raise UsageError(
            "no exchanges are selected", hint="use --since 1d, --status failed, or --saved NAME"
        )
    more = {
        "environment": args.target,
        "concurrency": args.concurrency,
        "perMinute": args.per_minute,
    }
    return {**wanted, **{name: value for name, value in more.items() if value}}


def run(args: argparse.Namespace) -> int:
    client = signed_in_client()
    found = client.send("POST", f"{_PATH}/{part(args.id)}/confirm")
    if not args.no_wait:
        found = follow(
            client,
            found,
            f"{_PATH}/{part(args.id)}",
            "progress",
            describe=progress_line,
            final=_FINAL,
            interrupted=f"the batch continues; end it: reenact batch cancel {escape_controls(args.id)}",
            check=_batch,
        )
    if args.json:
        print(json_line(found))
    else:
        _print_outcome(client, found)
    return 0 if args.no_wait else _exit_code(found)


def _batch(found: Any) -> dict[str, Any]:
    if isinstance(found, dict) and isinstance(found.get("batchId"), str):
        return found
    raise ServerUnusable("the server's response is not a batch", hint="is it of this version?")


def _print_outcome(client: Client, batch: dict[str, Any]) -> None:
    """Print the outcome of a batch and the causes of differences."""
    print_progress(batch)
    causes = f"{_PATH}/{part(batch['batchId'])}/causes"
    print_causes(client.items(causes, {}, _CAUSES))


def _exit_code(batch: dict[str, Any]) -> int:
    """Return 0 if every replay completed with a good verdict, else 1."""
    progress = batch["progress"]
    good = progress["outcomes"].get("completed", 0) == progress["ended"]
    left = progress["refused"] + progress["cancelled"]
    return max([*map(exit_code, progress["verdicts"]), 0 if good and not left else 1])


def show(args: argparse.Namespace) -> int:
    client = signed_in_client()
    path = f"{_PATH}/{part(args.id)}"
    found = client.get(path)
    if args.items or args.verdict:
        items = client.items(f"{path}/items", {"verdict": args.verdict}, _ALL)
        if not args.json:
            _print_outcome(client, found)
        print_table(args, items, _ITEMS, "no such exchange in it")
    elif args.json:
        print(json_line(found))
    else:
        print_plan(found)
        _print_outcome(client, found)
    return 0


def cancel(args: argparse.Namespace) -> int:
    found = signed_in_client().send("POST", f"{_PATH}/{part(args.id)}/cancel")
    return print_result(args, found, progress_line(found))


_STATES = ("waiting", "asked", "ended", "refused", "skipped", "cancelled")


def print_plan(batch: dict[str, Any]) -> None:
    """Print what a planned batch would replay."""
    plan = batch["plan"]
    print(f"{escape_controls(batch['batchId'])}  {count(plan['replayable'], 'replay')} planned")
    table = [("app", "environment", "route", "exchanges", "replays", "agents", "drivers", "")]
    for one in plan["groups"]:
        production = one["environmentKind"] == "production"
        where = f"{one['environment']}{' (production)' if production else ''}"
        table.append(
            (
                escape_controls(one["app"]),
                escape_controls(where),
                escape_controls(one["routeId"]),
                str(one["exchanges"]),
                str(one["replayable"]),
                str(one["agents"]),
                _drivers(one),
                _refused(one),
            )
        )
    for line in rows(table):
        print(f"  {line}")
    _remarks(batch, plan)


def _drivers(one: dict[str, Any]) -> str:
    found = (one.get("containment") or {}).get("drivers") or []
    return escape_controls(
        ", ".join(f"{it['name']} {it.get('treatment', 'undeclared')}" for it in found)
    )


def _refused(one: dict[str, Any]) -> str:
    if not one["refused"]:
        return ""
    some = f"{one['refusals']} " if 0 < one["refusals"] < one["replayable"] else ""
    return escape_controls(f"{some}refused: {one['refused']}, {one['message']}")


def _remarks(batch: dict[str, Any], plan: dict[str, Any]) -> None:
    for code, number in plan["skipped"].items():
        print(f"  {count(number, 'exchange')} left out: {escape_controls(code)}")
    if plan["notFound"]:
        print(f"  {count(plan['notFound'], 'exchange')} not found")
    if plan["live"]:
        mode = escape_controls(batch["boundaries"])
        print(f"  {count(plan['live'], 'replay')} may call the live world: {mode}")
    if plan["withoutRecording"]:
        print(f"  {count(plan['withoutRecording'], 'exchange')} without recorded answers")


def progress_line(batch: dict[str, Any]) -> str:
    """Return the progress of a batch in one line."""
    progress = batch["progress"]
    told = ", ".join(f"{progress[name]} {name}" for name in _STATES if progress[name])
    waits = f" (waits: {batch['hindered']})" if batch["hindered"] else ""
    return escape_controls(f"batch {batch['batchId']} {batch['state']}: {told or 'nothing'}{waits}")


def print_progress(batch: dict[str, Any]) -> None:
    """Print the progress of a batch and its counts by verdict and outcome."""
    print(progress_line(batch))
    progress = batch["progress"]
    for name in ("verdicts", "outcomes", "endings", "codes"):
        told = progress[name]
        if told and not (name == "endings" and set(told) == {"completed"}):
            failed = progress["failed"] if name == "verdicts" else {}
            words = ", ".join(
                f"{number} {word}" + (f" ({failed[word]} failed)" if failed.get(word) else "")
                for word, number in sorted(told.items())
            )
            print(f"  {name:<9} {escape_controls(words)}")


def print_causes(causes: Iterable[dict[str, Any]]) -> None:
    """Print the first difference of each group of replays, and the size of the group."""
    table = [
        (str(one["exchanges"]), escape_controls(one["verdict"]), escape_controls(one["cause"]))
        for one in causes
    ]
    for line in rows(table):
        print(f"  {line}")


COMMANDS = {
    "batch": Group(
        description="A batch is planned, which counts its exchanges; run, after confirmation; and "
        "summarized by verdict. The server continues it without a connected client.",
        example="reenact batch plan --saved yesterday",
        commands={
            "ls": Command(
                summary="a table of the batches",
                description="Lists batches, newest first.",
                example="reenact batch ls",
                arguments=list_flags("the batches"),
                run=ls,
            ),
            "plan": Command(
                summary="count what a batch would replay",
                description="Finds exchanges and reports how many there are, where they would run, which would be "
                "refused and which would make live calls. Nothing runs.",
                example="reenact batch plan --app shop --status failed --since 1d",
                arguments=takes(
                    argument("text [TEXT]", "only with this in an id, route or error"),
                    filters,
                    argument("--saved NAME", "the exchanges that a saved search finds"),
                    argument("--exchange ID...", "this exchange (repeatable)"),
                    argument(
                        "--target NAME", "replay in this environment; else where each came from"
                    ),
                    replay_arguments("each replay"),
                    argument("--concurrency N", "replays of an agent at a time", type=positive),
                    argument("--per-minute N", "replays of an agent in a minute", type=positive),
                    json_flag("the batch as JSON"),
                ),
                run=plan,
            ),
            "run": Command(
                summary="run a batch that was planned",
                description="Confirms a batch, and follows it to its end. Each exchange is replayed at most once, by the same "
                "rules as a single one. Exit code 0 when every replay is identical, equivalent or fixed, else 1.",
                example="reenact batch run bat_01J",
                arguments=takes(
                    argument("id BATCH", "the batch that was planned"),
                    argument("--no-wait", "only begin with it"),
                    json_flag("the batch as JSON"),
                ),
                run=run,
            ),
            "show": Command(
                summary="show the progress and results of a batch",
                description="Shows the plan, the progress and the verdicts.",
                example="reenact batch show bat_01J --items --verdict regressed",
                arguments=takes(
                    argument("id BATCH", "the batch"),
                    argument("--items", "its exchanges and replays, too"),
                    argument(
                        "--verdict", "of these only those with this verdict", choices=VERDICTS
                    ),
                    json_flag("the batch as JSON; with --items these, one line each"),
                ),
                run=show,
            ),
            "cancel": Command(
                summary="end a batch",
                description="Waiting exchanges are not replayed, and running replays are cancelled.",
                example="reenact batch cancel bat_01J",
                arguments=takes(argument("id BATCH", "the batch"), json_flag("the batch as JSON")),
                run=cancel,
            ),
        },
    )
}
