"""Blobs in a store that speaks S3: one object each, made once, never replaced.

Where it is and who asks are said as for every program: ``AWS_ENDPOINT_URL``, ``AWS_REGION``,
``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY`` and the like; without keys those of the machine.
"""

from __future__ import annotations

import os
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from reenact.errors import ExtraMissing, UsageError
from reenact.format.canonical import digest_bytes
from reenact.server.blobs import Blobs, check_tenant, damaged, gone
from reenact.server.problems import Problem

if TYPE_CHECKING:
    from obstore.store import S3Store

__all__ = ["open_s3"]

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
        raise UsageError(f"{where} names no bucket", hint="say s3://bucket or s3://bucket/prefix")
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
