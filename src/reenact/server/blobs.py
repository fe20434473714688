"""Blobs of tenants: large payloads, each in a folder of its tenant under its own digest.

Written once: beside, synced, renamed. Read with the digest looked at, always.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from reenact.errors import RecordingDamaged
from reenact.server.problems import Problem
from reenact.store import blobs

__all__ = ["Blobs"]


class Blobs:
    """A folder with one of :class:`reenact.store.blobs.Blobs` per tenant."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def put(self, tenant: str, data: bytes) -> str:
        """Store ``data`` and give its digest, ``sha256:…``. It is on the disk when this returns."""
        return await asyncio.to_thread(_put, self._of(tenant), data)

    async def get(self, tenant: str, digest: str) -> bytes:
        """The content. Raises :class:`Problem` ``gone`` when it is not there, ``damaged`` when it is
        not what was stored."""
        return await asyncio.to_thread(_get, self._of(tenant), digest)

    def _of(self, tenant: str) -> blobs.Blobs:
        if not tenant or tenant.startswith(".") or "/" in tenant:
            raise Problem("not_found", "there is no such tenant")
        return blobs.Blobs(self.folder / tenant)


def _put(place: blobs.Blobs, data: bytes) -> str:
    digest, made = place.put(data, sync=True)
    if made is not None:
        for folder in (made.parent, made.parent.parent):
            _sync(folder)
    return digest


def _sync(folder: Path) -> None:
    """Without this the name of a new file may be gone after a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _get(place: blobs.Blobs, digest: str) -> bytes:
    try:
        if not place.path(digest).exists():
            raise Problem("gone", "this content is not kept any more", digest=digest)
        return place.get(digest)
    except RecordingDamaged:
        raise Problem(
            "damaged",
            "stored content is not what was stored",
            hint="restore the folder of blobs from a copy",
            digest=digest[:80],
        ) from None
