"""``audit ls``, ``head``, ``key``, ``export`` and ``prove``."""

from __future__ import annotations

import argparse
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

from reenact.audit.bundle import open_bundle
from reenact.audit.checkpoint import parse_head
from reenact.audit.extracting import prove_record
from reenact.audit.proof import SUFFIX, parse_proof
from reenact.cli.client import signed_in_client
from reenact.cli.listing import Column, print_table, since_and_until, told, when
from reenact.cli.render import escape_controls, json_line, size
from reenact.errors import UsageError

__all__ = ["export", "head", "key", "ls", "prove"]


def _nested(name: str, field: str) -> Any:
    def cell(record: dict[str, Any]) -> str:
        inner = record.get(name)
        found = inner.get(field) if isinstance(inner, dict) else None
        return str(found) if found else "-"

    return cell


_TABLE: tuple[Column, ...] = (
    ("seq", lambda one: str(one.get("seq", "-"))),
    ("when", when("at")),
    ("who", lambda one: str(one.get("actorName") or _nested("actor", "id")(one))),
    ("action", told("action")),
    ("environment", told("env")),
    ("exchange", _nested("source", "exchangeId")),
    ("about", lambda one: _about(one)),
    ("outcome", told("outcome")),
    ("code", told("code")),
)


def _about(one: dict[str, Any]) -> str:
    """The replay, otherwise the subject by name or id, otherwise the permission."""
    subject = one.get("subject")
    if one.get("replayId") or not isinstance(subject, dict):
        return told("replayId", "permission")(one)
    return f"{subject.get('type')} {one.get('subjectName') or subject.get('id')}"


def ls(args: argparse.Namespace) -> int:
    """The command ``audit ls``."""
    query = {
        "actor": args.actor,
        "action": args.action,
        "exchange": args.exchange,
        "replay": args.replay,
        "environment": args.environment,
        "outcome": args.outcome,
        **since_and_until(args),
    }
    found = signed_in_client().items("/api/v1/audit/records", query, args.limit)
    print_table(args, map(_record, found), _TABLE, "no such record")
    return 0


def _record(item: dict[str, Any]) -> dict[str, Any]:
    """Return the record, with its number and the names of its actor and subject."""
    inner = item.get("record")
    if not isinstance(inner, dict):
        return item
    names = {name: item.get(name) or "" for name in ("actorName", "subjectName")}
    return {**inner, "seq": item.get("seq"), **names}


def head(args: argparse.Namespace) -> int:
    """The command ``audit head``."""
    data = signed_in_client().text("/api/v1/audit/head")
    found = parse_head(data)
    if args.json:
        root = b64encode(found.root).decode()
        origin, note = found.checkpoint.origin, found.to_text()
        print(json_line({"origin": origin, "size": found.size, "root": root, "note": note}))
    else:
        _write(args.output, data)
    return 0


def key(args: argparse.Namespace) -> int:
    """The command ``audit key``."""
    data = signed_in_client().text("/api/v1/audit/key")
    if args.json:
        lines = data.decode("utf-8", "replace").splitlines()
        print(json_line({"keys": [line.rpartition(" ")[2] for line in lines]}))
    else:
        _write(args.output, data)
    return 0


def _write(output: str | None, data: bytes) -> None:
    """To a file as it is, else to the screen, line by line."""
    if output is not None:
        Path(output).write_bytes(data)
        print(f"wrote {output}", file=sys.stderr)
        return
    for line in data.decode("utf-8", "replace").splitlines():
        print(escape_controls(line))


def export(args: argparse.Namespace) -> int:
    """The command ``audit export``."""
    query = {} if args.format == "tar" else {"format": args.format}
    target = Path(args.output or f"audit.{args.format}")
    if target.exists():
        raise UsageError(f"{target} is there already", hint="name another file: -o FILE")
    beside = target.with_name(f"{target.name}.tmp")
    try:
        written = signed_in_client().download("/api/v1/audit/export", beside, query)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    if args.json:
        print(json_line({"path": str(target), "size": written}))
    else:
        print(f"wrote {escape_controls(str(target))}, {size(written)}")
    return 0


def prove(args: argparse.Namespace) -> int:
    """The command ``audit prove``."""
    if args.export is not None:
        data = prove_record(open_bundle(Path(args.export)), args.seq).to_text().encode()
    else:
        data = signed_in_client().text(f"/api/v1/audit/proof/{args.seq}")
    found = parse_proof(data)
    target = Path(args.output or f"{args.seq}{SUFFIX}")
    target.write_bytes(data)
    if args.json:
        print(json_line({"path": str(target), "seq": found.index, "size": found.head.size}))
    else:
        print(f"wrote {escape_controls(str(target))}: record {found.index} of {found.head.size}")
    return 0
