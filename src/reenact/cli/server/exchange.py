"""The ``exchange`` commands: find, show, replay and compare exchanges."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec

from reenact._system import start_clock
from reenact.cli._client import Client, part, signed_in_client
from reenact.cli._output import (
    NOTHING,
    Column,
    count,
    escape_controls,
    field,
    json_line,
    print_result,
    print_table,
    time_field,
)
from reenact.cli._parser import (
    VERDICTS,
    Command,
    Group,
    argument,
    columns,
    filters,
    json_flag,
    list_flags,
    since_and_until,
    takes,
    times,
    to_search,
    width_flag,
)
from reenact.cli.server._exchange_text import ComparisonPrinter, ExchangePrinter
from reenact.cli.server._replays import (
    ending,
    exit_code,
    not_completed,
    replay_arguments,
    replay_options,
    request_replay,
    wait_for,
)
from reenact.errors import UsageError
from reenact.exchange.model import TERMINAL
from reenact.exchange.payload import SECTIONS
from reenact.exchange.payload_edits import parse_settings, read_patch, to_patch
from reenact.store.files import write_private

__all__ = ["COMMANDS"]

_LAST = "`last` is the newest one that is not a replay"
_EXCHANGE = f"the exchange; {_LAST}"
_REPLAY = "the replay; `last` is the newest one"
_STATES = (
    *("requested", "delivered", "running"),
    *("completed", "failed", "refused", "cancelled", "expired"),
)

_TABLE: tuple[Column, ...] = (
    ("started", time_field("startedAt")),
    ("exchange", field("exchangeId")),
    ("app", field("app")),
    ("environment", field("environment")),
    ("route", field("routeId")),
    ("status", field("status")),
    ("http", lambda one: str(one.get("httpStatus") or NOTHING)),
    ("ms", lambda one: f"{one.get('duration') or 0:,.1f}"),
    ("", lambda one: _remark(one)),
)

_REPLAYS: tuple[Column, ...] = (
    ("requested", time_field("requestedAt")),
    ("replay", field("replayId")),
    ("exchange", field("sourceExchangeId")),
    ("app", field("app")),
    ("environment", field("environment")),
    ("route", field("routeId")),
    ("state", field("state")),
    ("verdict", field("verdict")),
    ("ended", ending),
    ("by", field("requestedBy")),
    ("reason", field("reason")),
    ("first difference", field("cause")),
)


def _remark(one: dict[str, Any]) -> str:
    if one.get("replayId"):
        return f"replay of {one.get('sourceExchangeId') or '?'}"
    if one.get("notReplayable"):
        return f"not replayable: {one['notReplayable']}"
    return str(one.get("errorType") or "")


def ls(args: argparse.Namespace) -> int:
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
        search = to_search(args, start_clock()())
        client.send("PUT", f"/api/v1/searches/{part(args.save)}", search)
        name = escape_controls(args.save)
        print(f"reenact: saved; replay it: reenact batch plan --saved {name!r}", file=sys.stderr)
    found = client.items("/api/v1/exchanges", query, args.limit)
    print_table(args, found, _TABLE, "no such exchange")
    return 0


def show(args: argparse.Namespace) -> int:
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
    client = signed_in_client()
    if args.other is None:
        found = _with_its_source(client, args.one)
    else:
        one, other = (exchange_id(client, name) for name in (args.one, args.other))
        found = client.get(f"/api/v1/exchanges/{part(one)}/diff/{part(other)}")
    return print_comparison(args, found)


def _with_its_source(client: Client, name: str) -> Any:
    """Compare a replay, given by its id or by its exchange, with its source."""
    if name == LAST:
        name = replay_id(client, name)
    elif not name.startswith("rpl_"):
        replay = client.get(f"/api/v1/exchanges/{part(name)}").get("replay")
        if not replay:
            raise UsageError(
                f"exchange {escape_controls(name)} is not a replay",
                hint=f"reenact exchange diff {escape_controls(name)} OTHER",
            )
        name = replay["replayId"]
    return client.get(f"/api/v1/replays/{part(name)}/diff")


def print_comparison(args: argparse.Namespace, found: dict[str, Any]) -> int:
    """Print a comparison and return the exit code for its verdict."""
    if args.json:
        print(json_line(found))
    else:
        ComparisonPrinter(_width(args)).print(found)
    return exit_code(found.get("verdict", ""))


def cancel(args: argparse.Namespace) -> int:
    client = signed_in_client()
    name = replay_id(client, args.id)
    found = client.send("POST", f"/api/v1/replays/{part(name)}/cancel")
    state = str(found.get("state"))
    told = "" if state in TERMINAL else ", and its cancellation was requested"
    return print_result(args, found, f"replay {name} is {state}{told}")


def learn(args: argparse.Namespace) -> int:
    client = signed_in_client()
    source = exchange_id(client, args.id)
    replays = []
    for _ in range(2):
        asked = request_replay(client, source, {"reason": args.reason} if args.reason else {})
        done = wait_for(client, asked)
        if done["state"] != "completed":
            raise UsageError(
                f"replay {done['replayId']} is {done['state']}: {done.get('message') or ''}",
                hint="nothing was learnt; noise is learnt from two replays that were completed",
            )
        replays.append(done["replayId"])
    found = client.send("POST", "/api/v1/noise/learn", {"replays": replays})
    rules = found.get("rules") or []
    head = f"{found.get('app')} {found.get('route')}: {count(len(rules), 'noise rule')} now"
    lines = (f"  {rule.get('kind', 'ignore'):<10} {rule.get('path')}" for rule in rules)
    return print_result(args, found, head, *lines)


def prove(args: argparse.Namespace) -> int:
    client = signed_in_client()
    data = client.text(f"/api/v1/replays/{part(replay_id(client, args.id))}/proof")
    if args.output == "-":
        sys.stdout.buffer.write(data)
        return 0
    target = Path(args.output)
    write_private(target, data)
    text = f"wrote {target}; verify it with: reenact audit verify {target}"
    return print_result(args, {"path": str(target), "size": len(data)}, text)


def replay(args: argparse.Namespace) -> int:
    wanted = _request(args)
    client = signed_in_client()
    asked = request_replay(client, exchange_id(client, args.id), wanted)
    if args.no_wait:
        return print_result(args, asked, asked["replayId"])
    done = wait_for(client, asked)
    if done["state"] != "completed":
        raise not_completed(done)
    found = client.get(f"/api/v1/replays/{part(done['replayId'])}/diff")
    if args.json:
        found = {**found, "replayId": done["replayId"], "exchangeId": done.get("exchangeId")}
    return print_comparison(args, found)


def _request(args: argparse.Namespace) -> dict[str, Any]:
    wanted = replay_options(args)
    patch = _patch(args)
    if args.payload is not None:
        if patch:
            raise UsageError(
                "--payload replaces complete sections, but --set and --patch change parts of them",
                hint="use one or the other",
            )
        wanted["modifiedPayload"] = _payload(args.payload)
    elif patch:
        wanted["patch"] = patch
    target = {"agentId": args.agent, "environment": args.environment}
    if args.agent and args.environment:
        raise UsageError("an agent has an environment already", hint="--agent or --environment")
    if any(target.values()):
        wanted["target"] = {name: value for name, value in target.items() if value}
    return wanted


def _patch(args: argparse.Namespace) -> list[dict[str, Any]]:
    given = [] if args.patch is None else read_patch(_read(args.patch))
    return to_patch([*given, *parse_settings(args.set)])


def _payload(name: str) -> dict[str, Any]:
    found = _read(name)
    if not isinstance(found, dict) or not found or not set(found) <= set(SECTIONS):
        raise UsageError(
            f"{name} is not a payload",
            hint='use an object with "headers" (pairs), "body" ({"type": "json", "text": "…"}), "properties"',
        )
    return found


def _read(name: str) -> Any:
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{name} is no JSON: {error}", hint="check the file") from None


LAST = "last"


def exchange_id(client: Client, text: str) -> str:
    """Return the id of an exchange; ``last`` is the newest one that is not a replay. Raises :class:`UsageError`."""
    if text != LAST:
        return text
    found = _first(client, "/api/v1/exchanges", {"replay": "false"}, "exchangeId")
    if found is None:
        raise UsageError(
            "the server has no exchanges yet", hint="check that an app is connected: reenact agents"
        )
    return found


def replay_id(client: Client, text: str) -> str:
    """Return the id of a replay; ``last`` is the newest one. Raises :class:`UsageError`."""
    if text != LAST:
        return text
    found = _first(client, "/api/v1/replays", {}, "replayId")
    if found is None:
        raise UsageError("nothing was replayed yet", hint="reenact exchange replay ID")
    return found


def _first(client: Client, path: str, query: dict[str, str], name: str) -> str | None:
    return next((str(one[name]) for one in client.items(path, query, 1) if name in one), None)


COMMANDS = {
    "exchange": Group(
        description="An exchange is one request, job or message that went through a route of an app. The app "
        "records it; the server keeps it; and the app can run it again, with another payload.",
        example="reenact exchange replay ex_01a1 --set body.amount=5",
        commands={
            "ls": Command(
                summary="find exchanges",
                description="Lists exchanges, newest first: requests, jobs and messages that went through a route.",
                example="reenact exchange ls --app shop --status failed --since 2h",
                arguments=takes(
                    argument("text [TEXT]", "only with this in an id, route or error"),
                    filters,
                    argument("--save NAME", "save this search, to be replayed: reenact batch plan"),
                    list_flags("the exchanges"),
                ),
                run=ls,
            ),
            "show": Command(
                summary="look at one exchange",
                description="Shows what came in, the processors as a tree with their durations and what each changed, "
                "the calls that were made, and what came out.",
                example="reenact exchange show last --calls",
                arguments=takes(
                    argument("id ID", _EXCHANGE),
                    argument("--calls", "show the calls that it made, too"),
                    width_flag,
                    json_flag("the exchange as JSON"),
                ),
                run=show,
            ),
            "replay": Command(
                summary="run one again, with another payload if you like",
                description="Has the app run an exchange again through its route, waits for it, and shows what differs. "
                "Recorded calls get their recorded responses, and calls without a counterpart in the recording "
                "are refused, unless --boundaries specifies otherwise. The app declares how drivers and files "
                "are treated. Exit code 0 for identical, equivalent and fixed, 1 for regressed and diverged, 4 when "
                "it was refused, 3 when it could not be run.",
                example="reenact exchange replay last --set body.amount=5 --reason rounding",
                arguments=takes(
                    argument("id ID", _EXCHANGE),
                    argument(
                        "--set PATH=VALUE...",
                        "change the start payload: body.amount=5, headers.x-user=ann (repeatable)",
                    ),
                    argument("--patch FILE", "a JSON patch (RFC 6902) of it; - is stdin"),
                    argument(
                        "--payload FILE",
                        "headers, body, properties as JSON, each in place of the recorded one; - is stdin",
                    ),
                    argument("--agent ID", "the agent that replays it"),
                    argument("--environment NAME", "any agent of the app in this environment"),
                    replay_arguments("it"),
                    argument("--no-wait", "only ask for it, and print the id of the replay"),
                    width_flag,
                    json_flag("the comparison as JSON"),
                ),
                run=replay,
            ),
            "replays": Command(
                summary="find replays",
                description="Lists replays, newest first: of what, where, by whom, how far each is, and its verdict.",
                example="reenact exchange replays --app shop --verdict regressed --since 1d",
                arguments=takes(
                    argument("id [ID]", f"only replays of this exchange; {_LAST}"),
                    argument("--app APP", "only in this app"),
                    argument("--environment NAME", "only in this environment"),
                    argument("--route ROUTE", "only through this route"),
                    argument("--state", "only replays in this state", choices=_STATES),
                    argument("--verdict", "only those with this verdict", choices=VERDICTS),
                    argument("--by WHO", "only replays requested by this person or key"),
                    times,
                    list_flags("the replays"),
                ),
                run=replays,
            ),
            "diff": Command(
                summary="what differs between two exchanges",
                description="Puts two exchanges side by side: start, processors, calls, result, timing. With one that is a "
                "replay, it and its source. Exit code 1 when they differ by more than noise.",
                example="reenact exchange diff ex_01a1 ex_01a2",
                arguments=takes(
                    argument(
                        "one A",
                        "an exchange, or `last`; without B a replay or its exchange, and `last` is the newest replay",
                    ),
                    argument("other [B]", "the exchange to compare with it; else its source"),
                    width_flag,
                    json_flag("the comparison as JSON"),
                ),
                run=diff,
            ),
            "cancel": Command(
                summary="end a replay",
                description="Cancels a replay that has not ended.",
                example="reenact exchange cancel rpl_01J",
                arguments=takes(argument("id REPLAY", _REPLAY), json_flag("the replay as JSON")),
                run=cancel,
            ),
            "learn": Command(
                summary="learn which differences are noise",
                description="Replays an exchange twice, unchanged. Differences between the two are noise, and are ignored "
                "in later comparisons of this route.",
                example="reenact exchange learn ex_01a1",
                arguments=takes(
                    argument("id ID", _EXCHANGE),
                    argument("--reason TEXT", "why; required in production"),
                    json_flag("the rules as JSON"),
                ),
                run=learn,
            ),
            "prove": Command(
                summary="write the proof of a replay",
                description="Writes a file that proves, with the log's verifier key, which payload was replayed "
                "and what the result was: both audit records with their proofs, and the values behind their "
                "digests.",
                example="reenact exchange prove last -o replay.json",
                arguments=takes(
                    argument("id REPLAY", _REPLAY),
                    argument(
                        "-o, --output FILE", "the file to write, or - for stdout", required=True
                    ),
                    json_flag("what was written as JSON"),
                ),
                run=prove,
            ),
        },
    )
}
