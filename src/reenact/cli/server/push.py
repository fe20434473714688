"""The ``push`` and ``pull`` commands: recordings to a server and back."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from reenact.cli._client import part, signed_in_client
from reenact.cli._output import count, print_result, size
from reenact.cli._parser import RECORDING, Command, argument, json_flag, takes
from reenact.cli._recordings import PACKED, recording_at, written_json
from reenact.errors import RecordingDamaged
from reenact.format.canonical import digest_bytes
from reenact.store.pack import pack, unpack

__all__ = ["COMMANDS"]


def push(args: argparse.Namespace) -> int:
    path = recording_at(args.path)
    client = signed_in_client()
    with tempfile.TemporaryDirectory(prefix="reenact-") as folder:
        packed = Path(folder) / f"run{PACKED}"
        report = pack(path, packed)
        found = client.upload("/api/v1/captures", packed)
        large = packed.stat().st_size
        sent = digest_bytes(packed.read_bytes())
    if found.get("digest") == sent:
        _compare(
            str(found.get("contentHash", "")), report.manifest.integrity.content_hash, "the server"
        )
    else:
        print("the server has redacted secrets in the recording", file=sys.stderr)
    events = count(report.manifest.event_count, "event")
    return print_result(args, found, f"{found.get('captureId')}: {events}, {size(large)}")


def pull(args: argparse.Namespace) -> int:
    client = signed_in_client()
    target = Path(args.output) if args.output else Path(args.id)
    with tempfile.TemporaryDirectory(prefix="reenact-") as folder:
        packed = Path(folder) / f"run{PACKED}"
        client.download(f"/api/v1/captures/{part(args.id)}", packed)
        report = unpack(packed, target)
    events = count(report.manifest.event_count, "event")
    text = f"{target}: {events}, verified"
    return print_result(args, written_json(target, report.manifest), text)


def _compare(found: str, expected: str, who: str) -> None:
    if found != expected:
        raise RecordingDamaged(
            f"{who} has something else than was sent: {found[:80]}",
            place="contentHash",
            hint="push it again",
        )


COMMANDS = {
    "push": Command(
        description="Packs a recording and sends it; the server verifies it.",
        example="reenact push last",
        arguments=takes(argument("path RUN", RECORDING), json_flag("the capture as JSON")),
        run=push,
    ),
    "pull": Command(
        description="Gets a packed recording, unpacks and verifies it.",
        example="reenact pull cap_01J -o runs/received",
        arguments=takes(
            argument("id ID", "the capture"),
            argument("-o, --output DIR", "where to, otherwise a folder with the id as name"),
            json_flag("what was done as JSON"),
        ),
        run=pull,
    ),
}
