"""Blobs of tenants: large payloads, each under its tenant and its own digest.

Written once. Read with the digest looked at, always. In a folder, here; or in a store that speaks S3,
in ``blobs_s3``.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Protocol

from reenact.errors import RecordingDamaged, UsageError
from reenact.server.problems import Problem
from reenact.store.payloads import blobs

__all__ = ["Blobs", "FolderBlobs", "check_tenant", "damaged", "gone", "open_blobs"]


class Blobs(Protocol):
    """Where content is kept, for each tenant apart."""

    async def put(self, tenant: str, data: bytes) -> str:
        """Store ``data`` and give its digest, ``sha256:…``. It is safe when this returns."""

    async def get(self, tenant: str, digest: str) -> bytes:
        """The content. Raises :class:`Problem` ``gone`` when it is not there, ``damaged`` when it is
        not what was stored."""

    async def erase(self, tenant: str, digest: str) -> None:
        """Forget the content for good; nothing happens when it is not there."""


def open_blobs(where: str, default: Path) -> Blobs:
    """The blobs at ``where``: a folder, or ``s3://bucket/prefix``; in ``default`` when it is empty,
    made, where it is missing, for its owner only. Raises :class:`UsageError`."""
    scheme, separator, _ = where.partition("://")
    if not where:
        default.mkdir(mode=0o700, exist_ok=True)
        return FolderBlobs(default)
    if not separator:
        return FolderBlobs(Path(where))
    if scheme != "s3":
        raise UsageError(
            f"blobs cannot be kept at {scheme}://", hint="name a folder, or s3://bucket/prefix"
        )
    from reenact.server.blobs_s3 import open_s3

    return open_s3(where)


def check_tenant(tenant: str) -> None:
    """Raises :class:`Problem` for what is none: it becomes part of a name."""
    if not tenant or tenant.startswith(".") or "/" in tenant:
        raise Problem("not_found", "there is no such tenant")


def gone(digest: str) -> Problem:
    """What is raised when there is no content of this digest."""
    return Problem("gone", "this content is not kept any more", digest=digest)


def damaged(digest: str) -> Problem:
    """What is raised when content is not what its digest says."""
    return Problem(
        "damaged",
        "stored content is not what was stored",
        hint="restore the blobs from a copy",
        digest=digest[:80],
    )


class FolderBlobs:
    """A folder with one of :class:`reenact.store.payloads.blobs.Blobs` per tenant. Several servers may share
    it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def put(self, tenant: str, data: bytes) -> str:
        return await asyncio.to_thread(_put, self._of(tenant), data)

    async def get(self, tenant: str, digest: str) -> bytes:
        return await asyncio.to_thread(_get, self._of(tenant), digest)

    async def erase(self, tenant: str, digest: str) -> None:
        await asyncio.to_thread(_erase, self._of(tenant), digest)

    def _of(self, tenant: str) -> blobs.Blobs:
        check_tenant(tenant)
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
            raise gone(digest)
        return place.get(digest)
    except RecordingDamaged:
        raise damaged(digest) from None


def _erase(place: blobs.Blobs, digest: str) -> None:
    try:
        file = place.path(digest)
    except RecordingDamaged:
        raise damaged(digest) from None
    file.unlink(missing_ok=True)
