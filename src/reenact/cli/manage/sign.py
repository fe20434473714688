"""The ``sign`` command: sign a recording, or create a key pair."""

from __future__ import annotations

import argparse
from pathlib import Path

from reenact.cli._output import count, escape_controls, json_line
from reenact.cli._parser import RECORDING, Command, Parser, json_flag
from reenact.cli._recordings import recording_at
from reenact.errors import UsageError
from reenact.store.verify import verify as check

__all__ = ["COMMANDS"]


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("path", nargs="?", metavar="PATH", help=f"what to sign: {RECORDING}")
    add("--key", metavar="FILE", help="the private key to sign with")
    add("--new-key", metavar="FILE", help="make a key at FILE, its public half at FILE.pub")
    json_flag(parser, "what was done as JSON")


def sign(args: argparse.Namespace) -> int:
    from reenact.store.sign import new_key
    from reenact.store.sign import sign as put_signature

    if args.new_key is not None:
        if args.path is not None or args.key is not None:
            raise UsageError(
                "--new-key only makes a key; signing is a second step",
                hint=f"reenact sign --new-key {args.new_key}",
            )
        return _made(Path(args.new_key), new_key(Path(args.new_key)), args)
    if args.path is None or args.key is None:
        raise UsageError(
            "signing takes a recording and a key",
            hint="reenact sign PATH --key FILE; a first key: reenact sign --new-key FILE",
        )
    path = recording_at(args.path)
    found = check(path)
    signature = put_signature(path, found.manifest, Path(args.key))
    if args.json:
        print(json_line({"path": str(path), "signature": str(signature)}))
    else:
        events = count(found.manifest.event_count, "event")
        print(
            f"{escape_controls(str(path))}: verified and signed, {events}; see {escape_controls(str(signature))}"
        )
    return 0


def _made(private: Path, public: Path, args: argparse.Namespace) -> int:
    if args.json:
        print(json_line({"privateKey": str(private), "publicKey": str(public)}))
    else:
        print(f"private key: {escape_controls(str(private))} (sign with it, give it to nobody)")
        print(
            f"public key: {escape_controls(str(public))} (others check with it: reenact verify --key)"
        )
    return 0


COMMANDS = {
    "sign": Command(
        description="Signs a recording with Ed25519. A hash reveals accidents; only a signature reveals "
        "edits.",
        example="reenact sign runs/today --key release.key",
        arguments=_arguments,
        run=sign,
    ),
}
