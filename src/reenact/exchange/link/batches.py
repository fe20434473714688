"""Requests of ingest and the answers to them: bytes out of parcels, results out of bytes."""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from reenact.exchange.link.packing import Parcel
from reenact.exchange.link.transport import Answer

__all__ = ["Fault", "Result", "encode", "fault_of", "results_of"]

_LEVEL = 1
"""Of gzip: most of it is packed already."""


class Result(msgspec.Struct, frozen=True, rename="camel"):
    """What the server did with one exchange."""

    exchange_id: str
    status: Literal["stored", "duplicate", "refused"]
    code: str = ""
    message: str = ""


class _Results(msgspec.Struct, frozen=True):
    results: list[Result]


class Fault(msgspec.Struct, frozen=True):
    """The one shape in which a server says what is wrong."""

    code: str = ""
    message: str = ""


class _Faulty(msgspec.Struct, frozen=True):
    error: Fault


def encode(parcels: Iterable[Parcel]) -> bytes:
    """NDJSON, compressed; each recording before the exchange that names it. Raises OSError."""
    return gzip.compress(b"".join(_lines(parcels)), compresslevel=_LEVEL, mtime=0)


def _lines(parcels: Iterable[Parcel]) -> Iterator[bytes]:
    sent: set[str] = set()
    for parcel in parcels:
        recording = parcel.exchange.recording
        if recording is not None and parcel.packed is not None and recording.digest not in sent:
            sent.add(recording.digest)
            content = b64encode(parcel.content()).decode()
            yield _line({"blob": {"digest": recording.digest, "base64": content}})
        yield _line({"exchange": parcel.exchange})


def _line(value: object) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def results_of(answer: Answer, parcels: Sequence[Parcel]) -> list[Result] | None:
    """One for each parcel, in order; None where the answer is not about them."""
    try:
        found = msgspec.json.decode(answer.body, type=_Results).results
    except msgspec.MsgspecError:
        return None
    about = [parcel.exchange.exchange_id for parcel in parcels]
    return found if [result.exchange_id for result in found] == about else None


def fault_of(answer: Answer) -> Fault:
    """What the server says; where it says nothing that can be read, the status."""
    try:
        return msgspec.json.decode(answer.body, type=_Faulty).error
    except msgspec.MsgspecError:
        return Fault(f"http_{answer.status}", f"it answers {answer.status}")
