"""The ``audit`` commands: list, export, prove and verify the audit log."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from base64 import b64encode
from pathlib import Path
from typing import Any

import msgspec

from reenact.audit.bundle import open_bundle
from reenact.audit.keys import Key
from reenact.audit.log import parse_head
from reenact.audit.proof import (
    SUFFIX,
    check_proof,
    last_head,
    parse_proof,
    prove_growth,
    prove_record,
)
from reenact.audit.replay_proof import check_replay_proof, is_replay_proof
from reenact.audit.seen_heads import Seen, SeenHeads
from reenact.audit.verify import verify_export
from reenact.audit.verify_records import Report
from reenact.cli._client import heads_path, signed_in_client
from reenact.cli._output import (
    Column,
    clip,
    count,
    escape_controls,
    field,
    json_line,
    preview,
    print_result,
    print_table,
    size,
    time_field,
)
from reenact.cli._parser import (
    Command,
    Group,
    argument,
    json_flag,
    list_flags,
    number,
    since_and_until,
    takes,
    times,
)
from reenact.cli.server._exchange_text import first_line
from reenact.errors import AuditInvalid, UsageError
from reenact.search.query import moment

__all__ = ["COMMANDS"]


def _nested(name: str, field: str) -> Any:
    def cell(record: dict[str, Any]) -> str:
        inner = record.get(name)
        found = inner.get(field) if isinstance(inner, dict) else None
        return str(found) if found else "-"

    return cell


_TABLE: tuple[Column, ...] = (
    ("seq", lambda one: str(one.get("seq", "-"))),
    ("when", time_field("at")),
    ("who", lambda one: str(one.get("actorName") or _nested("actor", "id")(one))),
    ("action", field("action")),
    ("environment", field("env")),
    ("exchange", _nested("source", "exchangeId")),
    ("about", lambda one: _about(one)),
    ("outcome", field("outcome")),
    ("code", field("code")),
)


def _about(one: dict[str, Any]) -> str:
    """Return the replay, or the subject by name or id, or the permission."""
    subject = one.get("subject")
    if one.get("replayId") or not isinstance(subject, dict):
        return field("replayId", "permission")(one)
    return f"{subject.get('type')} {one.get('subjectName') or subject.get('id')}"


def ls(args: argparse.Namespace) -> int:
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
    print_table(args, map(_with_names, found), _TABLE, "no such record")
    return 0


def _with_names(item: dict[str, Any]) -> dict[str, Any]:
    """Return the record, with its number and the names of its actor and subject."""
    inner = item.get("record")
    if not isinstance(inner, dict):
        return item
    names = {name: item.get(name) or "" for name in ("actorName", "subjectName")}
    return {**inner, "seq": item.get("seq"), **names}


def head(args: argparse.Namespace) -> int:
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
    data = signed_in_client().text("/api/v1/audit/key")
    if args.json:
        lines = data.decode("utf-8", "replace").splitlines()
        print(json_line({"keys": [line.rpartition(" ")[2] for line in lines]}))
    else:
        _write(args.output, data)
    return 0


def _write(output: str | None, data: bytes) -> None:
    """Write data to a file unchanged, or print it escaped."""
    if output is not None:
        Path(output).write_bytes(data)
        print(f"wrote {output}", file=sys.stderr)
        return
    for line in data.decode("utf-8", "replace").splitlines():
        print(escape_controls(line))


def export(args: argparse.Namespace) -> int:
    query = {} if args.format == "tar" else {"format": args.format}
    target = Path(args.output or f"audit.{args.format}")
    if target.exists():
        raise UsageError(f"{target} already exists", hint="choose a different file: -o FILE")
    beside = target.with_name(f"{target.name}.tmp")
    try:
        written = signed_in_client().download("/api/v1/audit/export", beside, query)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    found = {"path": str(target), "size": written}
    return print_result(args, found, f"wrote {target}, {size(written)}")


def prove(args: argparse.Namespace) -> int:
    if args.export is not None:
        data = prove_record(open_bundle(Path(args.export)), args.seq).to_text().encode()
    else:
        data = signed_in_client().text(f"/api/v1/audit/proof/{args.seq}")
    found = parse_proof(data)
    target = Path(args.output or f"{args.seq}{SUFFIX}")
    target.write_bytes(data)
    wrote = {"path": str(target), "seq": found.index, "size": found.head.size}
    text = f"wrote {target}: record {found.index} of {found.head.size}"
    return print_result(args, wrote, text)


_PROOF = b"c2sp.org/tlog-proof"
_LARGE = 64_000_000
_LISTED = 20
_SHOWN = 2_000


def verify(args: argparse.Namespace) -> int:
    keys = [key for text in args.key for key in _keys(text)]
    if args.file is None:
        with tempfile.TemporaryDirectory(prefix="reenact-") as folder:
            export = Path(folder) / "audit.tar"
            signed_in_client().download("/api/v1/audit/export", export)
            return _export(args, export, keys, fetched=True)
    path = Path(args.file)
    if path.is_dir():
        return _export(args, path, keys, fetched=False)
    with path.open("rb") as file:
        start = file.read(64)
    if start.startswith(_PROOF):
        return _verify_record(args, path.read_bytes(), _needed(keys))
    if is_replay_proof(start):
        return _replay(args, path, _needed(keys))
    return _export(args, path, keys, fetched=False)


def _keys(text: str) -> list[Key]:
    """Return a verifier key, or the keys in a file such as ``key.pub``."""
    path = Path(text)
    if "+" in text and not path.exists():
        return [Key.from_text(text)]
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [Key.from_text(line.rpartition(" ")[2]) for line in lines if line.strip()]


def _needed(keys: list[Key]) -> list[Key]:
    if keys:
        return keys
    raise UsageError(
        "a proof shows something only to who has the verifier key of the log",
        hint="get it once, by a way you trust, and keep it: reenact audit key -o key.pub; --key key.pub",
    )


# An export


def _export(args: argparse.Namespace, path: Path, keys: list[Key], *, fetched: bool) -> int:
    heads = SeenHeads(heads_path(os.environ))
    origin = open_bundle(path).manifest.origin
    known = None if args.head else heads.last(origin)
    pinned = Path(args.head).read_bytes() if args.head else None
    if known is not None:
        pinned = known.to_text().encode()
    report = verify_export(path, keys, pinned)
    seen: Seen | None = None
    if report.ok and not args.forget and (keys or fetched):
        seen = _keep(heads, path, keys, known.size if known is not None else 0)
    if args.json:
        print(json_line({**report.to_json(), "seen": seen}))
    else:
        _print_report(report, seen)
    return 0 if report.ok else AuditInvalid.exit_code


def _keep(heads: SeenHeads, path: Path, keys: list[Key], before: int) -> Seen:
    """Store the last head. At the next verification the log has to be an extension of it."""
    bundle = open_bundle(path)
    last = last_head(bundle)
    growth = prove_growth(bundle, before, last.size) if 0 < before < last.size else []
    return heads.see(last.to_text().encode(), [*keys, *(one.key for one in bundle.keys)], growth)


def _print_report(report: Report, seen: Seen | None) -> None:
    state = "verified" if report.ok else "NOT what was signed"
    heads = count(report.heads, "head")
    print(f"{escape_controls(report.origin)}: {count(report.size, 'record')}, {heads}: {state}")
    if report.first_at is not None and report.last_at is not None:
        print(f"  from {moment(report.first_at)} to {moment(report.last_at)}")
    for finding in report.findings[:_LISTED]:
        print(f"  {finding.code:<18} {escape_controls(finding.message)}")
    hidden = sum(report.counts.values()) - len(report.findings[:_LISTED])
    if hidden > 0:
        print(f"  and {count(hidden, 'more finding')}")
    if report.first_bad is not None:
        print(f"  the first bad record is {report.first_bad}")
    _print_proven(report.proven, report.not_proven)
    if seen == "first":
        print("  the head was stored: later exports of this log must extend it")


def _print_proven(proven: tuple[str, ...], not_proven: tuple[str, ...]) -> None:
    for one in proven:
        print(f"  proven: {escape_controls(one)}")
    for one in not_proven:
        print(f"  not proven: {escape_controls(one)}")


# Proofs


def _verify_record(args: argparse.Namespace, data: bytes, keys: list[Key]) -> int:
    proof, envelope = check_proof(data, keys)
    record = msgspec.json.decode(proof.leaf)
    origin = proof.head.checkpoint.origin
    return print_result(
        args,
        {"ok": True, "origin": origin, "seq": envelope.seq, "record": record},
        f"{origin} has record {envelope.seq}, of {proof.head.size}: verified",
        f"  {moment(envelope.at)}  {envelope.action}",
        f"  {preview(record, 4_000)}",
    )


def _replay(args: argparse.Namespace, path: Path, keys: list[Key]) -> int:
    if path.stat().st_size > _LARGE:
        raise UsageError(f"{path} is too large to be the proof of a replay")
    shown = check_replay_proof(path.read_bytes(), keys)
    finished = shown.finished
    values: dict[str, Any] = {
        name: value
        for name, value in (
            ("recorded", shown.payload_before),
            ("replayed", shown.payload_after),
            ("output", shown.output),
        )
        if value is not msgspec.UNSET
    }
    if args.json:
        records = [msgspec.to_builtins(one) for one in (shown.requested, finished) if one]
        said = {"proven": shown.proven, "notProven": shown.not_proven, "values": _plain(values)}
        print(json_line({"ok": True, "replayId": shown.replay_id, "records": records, **said}))
        return 0
    actor, source = shown.requested.actor, shown.requested.source
    print(
        f"replay {escape_controls(shown.replay_id)} of {escape_controls(source.exchange_id if source else '?')}: verified"
    )
    print(
        f"  asked for by {escape_controls(actor.type)} {escape_controls(actor.id)}, {moment(shown.requested.at)}"
    )
    if finished is not None:
        verdict = finished.diff_summary.verdict if finished.diff_summary else ""
        words = " ".join(filter(None, (finished.outcome, finished.code, verdict)))
        print(f"  ended {moment(finished.at)}: {escape_controls(words)}")
        if finished.trace_digest:
            print(f"  trace {escape_controls(finished.trace_digest)}")
    for name, value in values.items():
        print(f"  {name:<8} {_gist(value)}")
    _print_proven(shown.proven, shown.not_proven)
    return 0


def _gist(value: Any) -> str:
    """Describe a payload without its headers, or a result. The file and ``--json`` have everything."""
    if not isinstance(value, dict):
        return preview(_plain(value), _SHOWN)
    if isinstance(value.get("error"), dict):
        error = value["error"]
        return clip(escape_controls(f"{error.get('type')}: {error.get('message', '')}"), _SHOWN)
    payload = value["result"] if isinstance(value.get("result"), dict) else value
    body, properties = (payload.get(name) or {} for name in ("body", "properties"))
    if not (isinstance(body, dict) and isinstance(properties, dict) and (body or properties)):
        return preview(_plain(value), _SHOWN)
    content = body.get("text") or body.get("base64") or ""
    return clip(
        escape_controls(" ".join(filter(None, (first_line(properties), str(content))))), _SHOWN
    )


def _plain(value: Any) -> Any:
    """Describe a body; binary data by its size."""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [*map(_plain, value)]
    return value


COMMANDS = {
    "audit": Group(
        description="Everything that people do on a server is in a log that can be shown not to have been changed. "
        "These commands read it, and verify it without believing the server.",
        example="reenact audit verify",
        commands={
            "ls": Command(
                summary="find records",
                description="Lists the records of the audit log: who did what, when, where, and how it ended.",
                example="reenact audit ls --action replay.requested --since 7d",
                arguments=takes(
                    argument("--actor ID", "only what this user, key or agent did"),
                    argument("--action NAME", "only this action, e.g. replay.requested"),
                    argument("--exchange ID", "only about this exchange"),
                    argument("--replay ID", "only about this replay"),
                    argument("--environment NAME", "only in this environment"),
                    argument("--outcome NAME", "only what ended so, e.g. denied"),
                    times,
                    list_flags("the records"),
                ),
                run=ls,
            ),
            "head": Command(
                summary="the newest signed head",
                description="Prints the newest head of the log, as text. With a stored head you can check later "
                "that the log still has the same beginning.",
                example="reenact audit head -o head",
                arguments=takes(
                    argument("-o, --output FILE", "write it to a file"),
                    json_flag("the head as JSON"),
                ),
                run=head,
            ),
            "key": Command(
                summary="the verifier keys of the log",
                description="Prints the keys that verify the heads of the log. Compare them once with a copy from "
                "another channel, and store them.",
                example="reenact audit key -o key.pub",
                arguments=takes(
                    argument("-o, --output FILE", "write them to a file"),
                    json_flag("the keys as JSON"),
                ),
                run=key,
            ),
            "export": Command(
                summary="write the complete log to a file",
                description="Writes the log with all signed heads for offline verification, or its records as a list.",
                example="reenact audit export -o audit.tar",
                arguments=takes(
                    argument("-o, --output FILE", "the file to write, otherwise audit.FORMAT"),
                    argument(
                        "--format",
                        "tar is the whole log with its proofs; the others are lists of the records",
                        choices=("tar", "jsonl", "csv"),
                        default="tar",
                    ),
                    json_flag("what was written as JSON"),
                ),
                run=export,
            ),
            "verify": Command(
                summary="find out whether the log is what was signed",
                description="Recomputes everything, offline: an export, a .tlog-proof, or the output of exchange "
                "prove. Without a file it downloads the server's log, and does not trust it either. "
                "The last head of each log is stored, and the log has to be an extension of it the "
                "next time. Reports what is proven and what is not. Exit code 3 when something is "
                "wrong.",
                example="reenact audit verify audit.tar --key key.pub",
                arguments=takes(
                    argument(
                        "file [FILE]",
                        "an export, a .tlog-proof, or what exchange prove wrote; else the server's log",
                    ),
                    argument(
                        "--key KEY...",
                        "a verifier key that you trust, or a file with it (repeatable)",
                    ),
                    argument(
                        "--head FILE", "a head from before, otherwise the last one you have seen"
                    ),
                    argument("--forget", "do not remember the head for the next time"),
                    json_flag("the report as JSON"),
                ),
                run=verify,
            ),
            "prove": Command(
                summary="write the proof of a record",
                description="Writes a file that proves, with the log's verifier key, that the log has a record.",
                example="reenact audit prove 17 -o 17.tlog-proof",
                arguments=takes(
                    argument("seq SEQ", "the number of the record", type=number),
                    argument("-o, --output FILE", "the file to write, otherwise SEQ.tlog-proof"),
                    argument("--export FILE", "take it out of this export, and ask no server"),
                    json_flag("what was written as JSON"),
                ),
                run=prove,
            ),
        },
    )
}
