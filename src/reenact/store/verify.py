"""Everything that can be checked about a recording, down to its last file.

Opening a recording checks what a replay depends on; this checks the rest too: every line strictly,
every minimum field, every blob, the content hash, and that nothing is there that does not belong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from reenact.errors import RecordingDamaged, ValueRefused
from reenact.format.canonical import decode
from reenact.format.content_hash import ContentHash
from reenact.format.event import Data, Event, decode_line, parse
from reenact.format.event_fields import PAYLOADS
from reenact.format.manifest import Manifest, Seed
from reenact.store.blobs import Blobs
from reenact.store.files import MANIFEST, TORN, foreign_entries
from reenact.store.payload_decoder import ReadLimits, blob_references
from reenact.store.reader import open_recording, unreadable
from reenact.store.source import LogSource

__all__ = ["Report", "check_blob_sizes", "check_event", "verify"]


class Report(msgspec.Struct, frozen=True):
    """A recording that is whole. ``notes`` are facts worth knowing, not faults."""

    path: Path
    manifest: Manifest
    notes: tuple[str, ...] = ()


def verify(path: Path, *, limits: ReadLimits | None = None) -> Report:
    """Check everything. Raises the error for the first thing that is wrong. ``limits`` as for
    :func:`open_recording`."""
    try:
        with open_recording(path, limits=limits) as source:
            _check_files(source)
            withheld = _check_events(source)
            _check_blobs(source)
            return Report(path, source.manifest(), tuple(_notes(source, withheld)))
    except OSError as error:
        raise unreadable(path, error) from None


def _check_files(source: LogSource) -> None:
    if not source.path.is_dir():
        return
    for entry in foreign_entries(source.path):
        raise RecordingDamaged(
            f"{entry.name} does not belong to this recording",
            place=f"file {entry.name}",
            hint="move it away; a recording holds only what its manifest accounts for",
        )


def _check_events(source: LogSource) -> int:
    """Check them all; returns how many have their payload withheld."""
    manifest = source.manifest()
    content = ContentHash()
    withheld = 0
    for event in source:
        place = source.place(event.seq)
        try:
            withheld += check_event(event, source.raw(event.seq), manifest)
        except ValueRefused as error:
            raise RecordingDamaged(
                f"{place}: {error.message}", place=f"{place}, field {error.path}"
            ) from None
        payload = event.payload
        content.add(event.lane, event.type, payload, hashlib.sha256(payload).digest())
    if content.digest() != manifest.integrity.content_hash:
        raise RecordingDamaged(
            "the events are not those the content hash was made of",
            place=f"{_manifest_name(source)}, field integrity.contentHash",
        )
    if content.lanes != manifest.lanes:
        raise RecordingDamaged(
            f"the manifest states {manifest.lanes} lanes, but the recording has {content.lanes}",
            place=f"{_manifest_name(source)}, field lanes",
        )
    return withheld


def _manifest_name(source: LogSource) -> str:
    return MANIFEST if source.path.is_dir() else f"{source.path.name}, closing line"


def check_event(event: Event, line: bytes, seed: Seed) -> bool:
    """Check that ``line`` is an event of this recording, down to its minimum fields.

    Returns whether its payload was withheld. Raises :class:`ValueRefused` and :class:`RecordingDamaged`.
    """
    written = decode_line(line)["data"]  # strictly: duplicate keys and the like
    if event.capture_id != seed.capture_id:
        raise ValueRefused("belongs to another capture", "$.captureId")
    if event.run_id != seed.run_id:
        raise ValueRefused("belongs to another run", "$.runId")
    if event.parent is not None and not 0 < event.parent < event.seq:
        raise ValueRefused(f"event {event.parent} cannot enclose event {event.seq}", "$.parent")
    data = parse(event.payload)
    if isinstance(written, dict) and "$delta" in written:
        _check_literal(written, event)
    kind = PAYLOADS.get(event.type)
    withheld = "withheld" in data
    if kind is not None and not withheld:
        kind.from_data(data)
    return withheld


def _check_literal(written: Data, event: Event) -> None:
    """Check that the fields next to a delta repeat the payload, for readers that resolve no deltas."""
    whole = decode(event.payload)
    for name, item in written.items():
        if name != "$delta" and (name not in whole or whole[name] != item):
            raise ValueRefused("is not what the delta rebuilds", f"$.data.{name}")


def check_blob_sizes(data: bytes, blobs: Blobs) -> None:
    """Check that every referenced blob of stored ``data`` exists and has the stated size."""
    for digest, size in blob_references(data, blobs).items():
        _blob_of_size(blobs, digest, size)


def _blob_of_size(blobs: Blobs, digest: str, size: int) -> int:
    found = len(blobs.get(digest))
    if found != size:
        raise RecordingDamaged(
            f"blob {digest} has {found} bytes, but its event specifies {size}",
            place=f"blob {digest}",
        )
    return found


def _check_blobs(source: LogSource) -> None:
    blobs = source.blobs
    known = source.referenced_blobs()
    expected = {blobs.path(digest): digest for digest in known}
    total = 0
    for file in blobs.files():
        if file not in expected:
            name = file.relative_to(blobs.folder)
            raise RecordingDamaged(
                f"no event refers to {blobs.folder.name}/{name}",
                place=f"file {blobs.folder.name}/{name}",
                hint="move it away; a recording holds only what its manifest accounts for",
            )
    for digest, size in known.items():
        total += _blob_of_size(blobs, digest, size)
    stated = source.manifest().blobs
    if (stated.count, stated.bytes) != (len(known), total):
        raise RecordingDamaged(
            f"the manifest states {stated.count} blobs of {stated.bytes} bytes, "
            f"but the recording has {len(known)} of {total}",
            place=f"{_manifest_name(source)}, field blobs",
        )


def _notes(source: LogSource, withheld: int) -> Iterator[str]:
    manifest = source.manifest()
    if manifest.status == "recovered":
        yield "recovered: its writer never closed it"
    if manifest.status == "error":
        yield f"ended with an error: {manifest.error or 'which one was not recorded'}"
    if (source.path / TORN).is_dir():
        yield f"{TORN}/ holds what recovery cut off"
    if withheld:
        yield f"{withheld} payload(s) withheld, because secret-like text survived redaction"
