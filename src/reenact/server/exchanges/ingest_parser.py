"""The lines of an ingest request: read with limits, and all of them before anything is kept (pure).

A request that cannot be read is a :class:`Problem`, and nothing of it counts. A single exchange that
is not one is set aside with a code, so that the others get through.
"""

from __future__ import annotations

import zlib
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from reenact.errors import UsageError, ValueRefused
from reenact.exchange.model import Body, Exchange, Id, Payload
from reenact.exchange.payload import check_payload, payload_digest
from reenact.format.canonical import digest_bytes, jcs
from reenact.server.exchanges.redaction import (
    CleanRecording,
    Unclean,
    clean_exchange,
    clean_recording,
)
from reenact.server.problems import Problem
from reenact.server.runtime import Limits
from reenact.server.storage.rows import pack

__all__ = [
    "Batch",
    "Taken",
    "Turned",
    "inflate",
    "read_batch",
    "split_lines",
    "taken",
    "with_clean_recordings",
]

_MOST_LINES: Final = 10_000
_LOOSER: Final = 4
"""Maximum ratio of inflated to received size."""


class Taken(msgspec.Struct, frozen=True):
    """An exchange to store, the digest of its canonical JSON, and its stored form.

    The stored form is computed here, before the transaction that blocks other writers of the
    tenant.
    """

    exchange: Exchange
    digest: str
    document: bytes


class Turned(msgspec.Struct, frozen=True):
    """An exchange that cannot, and why."""

    exchange_id: str
    code: str
    message: str


class Batch(msgspec.Struct, frozen=True):
    """Content of an ingest request, in order. ``blobs`` are keyed by their verified digests."""

    exchanges: tuple[Taken | Turned, ...]
    blobs: dict[str, bytes]


class _Blob(msgspec.Struct, frozen=True):
    digest: str
    base64: str


class _Line(msgspec.Struct, frozen=True):
    blob: _Blob | None = None
    exchange: msgspec.Raw = msgspec.Raw()


class _Named(msgspec.Struct, frozen=True, rename="camel"):
    exchange_id: Id


def inflate(parts: Iterable[bytes], most: int) -> Iterator[bytes]:
    """The content of a gzip stream, piece by piece. Raises :class:`Problem` for more than ``most``
    bytes, for what is no such stream, and for one that ends early."""
    stream, size = zlib.decompressobj(wbits=31), 0
    for part in parts:
        rest = part
        while rest:
            try:
                piece = stream.decompress(rest, 1 << 16)
            except zlib.error:
                raise Problem("malformed", "the body is not gzip") from None
            size += len(piece)
            if size > most:
                raise Problem("too_large", f"inflated it has more than {most} bytes", limit=most)
            yield piece
            rest = stream.unconsumed_tail
            if stream.unused_data:
                raise Problem("malformed", "something follows the gzip stream")
    if not stream.eof:
        raise Problem("malformed", "the gzip stream was cut short")


def read_batch(data: bytes, coding: str, limits: Limits) -> Batch:
    """Everything in a request. Raises :class:`Problem`."""
    pieces: Iterable[bytes] = (data,)
    if coding == "gzip":
        pieces = inflate(pieces, _LOOSER * limits.batch)
    elif coding not in ("", "identity"):
        raise Problem("unsupported", "Content-Encoding is gzip, or none")
    return _collect(split_lines(pieces, limits.batch), limits)


