"""The ``capabilities`` command: capabilities of programs and the hash of their set."""

from __future__ import annotations

import argparse

from reenact._version import __version__
from reenact.cli._output import json_line, rows
from reenact.cli._parser import Command, Parser, json_flag
from reenact.policy.access import KNOWN, PROTOCOL_VERSION

__all__ = ["COMMANDS"]


def _arguments(parser: Parser) -> None:
    json_flag(parser, "the report as JSON")


def capabilities(args: argparse.Namespace) -> int:
    known, whole = KNOWN.items(), KNOWN.capability_set_hash()
    if args.json:
        report = {
            "protocolVersion": PROTOCOL_VERSION,
            "name": "reenact",
            "version": __version__,
            "capabilities": [{"name": name, "version": version} for name, version in known],
            "capabilitySetHash": whole,
        }
        print(json_line(report))
    else:
        print(*rows([("capability", "version"), *known]), sep="\n")
        print(f"hash of the set: {whole}")
    return 0


COMMANDS = {
    "capabilities": Command(
        description="Lists the capabilities that policies allow or deny, the version of each one's contract, and "
        "the hash of the whole set that recordings carry.",
        example="reenact capabilities --json",
        arguments=_arguments,
        run=capabilities,
    ),
}
