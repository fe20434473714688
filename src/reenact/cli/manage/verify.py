"""The ``verify`` and ``sign`` commands: check that recordings are complete and unchanged."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from reenact.cli._output import count, escape_controls, json_line, os_error, print_result, report
from reenact.cli._parser import RECORDING, Command, argument, json_flag, recordings, takes
from reenact.cli._recordings import recording_at
from reenact.errors import RecordingError, UsageError
from reenact.store.verify import Report
from reenact.store.verify import verify as check

__all__ = ["COMMANDS"]


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
    events = count(found.manifest.event_count, "event")
    text = f"{path}: verified and signed, {events}; see {signature}"
    return print_result(args, {"path": str(path), "signature": str(signature)}, text)


def _made(private: Path, public: Path, args: argparse.Namespace) -> int:
    made = {"privateKey": str(private), "publicKey": str(public)}
    return print_result(
        args,
        made,
        f"private key: {private} (for signing; keep it secret)",
        f"public key: {public} (for verification: reenact verify --key)",
    )


def verify(args: argparse.Namespace) -> int:
    key = None if args.key is None else Path(args.key)
    worst = 0
    for text in args.path:
        try:
            _accept(_checked(recording_at(text), key), args)
        except (RecordingError, OSError) as found:
            if isinstance(found, BrokenPipeError):
                raise
            error = os_error(found) if isinstance(found, OSError) else found
            _reject(text, error, as_json=args.json)
            worst = max(worst, error.exit_code)
    return worst


def _checked(path: Path, key: Path | None) -> Report:
    found = check(path)
    if key is not None:
        from reenact.store.sign import check_signature

        check_signature(path, found.manifest, key)
    return found


def _accept(found: Report, args: argparse.Namespace) -> None:
    if args.json:
        print(json_line(_as_json(found, signed=args.key is not None)))
    elif not args.quiet:
        manifest = found.manifest
        facts = (
            count(manifest.event_count, "event"),
            count(manifest.lanes, "lane"),
            count(manifest.blobs.count, "blob"),
            *(("signature good",) if args.key else ()),
            f"content {manifest.integrity.content_hash}",
        )
        print(f"{escape_controls(str(found.path))}: ok, {', '.join(facts)}")
        for note in found.notes:
            print(f"  note: {escape_controls(note)}")


def _as_json(found: Report, *, signed: bool) -> dict[str, Any]:
    manifest = found.manifest
    return {
        "path": str(found.path),
        "ok": True,
        "events": manifest.event_count,
        "lanes": manifest.lanes,
        "blobs": {"count": manifest.blobs.count, "bytes": manifest.blobs.bytes},
        "status": manifest.status,
        "contentHash": manifest.integrity.content_hash,
        "eventsHash": manifest.integrity.events_hash,
        "signatureChecked": signed,
        "notes": list(found.notes),
    }


def _reject(text: str, error: RecordingError, *, as_json: bool) -> None:
    """Print the verdict with its place to stdout, and the explanation to stderr."""
    place = error.fields.get("place")
    if as_json:
        print(json_line({"path": text, "ok": False, "error": error.to_json()}), flush=True)
    else:
        where = f" at {place}" if place else ""
        print(f"{escape_controls(text)}: {_verdict(error)}{escape_controls(where)}", flush=True)
    report(error)


def _verdict(error: RecordingError) -> str:
    return _VERDICTS.get(error.code, "unreadable")


_VERDICTS = {
    "recording.missing": "missing",
    "recording.damaged": "damaged",
    "recording.signature": "signature not good",
    "recording.unfinished": "unfinished",
    "recording.too_new": "too new",
    "recording.outdated": "outdated",
}


COMMANDS = {
    "sign": Command(
        description="Signs a recording with Ed25519. A hash reveals accidents; only a signature reveals "
        "edits.",
        example="reenact sign runs/today --key release.key",
        arguments=takes(
            argument("path [PATH]", f"what to sign: {RECORDING}"),
            argument("--key FILE", "the private key to sign with"),
            argument("--new-key FILE", "make a key at FILE, its public half at FILE.pub"),
            json_flag("what was done as JSON"),
        ),
        run=sign,
    ),
    "verify": Command(
        description="Checks everything that can be checked: version, count, hashes, every line and field, every "
        "blob, and that nothing is there that does not belong. Names the first bad place.",
        example="reenact verify runs/* --key release.key.pub",
        arguments=takes(
            recordings,
            argument("--key FILE", "also require a signature that this public key confirms"),
            argument("--quiet", "print only problems"),
            json_flag("the findings as JSON, one line per recording"),
        ),
        run=verify,
    ),
}
