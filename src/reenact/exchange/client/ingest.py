"""Ingest requests: packed recordings, the request body, and the results of the server.

The capture of a folder is packed into a file, which stays. A small recording in the log is packed in
memory each time. The same recording always packs to the same bytes, so the server recognises an
exchange that is sent again after a crash.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from reenact.errors import RecordingError, SinkError
from reenact.exchange.client.spool import CAPTURE, PACKED, Entry, FolderEntry, LogEntry
from reenact.exchange.client.transport import Response
from reenact.exchange.model import Exchange, RecordingRef
from reenact.store.files import replace_file
from reenact.store.pack import pack, pack_contents

__all__ = [
    "IngestItem",
    "IngestResult",
    "encode_items",
    "prepare_item",
    "read_results",
    "without_recording",
]

_PRESET = 1
_CHUNK = 1 << 20


class IngestItem(msgspec.Struct, frozen=True):
    """Exchange in an ingest request. ``packed`` is its recording, if there is one. ``size`` is the
    approximate number of bytes in the request."""

    entry: Entry
    exchange: Exchange
    packed: Path | bytes | None
    size: int

    def content(self) -> bytes:
        """Return the packed recording, empty if there is none. Raises OSError."""
        if self.packed is None:
            return b""
        return self.packed if isinstance(self.packed, bytes) else self.packed.read_bytes()


def prepare_item(entry: Entry, agent_id: str) -> IngestItem:
    """Return the item for ``entry``, and pack its recording if necessary.

    Exchanges without an agent id get ``agent_id``. Raises OSError, and
    :class:`msgspec.MsgspecError` for a damaged entry.
    """
    if isinstance(entry, LogEntry):
        return _from_log(entry, agent_id)
    exchange = entry.read()
    capture = entry.path / CAPTURE
    if capture.exists():
        if exchange.recording is None:
            exchange = _packed(entry, exchange, agent_id)
        shutil.rmtree(capture)
    if not exchange.agent_id:
        exchange = _rewrite(entry, exchange, agent_id=agent_id)
    packed = entry.path / PACKED if exchange.recording is not None else None
    size = entry.exchange.stat().st_size
    if packed is not None:
        size += packed.stat().st_size * 4 // 3
    return IngestItem(entry, exchange, packed, size)


def _from_log(entry: LogEntry, agent_id: str) -> IngestItem:
    record = entry.record()
    exchange = record.exchange
    if not record.manifest:
        if not exchange.agent_id:
            exchange = msgspec.structs.replace(exchange, agent_id=agent_id)
        return IngestItem(entry, exchange, None, entry.size)
    if entry.unrecorded:
        return IngestItem(entry, _unrecorded(exchange, entry.unrecorded), None, entry.size)
    packed = pack_contents(record.manifest.encode(), record.events.encode())
    ref = RecordingRef(
        digest=f"sha256:{hashlib.sha256(packed).hexdigest()}",
        size=len(packed),
        content_hash=record.content_hash,
        events=record.count,
    )
    said = exchange.agent_id or agent_id
    exchange = msgspec.structs.replace(exchange, recording=ref, agent_id=said)
    return IngestItem(entry, exchange, packed, entry.size + len(packed) * 4 // 3)


def _unrecorded(exchange: Exchange, why: str) -> Exchange:
    return msgspec.structs.replace(exchange, recording=None, not_replayable=why)


def without_recording(item: IngestItem, why: str) -> IngestItem:
    """Return the item without its recording, which is too large to send. ``why`` is the reason."""
    entry = item.entry
    if isinstance(entry, LogEntry):
        entry.unrecorded = why
        return IngestItem(entry, _unrecorded(item.exchange, why), None, entry.size)
    exchange = _rewrite(entry, item.exchange, recording=None, not_replayable=why)
    (entry.path / PACKED).unlink(missing_ok=True)
    size = entry.exchange.stat().st_size
    return IngestItem(entry, exchange, None, size)


def _packed(entry: FolderEntry, exchange: Exchange, agent_id: str) -> Exchange:
    target = entry.path / PACKED
    target.unlink(missing_ok=True)  # of a try that was killed
    try:
        manifest = pack(entry.path / CAPTURE, target, preset=_PRESET).manifest
    except SinkError as error:  # nothing is wrong with the recording: the disk has no room
        raise OSError(error.fields.get("errno"), error.message) from None
    except RecordingError as error:
        why = exchange.not_replayable or f"its recording cannot be used: {error.code}"
        return _rewrite(entry, exchange, not_replayable=why)
    ref = RecordingRef(
        digest=_digest(target),
        size=target.stat().st_size,
        content_hash=manifest.integrity.content_hash,
        events=manifest.event_count,
    )
    return _rewrite(entry, exchange, recording=ref, agent_id=exchange.agent_id or agent_id)


def _rewrite(entry: FolderEntry, exchange: Exchange, **changes: Any) -> Exchange:
    changed = msgspec.structs.replace(exchange, **changes)
    replace_file(entry.exchange, msgspec.json.encode(changed), sync=False)
    return changed


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return f"sha256:{found.hexdigest()}"


_LEVEL = 1
"""Compression level of gzip. Recordings are compressed already."""


class IngestResult(msgspec.Struct, frozen=True, rename="camel"):
    """Result for one exchange of a request."""

    exchange_id: str
    status: Literal["stored", "duplicate", "refused"]
    code: str = ""
    message: str = ""


class _Results(msgspec.Struct, frozen=True):
    results: list[IngestResult]


def encode_items(items: Iterable[IngestItem]) -> bytes:
    """Return the items as compressed NDJSON. Each recording precedes its exchange. Raises OSError."""
    return gzip.compress(b"".join(_lines(items)), compresslevel=_LEVEL, mtime=0)


def _lines(items: Iterable[IngestItem]) -> Iterator[bytes]:
    sent: set[str] = set()
    for item in items:
        recording = item.exchange.recording
        if recording is not None and item.packed is not None and recording.digest not in sent:
            sent.add(recording.digest)
            content = b64encode(item.content()).decode()
            yield _line({"blob": {"digest": recording.digest, "base64": content}})
        yield _line({"exchange": item.exchange})


def _line(value: object) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def read_results(response: Response, items: Sequence[IngestItem]) -> list[IngestResult] | None:
    """Return one result for each item, in order, or None if the response is about different ones."""
    try:
        found = msgspec.json.decode(response.body, type=_Results).results
    except msgspec.MsgspecError:
        return None
    about = [item.exchange.exchange_id for item in items]
    return found if [result.exchange_id for result in found] == about else None
