"""Client side of a replay: request it, wait for its end, and explain a failure."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec

from reenact._system import entropy, pause
from reenact.cli._client import Client, part
from reenact.cli._output import NOTHING, escape_controls
from reenact.cli._parser import Arguments, argument, takes
from reenact.errors import ReenactError, ServerRefused, ServerUnusable
from reenact.exchange.model import TERMINAL

__all__ = [
    "WAYS_OUT",
    "ending",
    "exit_code",
    "follow",
    "not_completed",
    "replay_arguments",
    "replay_options",
    "request_replay",
    "wait_for",
]

_AGAIN = 1.0
_TRIES = 5
_GOOD = ("identical", "equivalent", "fixed")


def exit_code(verdict: str) -> int:
    """Return 0 for a good verdict, else 1."""
    return 0 if verdict in _GOOD else 1


def replay_arguments(what: str) -> Arguments:
    """Return the options of a replay; ``what`` is the word for it in the help of ``--strict``."""
    return takes(
        argument(
            "--boundaries",
            "source of the responses to outbound calls",
            choices=("recorded", "recorded_then_live", "live"),
            default="recorded",
        ),
        argument(
            "--environment-variables",
            "read the current values of the app, or the recorded values",
            choices=("current", "recorded"),
            default="current",
        ),
        argument("--strict", f"end {what} at the first divergence"),
        argument(
            "--revision",
            "use the current route, or only an unchanged route",
            choices=("current", "same"),
            default="current",
        ),
        argument("--reason TEXT", "why; required in production and for live calls"),
    )


def replay_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a replay as the API expects them."""
    found: dict[str, Any] = {
        "boundaries": args.boundaries,
        "environmentVariables": args.environment_variables,
        "revision": args.revision,
    }
    if args.strict:
        found["strict"] = True
    if args.reason:
        found["reason"] = args.reason
    return found


def ending(item: dict[str, Any]) -> str:
    """Return the ending of a replay's exchange, with the HTTP status of its response."""
    words = (str(item.get("ending") or ""), str(item.get("httpStatus") or ""))
    return " ".join(filter(None, words)) or NOTHING


def request_replay(client: Client, exchange_id: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Request a replay. Retries use the same idempotency key, so at most one replay is created."""
    key = {"Idempotency-Key": entropy(16).hex()}
    path = f"/api/v1/exchanges/{part(exchange_id)}/replays"
    left = _TRIES
    while True:
        left -= 1
        try:
            found = client.send("POST", path, wanted, key)
            break
        except ServerUnusable as error:
            if error.fields.get("status") is not None or not left:
                raise
            pause(_AGAIN)
    return _replay(found)


def wait_for(client: Client, replay: dict[str, Any]) -> dict[str, Any]:
    """Wait for the end of a replay and return it. Each state is printed to stderr."""
    name = escape_controls(replay["replayId"])
    return follow(
        client,
        replay,
        f"/api/v1/replays/{part(replay['replayId'])}",
        "state",
        describe=lambda found: f"replay {name} {found['state']}",
        final=TERMINAL,
        interrupted=f"the replay continues; end it: reenact exchange cancel {name}",
        check=_replay,
    )


def follow(
    client: Client,
    found: dict[str, Any],
    path: str,
    event: str,
    *,
    describe: Callable[[dict[str, Any]], str],
    final: Collection[str],
    interrupted: str,
    check: Callable[[Any], dict[str, Any]],
) -> dict[str, Any]:
    """Wait until a replay or a batch is in a ``final`` state, and return it.

    Each change of its description is printed to stderr. After Ctrl-C, ``interrupted`` is printed.
    """
    printed, failures = "", 0
    try:
        while True:
            if describe(found) != printed:
                printed = describe(found)
                print(f"reenact: {printed}", file=sys.stderr)
            if found["state"] in final:
                return found
            try:
                found, failures = _next(client, path, event, printed, describe, check), 0
            except ServerUnusable:
                failures += 1
                if failures == _TRIES:
                    raise
                pause(_AGAIN)
    except KeyboardInterrupt:
        print(f"\nreenact: {interrupted}", file=sys.stderr)
        raise


def _next(
    client: Client,
    path: str,
    event: str,
    printed: str,
    describe: Callable[[dict[str, Any]], str],
    check: Callable[[Any], dict[str, Any]],
) -> dict[str, Any]:
    """Return the state after the next change. If the event stream ends early, it is requested."""
    for sent in client.events(f"{path}/events"):
        if sent.name == event:
            found = check(_decoded(sent.data))
            if describe(found) != printed:
                return found
    found = check(client.get(path))
    if describe(found) == printed:
        pause(_AGAIN)
    return found


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def _replay(found: Any) -> dict[str, Any]:
    if isinstance(found, dict) and isinstance(found.get("replayId"), str):
        return {"state": "requested", **found}
    raise ServerUnusable(
        "the response of the server is not a replay", hint="is the server of this version?"
    )


def not_completed(replay: dict[str, Any]) -> ReenactError:
    """Return the exception for a replay that was not completed."""
    state, code = replay["state"], replay.get("code") or ""
    message = replay.get("message") or ""
    words = f"replay {replay['replayId']} is {state}"
    kind: type[ReenactError] = (
        ServerRefused if state in ("refused", "cancelled") else ServerUnusable
    )
    return kind(
        ": ".join(filter(None, (words, code, message))),
        hint=WAYS_OUT.get(code, "see the agents: reenact agents"),
        problem=code or state,
        replayId=replay["replayId"],
    )


WAYS_OUT: Final = {
    "signature_invalid": "the agent has registered with another server: restart the app",
    "expired": "compare the clocks of server and app, and ask for it again",
    "nonce_reused": "ask for it again",
    "wrong_agent": "see the agents: reenact agents",
    "not_replayable": "give what is missing with --set, or credentials to the agent",
    "drivers_undeclared": "declare them in the app: Agent(…, drivers={…}); see reenact agents",
    "no_recording": "let its calls go out: --boundaries recorded_then_live, or live",
    "revision_mismatch": "replay through the current route: --revision current",
    "route_unknown": "the app no longer has this route; choose a different agent: --agent",
    "busy": "wait until its other replays have ended",
    "depth": "replay the original instead",
    "agent_restarted": "ask for it again",
    "source_unavailable": "the agent could not get the recording: is the server in its reach?",
    "internal": "look at the log of the app",
    "not_delivered": "is the app running? see the agents: reenact agents",
    "not_started": "the app took it and did not begin: look at its log",
    "not_finished": "the app did not end in time: look at its log",
}
"""Hints by error code of a replay that was not completed."""