def split_lines(pieces: Iterable[bytes], most: int) -> Iterator[bytes]:
    """Split what comes in pieces into lines, in linear time. Raises :class:`Problem` for a line of more
    than ``most`` bytes."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        first, *rest = piece.split(b"\n")
        if rest:
            held.append(first)
            yield b"".join(held)
            *whole, first = rest
            yield from whole
            held, size = [], 0
        held.append(first)
        size += len(first)
        if size > most:
            raise Problem("too_large", f"a line has more than {most} bytes", limit=most)
    yield b"".join(held)


def _collect(lines: Iterable[bytes], limits: Limits) -> Batch:
    exchanges: list[Taken | Turned] = []
    blobs: dict[str, bytes] = {}
    for number, text in enumerate(lines, 1):
        if number > _MOST_LINES:
            raise Problem("too_large", f"a request has at most {_MOST_LINES} lines")
        if not text.strip():
            continue
        line = _decoded(text, number)
        if line.blob is not None:
            blobs[line.blob.digest] = _content(line.blob, number)
        elif line.exchange:
            exchanges.append(_exchange(bytes(line.exchange), number, limits))
        else:
            raise Problem("malformed", f"line {number} is neither a blob nor an exchange")
    return Batch(tuple(exchanges), blobs)


def _decoded(text: bytes, number: int) -> _Line:
    try:
        return msgspec.json.decode(text, type=_Line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem("malformed", f"line {number} cannot be read: {error}") from None


def _content(blob: _Blob, number: int) -> bytes:
    try:
        data = b64decode(blob.base64, validate=True)
    except (Base64Error, ValueError):
        raise Problem("malformed", f"the blob in line {number} is not base64") from None
    if digest_bytes(data) != blob.digest:
        raise Problem("malformed", f"the blob in line {number} does not have its digest")
    return data


def _exchange(text: bytes, number: int, limits: Limits) -> Taken | Turned:
    try:
        exchange = msgspec.json.decode(text, type=Exchange)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Turned(_name_of(text, number, error), "exchange_invalid", str(error)[:500])
    try:
        _check(exchange, limits)
        return taken(clean_exchange(exchange))
    except (UsageError, ValueRefused) as error:
        return Turned(exchange.exchange_id, "exchange_invalid", error.message[:500])


def taken(exchange: Exchange) -> Taken:
    """An exchange as it is stored. Raises :class:`ValueRefused`."""
    digest = digest_bytes(jcs(msgspec.to_builtins(exchange)))
    return Taken(exchange, digest, pack(exchange))


def with_clean_recordings(batch: Batch, limits: Limits) -> Batch:
    """``batch`` with secrets taken out of its recordings, and exchanges that name these instead.

    Reads and writes files: not for the event loop.
    """
    found: dict[str, CleanRecording] = {}
    unclean: dict[str, str] = {}
    for digest, data in batch.blobs.items():
        try:
            found[digest] = clean_recording(data, limits)
        except Unclean as error:
            unclean[digest] = str(error)
    if not unclean and not any(one.changed for one in found.values()):
        return batch
    exchanges = tuple(_renamed(one, found, unclean) for one in batch.exchanges)
    return Batch(exchanges, {digest_bytes(one.data): one.data for one in found.values()})


def _renamed(
    item: Taken | Turned, found: dict[str, CleanRecording], unclean: dict[str, str]
) -> Taken | Turned:
    if isinstance(item, Turned) or item.exchange.recording is None:
        return item
    recording = item.exchange.recording
    if recording.digest in unclean:
        why = f"its recording: {unclean[recording.digest]}"
        return Turned(item.exchange.exchange_id, "exchange_invalid", why)
    if recording.digest not in found or not found[recording.digest].changed:
        return item
    ref = found[recording.digest].ref(recording)
    return taken(msgspec.structs.replace(item.exchange, recording=ref))


def _name_of(text: bytes, number: int, why: Exception) -> str:
    try:
        return msgspec.json.decode(text, type=_Named).exchange_id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Problem("malformed", f"the exchange in line {number} has no id: {why}") from None


def _check(exchange: Exchange, limits: Limits) -> None:
    """Raises :class:`UsageError` or :class:`ValueRefused`."""
    _check_size(exchange.start, limits.payload)
    if exchange.result is not None:
        _check_size(exchange.result, limits.payload)
    if exchange.start_digest and exchange.start_digest != payload_digest(exchange.start):
        raise UsageError("startDigest does not match start")
    if not exchange.not_replayable:
        check_payload(exchange.start)
        if exchange.start.body.clipped is not None:
            raise UsageError("its body is clipped, and it does not say that it is not replayable")


def _check_size(payload: Payload, most: int) -> None:
    size = _size(payload.body)
    if size > most:
        raise UsageError(f"a body has {size} bytes, more than {most}")


def _size(body: Body) -> int:
    if body.type == "bytes":
        return len(body.base64) * 3 // 4
    return len(body.text.encode("utf-8", "surrogatepass"))
