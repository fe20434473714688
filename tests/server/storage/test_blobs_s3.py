"""Blobs in a real store that speaks S3: made once, verified when they are read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from reenact.errors import UsageError
from reenact.format.canonical import digest_bytes
from reenact.server.blobs import Blobs, FolderBlobs, open_blobs
from reenact.server.problems import Problem

BUCKET = "recordings"


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    settings = {
        "AWS_ENDPOINT_URL": s3,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "no_proxy": "127.0.0.1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=s3, region_name="us-east-1")
    client.create_bucket(Bucket=BUCKET)
    yield client
    for one in client.list_objects_v2(Bucket=BUCKET).get("Contents", []):
        client.delete_object(Bucket=BUCKET, Key=one["Key"])
    client.delete_bucket(Bucket=BUCKET)
    client.close()


@pytest.fixture
def blobs(bucket: Any, tmp_path: Path) -> Blobs:
    return open_blobs(f"s3://{BUCKET}/some/where", tmp_path)


def keys(bucket: Any) -> list[str]:
    return [one["Key"] for one in bucket.list_objects_v2(Bucket=BUCKET).get("Contents", [])]


def test_what_was_put_can_be_got(bucket: Any, blobs: Blobs) -> None:
    async def work() -> None:
        for data in (b"", b"content", b"x" * 6_000_000):
            digest = await blobs.put("t-1", data)
            assert digest == digest_bytes(data)
            assert await blobs.get("t-1", digest) == data

    asyncio.run(work())
    assert len(keys(bucket)) == 3
    for key in keys(bucket):
        assert key.startswith("some/where/tenants/t-1/sha256/")


def test_what_is_there_is_never_replaced(bucket: Any, blobs: Blobs) -> None:
    digest = asyncio.run(blobs.put("t-1", b"content"))
    (key,) = keys(bucket)
    before = bucket.head_object(Bucket=BUCKET, Key=key)["LastModified"]
    bucket.put_object(Bucket=BUCKET, Key=key, Body=b"changed")
    assert asyncio.run(blobs.put("t-1", b"content")) == digest
    assert bucket.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"changed"
    assert bucket.head_object(Bucket=BUCKET, Key=key)["LastModified"] >= before


def test_what_is_not_what_was_put_is_told(bucket: Any, blobs: Blobs) -> None:
    digest = asyncio.run(blobs.put("t-1", b"content"))
    bucket.put_object(Bucket=BUCKET, Key=keys(bucket)[0], Body=b"changed")
    with pytest.raises(Problem) as damaged:
        asyncio.run(blobs.get("t-1", digest))
    assert damaged.value.code == "damaged"


def test_what_is_erased_is_gone(bucket: Any, blobs: Blobs) -> None:
    digest = asyncio.run(blobs.put("t-1", b"content"))
    for _ in range(2):
        asyncio.run(blobs.erase("t-1", digest))
    assert keys(bucket) == []
    with pytest.raises(Problem) as erased:
        asyncio.run(blobs.get("t-1", digest))
    assert erased.value.code == "gone"


def test_tenants_have_their_own(blobs: Blobs) -> None:
    digest = asyncio.run(blobs.put("t-1", b"content"))
    with pytest.raises(Problem) as missing:
        asyncio.run(blobs.get("t-2", digest))
    assert missing.value.code == "gone"


@pytest.mark.parametrize("digest", ["", "x", "sha256:../../etc", "md5:" + "0" * 64])
def test_what_is_no_digest_is_no_name(blobs: Blobs, digest: str) -> None:
    with pytest.raises(Problem):
        asyncio.run(blobs.get("t-1", digest))


@pytest.mark.parametrize("tenant", ["", "..", "a/b", ".hidden"])
def test_what_is_no_tenant_is_no_name(bucket: Any, blobs: Blobs, tenant: str) -> None:
    with pytest.raises(Problem):
        asyncio.run(blobs.put(tenant, b"content"))
    assert keys(bucket) == []


def test_a_bucket_that_is_not_there_is_told(bucket: Any, tmp_path: Path) -> None:
    blobs = open_blobs("s3://nobody-made-this", tmp_path)
    with pytest.raises(Problem) as told:
        asyncio.run(blobs.put("t-1", b"content"))
    assert told.value.code == "unavailable"


@pytest.mark.parametrize("where", ["s3://", "s3:///x", "s3://b?x=1", "gs://b", "https://b"])
def test_a_place_that_is_none_is_told(tmp_path: Path, where: str) -> None:
    with pytest.raises(UsageError) as told:
        open_blobs(where, tmp_path)
    assert "s3://bucket" in str(told.value.hint)


def test_a_folder_is_a_folder(tmp_path: Path) -> None:
    for where, folder in (("", "default"), (str(tmp_path / "named"), "named")):
        found = open_blobs(where, tmp_path / "default")
        assert isinstance(found, FolderBlobs)
        assert found.folder == tmp_path / folder
