"""``exchange replay``: ask, wait, and show what came of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec

from reenact.cli.client import part, signed_in_client
from reenact.cli.exchange import print_comparison
from reenact.cli.newest import exchange_id
from reenact.cli.render import escape_controls, json_line
from reenact.cli.waiting import ask_for_replay, not_completed, wait_for
from reenact.errors import UsageError
from reenact.exchange.patch import parse_settings, read_patch, to_patch
from reenact.exchange.payload import SECTIONS

__all__ = ["replay"]


def replay(args: argparse.Namespace) -> int:
    """The command ``exchange replay``."""
    wanted = _wanted(args)
    client = signed_in_client()
    asked = ask_for_replay(client, exchange_id(client, args.id), wanted)
    if args.no_wait:
        if args.json:
            print(json_line(asked))
        else:
            print(escape_controls(asked["replayId"]))
        return 0
    done = wait_for(client, asked)
    if done["state"] != "completed":
        raise not_completed(done)
    found = client.get(f"/api/v1/replays/{part(done['replayId'])}/diff")
    if args.json:
        found = {**found, "replayId": done["replayId"], "exchangeId": done.get("exchangeId")}
    return print_comparison(args, found)


def _wanted(args: argparse.Namespace) -> dict[str, Any]:
    wanted: dict[str, Any] = {
        "boundaries": args.boundaries,
        "environmentVariables": args.environment_variables,
        "revision": args.revision,
    }
    patch = _patch(args)
    if args.payload is not None:
        if patch:
            raise UsageError(
                "--payload replaces whole sections, --set and --patch change parts of them",
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
    if args.strict:
        wanted["strict"] = True
    if args.reason:
        wanted["reason"] = args.reason
    return wanted


def _patch(args: argparse.Namespace) -> list[dict[str, Any]]:
    given = [] if args.patch is None else read_patch(_read(args.patch))
    return to_patch([*given, *parse_settings(args.set)])


def _payload(name: str) -> dict[str, Any]:
    found = _read(name)
    if not isinstance(found, dict) or not found or not set(found) <= set(SECTIONS):
        raise UsageError(
            f"{name} is no payload",
            hint='an object of "headers" (pairs), "body" ({"type": "json", "text": "…"}), "properties"',
        )
    return found


def _read(name: str) -> Any:
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{name} is no JSON: {error}", hint="check the file") from None
