"""The sums over a whole log, and the manifest that states them."""

from __future__ import annotations

import hashlib

import msgspec
import orjson

from reenact.format.content import ContentHash
from reenact.format.manifest import BlobTotals, Flag, Integrity, Manifest, Seed
from reenact.store.blobs import Blobs
from reenact.store.lines import Lines
from reenact.store.log import Tally
from reenact.store.resolving import is_delta

__all__ = ["Sums", "blob_totals", "close_manifest", "encode_manifest", "scan"]


class Sums(msgspec.Struct):
    """What a manifest says about a log. ``tally`` also counts header lines, ``events`` does not."""

    tally: Tally = msgspec.field(default_factory=Tally)
    content: ContentHash = msgspec.field(default_factory=ContentHash)
    events: int = 0
    flags: set[Flag] = msgspec.field(default_factory=set)
    sealed_key: str = ""


def scan(lines: Lines, *, header: bytes = b"") -> Sums:
    """Read a log from its first event to its last whole line and add it up.

    Raises :class:`RecordingDamaged` at the first line that is not the next event.
    """
    sums = Sums()
    if header:
        sums.tally.add(header)
    while (line := lines.line(sums.events + 1)) is not None:
        found = lines.parse(line, sums.events + 1)
        payload = lines.payload(found)
        sums.tally.add(line)
        sums.content.add(found.lane, found.type, payload, hashlib.sha256(payload).digest())
        sums.events += 1
        if is_delta(bytes(found.data)):
            sums.flags.add(Flag.DELTAS)
    return sums


def blob_totals(blobs: Blobs) -> BlobTotals:
    """Of all the blobs that are there."""
    sizes = [file.stat().st_size for file in blobs.files()]
    return BlobTotals(len(sizes), sum(sizes))


def close_manifest(
    seed: Seed,
    sums: Sums,
    *,
    blobs: BlobTotals,
    completed_at: int,
    status: str,
    error: str | None = None,
) -> Manifest:
    """The manifest of a log whose sums are known."""
    return Manifest.close(
        seed,
        event_count=sums.events,
        lanes=sums.content.lanes,
        integrity=Integrity(
            algorithm="sha256",
            events_hash=sums.tally.digest(),
            content_hash=sums.content.digest(),
            checkpoints=sums.tally.checkpoints(),
        ),
        blobs=blobs,
        status=status,
        completed_at=completed_at,
        error=error,
        flags=sorted(map(int, sums.flags)),
        sealed={"keyId": sums.sealed_key} if sums.sealed_key else None,
    )


def encode_manifest(manifest: Manifest) -> bytes:
    """Readable: a person opens this file first."""
    return orjson.dumps(manifest.to_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
