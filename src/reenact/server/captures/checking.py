"""A packed capture, unpacked and verified to its last file before it is kept."""

from __future__ import annotations

import lzma
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from reenact.errors import ReenactError
from reenact.server.ports import Limits
from reenact.server.problems import Problem
from reenact.store.pack import unpack

__all__ = ["CaptureFacts", "check"]

_LOOSER: Final = 16
"""How many times larger than it may be packed a capture may be unpacked."""


class CaptureFacts(msgspec.Struct, frozen=True):
    """What its manifest says."""

    capture_id: str
    name: str
    events: int
    content_hash: str


def check(data: bytes, limits: Limits) -> CaptureFacts:
    """The facts of the packed capture ``data``. Raises :class:`Problem` for what is none, or not
    whole. Reads and writes files: not for the event loop."""
    try:
        with tempfile.TemporaryDirectory(prefix="reenact-") as folder:
            packed = Path(folder, "packed")
            packed.write_bytes(data)
            report = unpack(
                packed,
                Path(folder, "capture"),
                most=_LOOSER * limits.capture,
                limits=limits.read,
            )
    except (ReenactError, lzma.LZMAError) as error:
        raise Problem(
            "payload_invalid",
            f"this is no packed capture that is whole: {error}",
            hint="make one with reenact pack",
        ) from None
    manifest = report.manifest
    return CaptureFacts(
        manifest.capture_id, manifest.run_id, manifest.event_count, manifest.integrity.content_hash
    )
