"""Making an exchange of the spool ready to be sent: its capture becomes one packed file.

What was packed stays packed: sent again after a crash, it is the same to the byte.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import msgspec

from reenact.errors import RecordingError, SinkError
from reenact.exchange.link.spool import CAPTURE, PACKED, Entry
from reenact.exchange.model import Exchange, RecordingRef
from reenact.store.files import replace_file
from reenact.store.pack import pack

__all__ = ["Parcel", "prepare", "without_recording"]

_PRESET = 1
_CHUNK = 1 << 20


class Parcel(msgspec.Struct, frozen=True):
    """An exchange as it is sent. ``packed`` is its recording, if it has one, and ``size`` about how
    many bytes the two are in a request."""

    entry: Entry
    exchange: Exchange
    packed: Path | None
    size: int


def prepare(entry: Entry, agent_id: str) -> Parcel:
    """Pack what is not packed yet. ``agent_id`` is for exchanges that do not say whose they are.
    Raises OSError, and :class:`msgspec.MsgspecError` for what is no exchange."""
    exchange = entry.read()
    capture = entry.path / CAPTURE
    if not entry.is_file and capture.exists():
        if exchange.recording is None:
            exchange = _packed(entry, exchange, agent_id)
        shutil.rmtree(capture)
    if not exchange.agent_id:
        exchange = _rewrite(entry, exchange, agent_id=agent_id)
    packed = entry.path / PACKED if exchange.recording is not None else None
    size = entry.exchange.stat().st_size
    if packed is not None:
        size += packed.stat().st_size * 4 // 3
    return Parcel(entry, exchange, packed, size)


def without_recording(parcel: Parcel, why: str) -> Parcel:
    """The same exchange, which cannot be replayed, because its recording cannot be sent."""
    exchange = _rewrite(parcel.entry, parcel.exchange, recording=None, not_replayable=why)
    (parcel.entry.path / PACKED).unlink(missing_ok=True)
    size = parcel.entry.exchange.stat().st_size
    return Parcel(parcel.entry, exchange, None, size)


def _packed(entry: Entry, exchange: Exchange, agent_id: str) -> Exchange:
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


def _rewrite(entry: Entry, exchange: Exchange, **changes: Any) -> Exchange:
    changed = msgspec.structs.replace(exchange, **changes)
    replace_file(entry.exchange, msgspec.json.encode(changed), sync=False)
    return changed


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return f"sha256:{found.hexdigest()}"
