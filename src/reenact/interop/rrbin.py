"""X07 cassettes, ``*.rrbin``, as a foreign format. The codec is :mod:`reenact.rr.rrbin`."""

from __future__ import annotations

from collections.abc import Iterable

from reenact.interop.model import Exchange, Found, Item, Losses, Made
from reenact.rr.entries import Entry
from reenact.rr.rrbin import decode, encode

__all__ = ["read", "write"]


def read(content: bytes) -> Found:
    """Return the entries of a cassette. Raises :class:`RecordingDamaged` that names the frame."""
    found = Found()
    for entry, unknown in decode(content):
        found.items.append(entry)
        found.losses.note("entry_fields", unknown)
    return found


def write(items: Iterable[Item]) -> Made:
    """A cassette. HTTP calls are entries of the kind ``http``: the method is the op, the URL the
    key."""
    made = Made(b"", 0)
    frames = []
    for number, item in enumerate(items):
        entry = _of_exchange(item, made.losses) if isinstance(item, Exchange) else item
        frames.append(encode(entry, number))
    made.content, made.calls = b"".join(frames), len(frames)
    return made


def _of_exchange(exchange: Exchange, losses: Losses) -> Entry:
    losses.note("status")
    losses.note("headers")
    losses.note("times")
    return Entry(
        kind="http",
        op=exchange.request.method,
        key=exchange.request.url.encode(),
        req=exchange.request.body,
        resp=exchange.body,
    )
