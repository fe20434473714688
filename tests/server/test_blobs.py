"""Blobs: written once, verified when they are read, in a folder of their tenant."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from reenact.format.canonical import digest_bytes
from reenact.server.blobs import FolderBlobs
from reenact.server.problems import Problem


def test_what_was_put_can_be_got(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)

    async def work() -> None:
        for data in (b"", b"content", b"x" * 100_000):
            digest = await blobs.put("t-1", data)
            assert digest == digest_bytes(data)
            assert await blobs.put("t-1", data) == digest
            assert await blobs.get("t-1", digest) == data

    asyncio.run(work())
    names = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(names) == 3
    for path in names:
        assert path.parent.parent == tmp_path / "t-1"
        assert path.name.startswith(path.parent.name)


def test_tenants_have_their_own(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    digest = asyncio.run(blobs.put("t-1", b"content"))
    with pytest.raises(Problem) as missing:
        asyncio.run(blobs.get("t-2", digest))
    assert missing.value.code == "gone"


def test_what_is_not_what_was_put_is_told(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    digest = asyncio.run(blobs.put("t-1", b"content"))
    (path,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    path.write_bytes(b"changed")
    with pytest.raises(Problem) as damaged:
        asyncio.run(blobs.get("t-1", digest))
    assert damaged.value.code == "damaged"


@pytest.mark.parametrize("digest", ["", "x", "sha256:../../etc", "md5:" + "0" * 64])
def test_what_is_no_digest_is_no_path(tmp_path: Path, digest: str) -> None:
    with pytest.raises(Problem):
        asyncio.run(FolderBlobs(tmp_path).get("t-1", digest))


@pytest.mark.parametrize("tenant", ["", "..", "a/b", ".hidden"])
def test_what_is_no_tenant_is_no_folder(tmp_path: Path, tenant: str) -> None:
    with pytest.raises(Problem):
        asyncio.run(FolderBlobs(tmp_path).put(tenant, b"content"))
    assert list(tmp_path.iterdir()) == []
