"""Recordings made by hand whose few lines stand for a lot; every hash of the log fits."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from reenact.format.canonical import digest, digest_bytes
from reenact.store.log import Tally
from tests.integration.small import write_small

__all__ = ["FIRST", "delta", "forge", "multiplying"]

FIRST = b'{"args":1,"callId":"c","name":"f","text":"' + b"w" * 150 + b'"}'


def forge(path: Path, data: list[bytes], blobs: tuple[bytes, ...] = ()) -> Path:
    """A capture whose events have ``data``, stored as it is; every hash of the log fits."""
    manifest: dict[str, Any] = write_small(path).to_json()
    head = json.loads((path / "events.jsonl").read_bytes().splitlines()[0])
    head.pop("data")
    tally = Tally()
    lines = []
    for seq, one in enumerate(data, 1):
        start = json.dumps({**head, "seq": seq}, separators=(",", ":")).encode()
        lines.append(start[:-1] + b',"data":' + one + b"}\n")
        tally.add(lines[-1])
    for file in list((path / "blobs").rglob("*")):
        if file.is_file():
            file.unlink()
    for blob in blobs:
        name = digest_bytes(blob).removeprefix("sha256:")
        (path / "blobs" / name[:2]).mkdir(exist_ok=True)
        (path / "blobs" / name[:2] / name).write_bytes(blob)
    (path / "events.jsonl").write_bytes(b"".join(lines))
    points = tally.checkpoints()
    manifest |= {"eventCount": len(lines), "lanes": 1}
    manifest["integrity"]["eventsHash"] = tally.digest()
    manifest["integrity"]["checkpoints"] = {"every": points.every, "hashes": points.hashes}
    without = {k: v for k, v in manifest["integrity"].items() if k != "manifestHash"}
    manifest["integrity"]["manifestHash"] = digest({**manifest, "integrity": without})
    (path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return path


def delta(of: list[int], ops: list[Any], payload: bytes) -> bytes:
    checked = f"sha256:{hashlib.sha256(payload).hexdigest()[:16]}"
    return json.dumps({"$delta": {"digest": checked, "of": of, "ops": ops}}).encode()


def multiplying(steps: int, times: int = 30) -> list[bytes]:
    """The text of each event is ``times`` that of the event before it."""
    start, size = FIRST.index(b"w"), FIRST.count(b"w")
    made = [FIRST]
    for seq in range(2, steps + 2):
        ops = [[0, start + size], *[[start, size]] * (times - 1), [start + size, 2]]
        size *= times
        payload = FIRST[:start] + b"w" * size + b'"}' if size < 1 << 24 else b""
        made.append(delta([seq - 1], ops, payload))
    return made
