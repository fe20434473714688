"""Checksums over a complete log, the manifest that states them, and removal of torn tails.

Bytes that a kill left half-written are moved to ``torn/``, outside of the recording.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson

from reenact.errors import RecordingDamaged, ValueRefused
from reenact.format.content_hash import ContentHash
from reenact.format.manifest import BlobTotals, Flag, Integrity, Manifest, Model, Seed
from reenact.store.blobs import Blobs
from reenact.store.files import (
    BLOBS,
    EVENTS,
    TORN,
    create_private,
    make_private_folder,
    open_regular,
)
from reenact.store.log import LogReader, Tally, whole_size
from reenact.store.payload_decoder import blob_references, is_delta

__all__ = [
    "LogTotals",
    "blob_totals",
    "close_manifest",
    "close_manifest_json",
    "encode_json",
    "encode_manifest",
    "referenced_blobs",
    "scan",
    "set_orphans_aside",
    "set_tail_aside",
]

_MOST_MODELS: Final = 100
"""Models that a manifest lists; a run that calls more of them is a benchmark of models."""


class _Named(msgspec.Struct):
    """The fields of a model call that name its model."""

    provider: Any = ""
    model: Any = ""


_named = msgspec.json.Decoder(_Named)


class LogTotals(msgspec.Struct):
    """Totals of a log for its manifest.

    ``tally`` includes header lines, ``events`` does not. ``models`` are the called models in the
    order of their first call.
    """

    tally: Tally = msgspec.field(default_factory=Tally)
    content: ContentHash = msgspec.field(default_factory=ContentHash)
    events: int = 0
    flags: set[Flag] = msgspec.field(default_factory=set)
    sealed_key: str = ""
    models: dict[Model, None] = msgspec.field(default_factory=dict)

    def add(
        self, lane: str, kind: str, payload: bytes, digest: bytes, *, varies: bool | None = None
    ) -> None:
        """Add one event with the arguments of :meth:`ContentHash.add`. ``payload`` is redacted."""
        self.content.add(lane, kind, payload, digest, varies=varies)
        self.events += 1
        if kind == "llm_request" and len(self.models) < _MOST_MODELS:
            self._add_model(payload)

    def _add_model(self, payload: bytes) -> None:
        try:
            named = _named.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return  # the reader of the event reports it
        if isinstance(named.provider, str) and isinstance(named.model, str):
            found = Model(named.provider, named.model)
            if found != Model():
                self.models[found] = None


def scan(lines: LogReader, *, header: bytes = b"") -> LogTotals:
    """Read a log from its first event to its last whole line and add it up.

    Raises :class:`RecordingDamaged` at the first line that is not the next event.
    """
    sums = LogTotals()
    if header:
        sums.tally.add(header)
    while (line := lines.line(sums.events + 1)) is not None:
        found = lines.parse(line, sums.events + 1)
        payload = lines.payload(found)
        sums.tally.add(line)
        sums.add(found.lane, found.type, payload, hashlib.sha256(payload).digest())
        if is_delta(bytes(found.data)):
            sums.flags.add(Flag.DELTAS)
    return sums


def blob_totals(blobs: Blobs) -> BlobTotals:
    """Of all the blobs that are there."""
    sizes = [file.stat().st_size for file in blobs.files()]
    return BlobTotals(len(sizes), sum(sizes))


def close_manifest(
    seed: Seed,
    sums: LogTotals,
    *,
    blobs: BlobTotals,
    completed_at: int,
    status: str,
    error: str | None = None,
) -> Manifest:
    """Build the manifest of a log from its totals.

    Its ``model`` is taken from the seed, otherwise from the first model call.
    """
    return close_manifest_json(
        seed, sums, blobs=blobs, completed_at=completed_at, status=status, error=error
    )[0]


def close_manifest_json(
    seed: Seed,
    sums: LogTotals,
    *,
    blobs: BlobTotals,
    completed_at: int,
    status: str,
    error: str | None = None,
) -> tuple[Manifest, dict[str, Any]]:
    """:func:`close_manifest`, with the JSON form of the manifest."""
    called = list(sums.models)
    if seed.model == Model() and called:
        seed = msgspec.structs.replace(seed, model=called[0])
    return Manifest.close_json(
        seed,
        models=called if len(called) > 1 else [],
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
    return encode_json(manifest.to_json())


def encode_json(raw: dict[str, Any]) -> bytes:
    """:func:`encode_manifest` for the JSON form of a manifest."""
    return orjson.dumps(raw, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def set_tail_aside(log: Path, folder: Path, *, keep: int | None = None) -> int:
    """Move what stands behind the last whole line (or behind ``keep`` bytes) to ``torn/``.

    Returns how many bytes that was. The copy is durable before the log is cut.
    """
    size = whole_size(log) if keep is None else keep
    with open_regular(log) as file:
        file.seek(size)
        tail = file.read()
    if tail:
        aside = _free_name(folder, f"{log.name}.tail")
        with open(create_private(aside), "wb") as file:
            file.write(tail)
            file.flush()
            os.fsync(file.fileno())
        os.truncate(log, size)
    return len(tail)


def set_orphans_aside(folder: Path) -> list[str]:
    """Move blobs that no event refers to, and half-written ones, to ``torn/``. Returns names."""
    blobs = Blobs(folder / BLOBS)
    present = list(blobs.files())
    if not present:
        return []
    lines = LogReader(folder / EVENTS, blobs)
    try:
        known = {blobs.path(digest) for digest in referenced_blobs(lines, blobs)}
    finally:
        lines.close()
    orphans = [file for file in present if file not in known]
    for file in orphans:
        file.replace(_free_name(folder, file.name))
    return [file.name for file in orphans]


def referenced_blobs(lines: LogReader, blobs: Blobs) -> dict[str, int]:
    """Every blob that the events of a log refer to: digest → size."""
    found: dict[str, int] = {}
    seq = 1
    while (envelope := lines.envelope(seq)) is not None:
        try:
            found.update(blob_references(bytes(envelope.data), blobs))
        except ValueRefused as error:
            place = lines.place(seq)
            raise RecordingDamaged(f"{place}: {error.message}", place=place) from None
        seq += 1
    return found


def _free_name(folder: Path, name: str) -> Path:
    torn = folder / TORN
    make_private_folder(torn)
    number = 0
    while (path := torn / (f"{name}.{number}" if number else name)).exists():
        number += 1
    return path
