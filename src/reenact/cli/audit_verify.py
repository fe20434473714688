"""``audit verify``: an export, the proof of a record, or the proof of a replay; all of it offline.

The verifier key and the head from before come from the command line, or from what this user has
seen before. Without a file the export is fetched from the server, and still not believed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from reenact.audit.bundle import open_bundle
from reenact.audit.extracting import last_head, prove_growth
from reenact.audit.findings import Report
from reenact.audit.heads import Heads, Seen
from reenact.audit.keys import Key
from reenact.audit.proof import check_proof
from reenact.audit.replay_proof import check_replay_proof, is_replay_proof
from reenact.audit.verify import verify_export
from reenact.cli.client import signed_in_client
from reenact.cli.exchange_text import first_line
from reenact.cli.render import clip, count, escape_controls, json_line, preview
from reenact.cli.signed_in import heads_path
from reenact.errors import AuditInvalid, UsageError
from reenact.search.moments import moment

__all__ = ["verify"]

_PROOF = b"c2sp.org/tlog-proof"
_LARGE = 64_000_000
_LISTED = 20
_SHOWN = 2_000


def verify(args: argparse.Namespace) -> int:
    """The command ``audit verify``."""
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
        return _record(args, path.read_bytes(), _needed(keys))
    if is_replay_proof(start):
        return _replay(args, path, _needed(keys))
    return _export(args, path, keys, fetched=False)


def _keys(text: str) -> list[Key]:
    """A verifier key, or those in a file such as ``key.pub``."""
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
    heads = Heads(heads_path(os.environ))
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


def _keep(heads: Heads, path: Path, keys: list[Key], before: int) -> Seen:
    """Remember the last head, so that the next time the log has to have grown from it."""
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
        print("  its head is kept: from now on this log has to grow from it")


def _print_proven(proven: tuple[str, ...], not_proven: tuple[str, ...]) -> None:
    for one in proven:
        print(f"  proven: {escape_controls(one)}")
    for one in not_proven:
        print(f"  not proven: {escape_controls(one)}")


# Proofs


def _record(args: argparse.Namespace, data: bytes, keys: list[Key]) -> int:
    proof, envelope = check_proof(data, keys)
    record = msgspec.json.decode(proof.leaf)
    origin = proof.head.checkpoint.origin
    if args.json:
        print(json_line({"ok": True, "origin": origin, "seq": envelope.seq, "record": record}))
        return 0
    print(f"{escape_controls(origin)} has record {envelope.seq}, of {proof.head.size}: verified")
    print(f"  {moment(envelope.at)}  {escape_controls(envelope.action)}")
    print(f"  {preview(record, 4_000)}")
    return 0


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
    """A payload without its headers, or what came of it; the file, and --json, have the whole."""
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
    """Bytes are told by their number."""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [*map(_plain, value)]
    return value
