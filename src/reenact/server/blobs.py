"""Large payloads, stored per tenant under their digest, in a folder or in an S3 bucket.

A blob is written once. Reading always verifies the digest. The S3 client is configured as usual with
``AWS_ENDPOINT_URL``, ``AWS_REGION``, ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``, or with the
credentials of the machine.
"""

from __future__ import annotations

import asyncio
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from reenact.errors import ExtraMissing, RecordingDamaged, UsageError
from reenact.format.canonical import digest_bytes
from reenact.server.problems import Problem
from reenact.store import blobs

if TYPE_CHECKING:
    from obstore.store import S3Store

__all__ = [
    "Blobs",
    "FolderBlobs",
    "check_tenant",
    "damaged",
    "gone",
    "open_blobs",
    "open_s3",
]


class Blobs(Protocol):
    """Content storage, separate for each tenant."""

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
            f"blobs cannot be stored at {scheme}://", hint="use a folder or s3://bucket/prefix"
        )

    return open_s3(where)


def check_tenant(tenant: str) -> None:
    """Raises :class:`Problem` for what is none: it becomes part of a name."""
    if not tenant or tenant.startswith(".") or "/" in tenant:
        raise Problem("not_found", "there is no such tenant")


def gone(digest: str) -> Problem:
    """Return the problem for missing content."""
    return Problem("gone", "this content is no longer stored", digest=digest)


def damaged(digest: str) -> Problem:
    """Return the problem for content that does not match its digest."""
    return Problem(
        "damaged",
        "stored content is not what was stored",
        hint="restore the blobs from a copy",
        digest=digest[:80],
    )


class FolderBlobs:
    """A folder with one of :class:`reenact.store.blobs.Blobs` per tenant. Several servers may share
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


_PATIENCE: Final = timedelta(seconds=20)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def open_s3(where: str) -> Blobs:
    """The blobs at ``s3://bucket/prefix``. Nothing is asked yet. Raises :class:`UsageError`."""
    try:
        from obstore.store import S3Store
    except ModuleNotFoundError:
        raise ExtraMissing("keeping blobs in S3", "s3") from None
    parts = urlsplit(where)
    if not parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            f"{where} has no bucket name", hint="use s3://bucket or s3://bucket/prefix"
        )
    plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return _S3Blobs(
        S3Store(
            parts.netloc,
            prefix=parts.path.strip("/") or None,
            client_options={"allow_http": plain, "timeout": "60s"},
            retry_config={"max_retries": 3, "retry_timeout": _PATIENCE},
        )
    )


class _S3Blobs:
    """Keys are ``tenants/<tenant>/sha256/<digest>``."""

    def __init__(self, store: S3Store) -> None:
        self._store = store

    async def put(self, tenant: str, data: bytes) -> str:
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError

        digest = digest_bytes(data)
        try:
            await obstore.put_async(
                self._store, _key(tenant, digest), data, mode="create", use_multipart=False
            )
        except AlreadyExistsError:
            return digest
        except (BaseError, OSError) as error:
            raise _unavailable() from error
        return digest

    async def get(self, tenant: str, digest: str) -> bytes:
        import obstore
        from obstore.exceptions import BaseError

        try:
            found = await obstore.get_async(self._store, _key(tenant, digest))
            data = bytes(await found.bytes_async())
        except FileNotFoundError:
            raise gone(digest) from None
        except (BaseError, OSError) as error:
            raise _unavailable() from error
        if digest_bytes(data) != digest:
            raise damaged(digest)
        return data

    async def erase(self, tenant: str, digest: str) -> None:
        import obstore
        from obstore.exceptions import BaseError

        try:
            await obstore.delete_async(self._store, _key(tenant, digest))
        except FileNotFoundError:
            return
        except (BaseError, OSError) as error:
            raise _unavailable() from error


def _key(tenant: str, digest: str) -> str:
    check_tenant(tenant)
    if not _DIGEST.fullmatch(digest):
        raise damaged(digest)
    return f"tenants/{tenant}/sha256/{digest.removeprefix('sha256:')}"


def _unavailable() -> Problem:
    return Problem("unavailable", "the store of blobs does not answer", retry_after=5)
