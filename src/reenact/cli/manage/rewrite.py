"""The ``recover``, ``migrate`` and ``redact`` commands: close, convert or redact a recording."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reenact._system import start_clock
from reenact.cli._output import count, escape_controls, print_result, rows
from reenact.cli._parser import RECORDING, Command, argument, json_flag, recording, takes
from reenact.cli._recordings import manifest_json, recording_at
from reenact.errors import RecordingDamaged, UsageError
from reenact.policy.redaction.redactor import Redactor
from reenact.store.files import MANIFEST
from reenact.store.reader import part_path
from reenact.store.recover import Recovery
from reenact.store.recover import recover as close_unfinished
from reenact.store.rewrite import RedactionResult, redact_again
from reenact.store.rewrite import migrate as rewrite_old

__all__ = ["COMMANDS"]


def migrate(args: argparse.Namespace) -> int:
    new = Path(args.new)
    manifest = rewrite_old(recording_at(args.old), new, start_clock())
    events, version = count(manifest.event_count, "event"), manifest.format.version
    text = f"{new}: {events}, now in format {version}; {args.old} is unchanged"
    return print_result(args, {"path": str(new), **manifest_json(manifest)}, text)


def recover(args: argparse.Namespace) -> int:
    path = recording_at(args.path)
    try:
        found = close_unfinished(path, start_clock(), cut_damage=args.cut)
    except RecordingDamaged as error:
        if not args.cut and not error.hint and _is_open(path):
            error.hint = f"to end it before that line: reenact recover --cut {path}"
        raise
    return print_result(args, _recovery_json(path, found), *_recovery_text(path, found))


def _is_open(path: Path) -> bool:
    if path.is_dir():
        return not (path / MANIFEST).exists()
    return part_path(path).exists()


def _recovery_text(path: Path, found: Recovery) -> Iterator[str]:
    events = count(found.manifest.event_count, "event")
    if found.already_whole:
        yield f"{path}: whole already, {events}; nothing was done"
        return
    yield f"{path}: recovered, {events} kept"
    if found.unfinished:
        yield f"  unfinished: {count(found.unfinished, 'call')} without a complete response"
    for what in found.cut or ("nothing",):
        yield f"  cut: {what}"


def _recovery_json(path: Path, found: Recovery) -> dict[str, Any]:
    return {
        "path": str(path),
        "events": found.manifest.event_count,
        "status": found.manifest.status,
        "alreadyWhole": found.already_whole,
        "unfinished": found.unfinished,
        "cut": list(found.cut),
    }


_MOST_PLACES = 40
_SHORTEST_SALT = 16


def redact(args: argparse.Namespace) -> int:
    declared = [*args.value, *_values(args.value_from)]
    redactor = Redactor(
        args.profile, salt=_salt(args.salt_from), declared=declared, environ=dict(os.environ)
    )
    target = Path(args.target)
    removed = redact_again(recording_at(args.source), target, redactor, start_clock())
    # A key of an object is part of a path, and may itself be what must not be seen.
    places = {seq: list(map(redactor.text, paths)) for seq, paths in removed.events.items()}
    found = _removed_json(target, removed, places)
    return print_result(args, found, *_removed_text(target, removed, places))


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
    "migrate": Command(
        description="Rewrites a recording of an earlier format version in the current format. The original is "
        "not changed.",
        example="reenact migrate runs/old runs/new",
        arguments=takes(
            argument("old OLD", "the capture directory of an earlier version"),
            argument("new NEW", "where to write the new one"),
            json_flag("what was done as JSON"),
        ),
        run=migrate,
    ),
    "recover": Command(
        description="Closes a recording whose program was killed. Complete events are kept. A torn last "
        "line is moved aside and reported.",
        example="reenact recover runs/today",
        arguments=takes(
            recording,
            argument("--cut", "end it before the first line that is not an event"),
            json_flag("what was kept and cut as JSON"),
        ),
        run=recover,
    ),
    "redact": Command(
        description="Copies a recording and redacts more of it: same events, same order, new hashes. "
        "Reports how much each rule removed and where, never the values. The original is not "
        "changed.",
        example="reenact redact runs/today shareable --profile strict --value-from customers.txt",
        arguments=takes(
            argument("source SRC", RECORDING),
            argument("target DST", "where to write the new one (a tape if it ends in .jsonl)"),
            argument(
                "--profile",
                "which rules: default, or strict with e-mail addresses, long random strings and "
                "unlisted headers",
                choices=("default", "strict"),
                default="default",
            ),
            argument(
                "--value TEXT...",
                "a text to take out wherever it appears (repeatable; other users of the machine may "
                "see it)",
            ),
            argument("--value-from FILE", "such texts from a file, one per line; - is stdin"),
            argument(
                "--salt-from FILE",
                "equal secrets get equal pseudonyms, made with the salt in this file",
            ),
            json_flag("what was removed as JSON, without the values"),
        ),
        run=redact,
    ),
}
