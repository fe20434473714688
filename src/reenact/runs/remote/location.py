"""A recording that is elsewhere, and who can get it."""

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
    """``name`` is what it is called in reports, and can be said on the command line:
    ``capture:cap_…``, ``exchange:…``, ``s3://bucket/key``."""

    keeper: StoreKind
    name: str
    version: str = ""
    """Another one for other content: a digest, or what the store says."""

    @property
    def key(self) -> str:
        """The same for the same content of the same name."""
        said = f"{self.name}\n{self.version}".encode("utf-8", "surrogateescape")
        return sha256(said).hexdigest()[:40]

    @property
    def where(self) -> str:
        """The name, without who keeps it."""
        return self.name.removeprefix(f"{self.keeper}:").removeprefix("//")


Location = Path | RemoteRecording
"""A recording that is here, or elsewhere."""


def is_remote(name: str) -> bool:
    """Is this the name of something that is not in a folder of this machine?"""
    return name.startswith(_PREFIXES)


class RemoteStore(Protocol):
    """Gets recordings, from any number of threads."""

    def fetch(self, remote: RemoteRecording, folder: Path) -> None:
        """Write it into the empty ``folder`` as ``RECORDING``, verified to its last file; and as
        ``GIVEN``, in JSON, what its program was given, where the recording itself does not say it.

        Raises :class:`RecordingMissing`, :class:`RecordingError` for one that is not whole,
        :class:`ServerRefused` for one that may not be read, :class:`ServerUnusable` when nobody
        answers, and OSError when it cannot be written.
        """


Opener = Callable[[bytes], Mapping[StoreKind, RemoteStore]]
"""Makes libraries of means of access, on whatever machine. Raises :class:`UsageError`."""
