"""What the index knows of the recordings it has read, and what of that is not so any more."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import msgspec

from reenact.search.scanning import Found

__all__ = ["Known", "differing", "gone", "key_of", "read_known"]


class Known(msgspec.Struct, frozen=True):
    """A row: how the recording looked, and how far it was read (by log, as JSON)."""

    id: int
    form: str
    stamp: str
    digest: str
    read: str


def key_of(path: Path, root: Path) -> bytes:
    """What a recording is called in the index of ``root``, which may be moved as a whole."""
    text = os.path.abspath(path)
    base = os.path.join(os.path.abspath(root), "")
    return os.fsencode(text.removeprefix(base))


def read_known(database: sqlite3.Connection) -> dict[bytes, Known]:
    """All of them, by their keys."""
    rows = database.execute("SELECT path, id, form, stamp, digest, read FROM recordings")
    return {path: Known(*rest) for path, *rest in rows}


def differing(known: dict[bytes, Known], found: dict[bytes, Found]) -> list[bytes]:
    """Of what was found, what is new, has changed or has grown."""
    return [key for key, one in found.items() if _differs(known.get(key), one)]


def _differs(known: Known | None, found: Found) -> bool:
    return known is None or (known.form, known.stamp) != (found.form, found.stamp)


def gone(known: dict[bytes, Known], found: Iterable[bytes], places: Iterable[bytes]) -> list[bytes]:
    """Of what is known at and under ``places``, what is not there any more."""
    here = tuple(places)
    left = known.keys() - set(found)
    return sorted(key for key in left if any(_is_under(key, place) for place in here))


def _is_under(key: bytes, place: bytes) -> bool:
    return key == place or key.startswith(place if place.endswith(b"/") else place + b"/")
