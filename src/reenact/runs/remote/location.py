"""Locations of recordings, and the interface of stores with remote ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Literal, Protocol

import msgspec

__all__ = [
    "GIVEN",
    "RECORDING",
    "Location",
    "Opener",
    "RemoteRecording",
    "RemoteStore",
    "StoreKind",
    "is_remote",
]

RECORDING, GIVEN = "recording", "given.json"

StoreKind = Literal["capture", "exchange", "s3"]
_PREFIXES = ("capture:", "exchange:", "s3://")


class RemoteRecording(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """Recording on a server or in an object store.

    ``name`` is used in reports and on the command line: ``capture:cap_…``, ``exchange:…``,
    ``s3://bucket/key``.
    """

    keeper: StoreKind
    name: str
    version: str = ""
    """Identifier of the content: a digest, or the version in the store."""

    @property
    def key(self) -> str:
        """Return the cache key, which depends on name and content."""
        content = f"{self.name}\n{self.version}".encode("utf-8", "surrogateescape")
        return sha256(content).hexdigest()[:40]

    @property
    def where(self) -> str:
        """Return the name without the prefix of its store."""
        return self.name.removeprefix(f"{self.keeper}:").removeprefix("//")


Location = Path | RemoteRecording
"""Local path or remote recording."""


def is_remote(name: str) -> bool:
    """Return True if ``name`` has the prefix of a remote recording."""
    return name.startswith(_PREFIXES)


class RemoteStore(Protocol):
    """Store of remote recordings. Thread-safe."""

    def fetch(self, remote: RemoteRecording, folder: Path) -> None:
        """Write the recording as ``RECORDING`` into the empty ``folder`` and verify every file.

        Input of the program that the recording does not contain is written as ``GIVEN``, in JSON.
        Raises :class:`RecordingMissing`, :class:`RecordingError` for an incomplete recording,
        :class:`ServerRefused` without permission, :class:`ServerUnusable` without a response, and
        :class:`OSError` if it cannot be written.
        """


Opener = Callable[[bytes], Mapping[StoreKind, RemoteStore]]
"""Function that converts an access, as bytes, to the stores that it opens.

It runs on the machine that replays. Raises :class:`UsageError`.
"""
