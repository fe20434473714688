"""The ``redact`` command: copy a recording and remove secrets."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from reenact._system import start_clock
from reenact.cli._output import count, escape_controls, json_line, rows
from reenact.cli._parser import RECORDING, Command, Parser, json_flag
from reenact.cli._recordings import manifest_json, recording_at
from reenact.errors import UsageError
from reenact.policy.redaction.redactor import Redactor
from reenact.store.rewrite import RedactionResult, redact_again

__all__ = ["COMMANDS"]

_MOST_PLACES = 40
_SHORTEST_SALT = 16


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("source", metavar="SRC", help=RECORDING)
    add("target", metavar="DST", help="where to write the new one (a tape if it ends in .jsonl)")
    add(
        "--profile",
        choices=("default", "strict"),
        default="default",
        help="which rules: default, or strict with e-mail addresses, long random strings and "
        "unlisted headers",
    )
    add(
        "--value",
        action="append",
        default=[],
        metavar="TEXT",
        help="a text to take out wherever it appears (repeatable; other users of the machine may "
        "see it)",
    )
    add("--value-from", metavar="FILE", help="such texts from a file, one per line; - is stdin")
    add(
        "--salt-from",
        metavar="FILE",
        help="equal secrets get equal pseudonyms, made with the salt in this file",
    )
    json_flag(parser, "what was removed as JSON, without the values")


def redact(args: argparse.Namespace) -> int:
    declared = [*args.value, *_values(args.value_from)]
    redactor = Redactor(
        args.profile, salt=_salt(args.salt_from), declared=declared, environ=dict(os.environ)
    )
    target = Path(args.target)
    removed = redact_again(recording_at(args.source), target, redactor, start_clock())
    # A key of an object is part of a path, and may itself be what must not be seen.
    places = {seq: list(map(redactor.text, paths)) for seq, paths in removed.events.items()}
    if args.json:
        print(json_line(_removed_json(target, removed, places)))
    else:
        print("\n".join(_removed_text(target, removed, places)))
    return 0


def _values(name: str | None) -> list[str]:
    """Read one value per line and skip empty lines."""
    if name is None:
        return []
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        lines = raw.decode().split("\n")
    except OSError as error:
        raise UsageError(f"cannot read the values in {name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"the values in {name} are not UTF-8 text") from None
    return [line.removesuffix("\r") for line in lines if line.strip()]


def _salt(name: str | None) -> bytes | None:
    if name is None:
        return None
    try:
        salt = Path(name).read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise UsageError(f"cannot read the salt in {name}: {error.strerror}") from None
    if len(salt) < _SHORTEST_SALT:
        raise UsageError(
            f"the salt in {name} has {len(salt)} bytes; {_SHORTEST_SALT} are the least",
            hint="a short salt can be guessed, and with it the secrets",
        )
    return salt


def _removed_json(
    target: Path, removed: RedactionResult, places: dict[int, list[str]]
) -> dict[str, Any]:
    return {
        "path": str(target),
        **manifest_json(removed.manifest),
        "profile": removed.manifest.redaction.profile,
        "removed": sum(removed.by_rule.values()),
        "byRule": removed.by_rule,
        "byEvent": [{"seq": seq, "paths": paths} for seq, paths in places.items()],
    }


def _removed_text(
    target: Path, removed: RedactionResult, places: dict[int, list[str]]
) -> list[str]:
    total = sum(removed.by_rule.values())
    lines = [
        f"{escape_controls(str(target))}: {count(total, 'value')} removed "
        f"from {count(len(places), 'event')} of {removed.manifest.event_count:,}, "
        f"profile {removed.manifest.redaction.profile}"
    ]
    table = [(rule, f"{number:,}") for rule, number in removed.by_rule.items()]
    lines += [f"  rule {line}" for line in rows(table, right=frozenset({1}))]
    flat = [
        f"  event {seq}: {escape_controls(path)}" for seq, paths in places.items() for path in paths
    ]
    lines += flat[:_MOST_PLACES]
    if len(flat) > _MOST_PLACES:
        lines.append(f"  and {len(flat) - _MOST_PLACES:,} more places (--json lists all)")
    return lines


COMMANDS = {
    "redact": Command(
        description="Copies a recording and redacts more of it: same events, same order, new hashes. "
        "Reports how much each rule removed and where, never the values. The original is not "
        "changed.",
        example="reenact redact runs/today shareable --profile strict --value-from customers.txt",
        arguments=_arguments,
        run=redact,
    ),
}
