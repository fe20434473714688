"""JSON documents from elsewhere, and how large a file may be.

A document is hostile: it may be nested without end, or say a thing twice.
"""

from __future__ import annotations

from typing import Any

from reenact.errors import ValueRefused
from reenact.format.canonical import decode
from reenact.interop.foreign import damaged

__all__ = ["MOST", "check_size", "read_json"]

MOST = 1 << 30
"""Bytes of a file that is read."""

_DEEPEST = 100


def check_size(size: int) -> None:
    """Raise :class:`RecordingDamaged` for a file of more than :data:`MOST` bytes."""
    if size > MOST:
        raise damaged(f"it has more than {MOST >> 20} MiB", "the file", "split it, or record anew")


def read_json(content: bytes) -> Any:
    """The value of a JSON document. Raises :class:`RecordingDamaged`."""
    try:
        return decode(content.removeprefix(b"\xef\xbb\xbf"), deepest=_DEEPEST)
    except ValueRefused as error:
        raise damaged(f"not JSON that can be read: {error.reason}", _shown(error.path)) from None


def _shown(path: str) -> str:
    """A path has names of the document in it, and those may be anything."""
    return "the document" if path == "$" else f"depth {path.count('.') + path.count('[')}"
