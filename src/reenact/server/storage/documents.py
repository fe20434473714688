"""Values as they lie in the database: JSON, compressed."""

from __future__ import annotations

import zlib
from typing import Any, Final, TypeVar

import msgspec

from reenact.exchange.model import Exchange
from reenact.server.problems import Problem

__all__ = ["exchange_of", "pack", "unpack"]

T = TypeVar("T")
_LEVEL: Final = 3


def pack(value: Any) -> bytes:
    """``value`` for the database."""
    return zlib.compress(msgspec.json.encode(value), _LEVEL)


def unpack(data: bytes, kind: type[T]) -> T:
    """Return the value of :func:`pack`. Raises :class:`Problem` for damaged data."""
    try:
        return msgspec.json.decode(zlib.decompress(data), type=kind)
    except (zlib.error, msgspec.DecodeError):
        raise Problem(
            "damaged", "a stored value cannot be read", hint="restore the database from a copy"
        ) from None


def exchange_of(row: Any) -> Exchange:
    """The exchange of a row that has its content."""
    return unpack(row.document, Exchange)
