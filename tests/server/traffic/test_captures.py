"""``push`` and ``pull`` over HTTP: verified, once, in one tenant."""

from __future__ import annotations

import io
import lzma
import tarfile
from pathlib import Path

import httpx
import pytest

from reenact.server.runtime import Limits
from tests.cli.samples import record_run
from tests.integration.bombs import forge, multiplying
from tests.server.house import House, running
from tests.server.traffic.puppet import code_of, packed

BYTES = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def pusher(house: House) -> httpx.Client:
    return house.client(house.key("replayer"))


def test_a_capture_is_pushed_once_and_pulled(
    house: House, pusher: httpx.Client, tmp_path: Path
) -> None:
    data = packed(record_run(tmp_path / "run"))
    first = pusher.post("/api/v1/captures", content=data, headers=BYTES)
    again = pusher.post("/api/v1/captures", content=data, headers=BYTES)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert first.json()["size"] == len(data)
    assert first.json()["contentHash"]
    capture = first.json()["captureId"]
    assert pusher.get(f"/api/v1/captures/{capture}").content == data
    (listed,) = pusher.get("/api/v1/captures", params={"text": capture}).json()["items"]
    assert listed == first.json()
    assert pusher.get("/api/v1/captures", params={"since": house.clock() + 1}).json()["items"] == []
    house.tenant("other")
    stranger = house.client(house.key("replayer", tenant="other"))
    assert code_of(stranger.get(f"/api/v1/captures/{capture}")) == (404, "not_found")
    assert stranger.get("/api/v1/captures").json()["items"] == []


def test_who_may_only_read_may_not_push(house: House, pusher: httpx.Client) -> None:
    viewer = house.client(house.key("viewer"))
    answer = viewer.post("/api/v1/captures", content=b"x", headers=BYTES)
    assert code_of(answer) == (403, "permission_denied")


def _tar(name: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    return lzma.compress(out.getvalue())


@pytest.mark.parametrize(
    "data", [b"", b"nothing", lzma.compress(b"nothing"), _tar("../../up"), _tar("manifest.json")]
)
def test_what_is_no_capture_is_not_kept(pusher: httpx.Client, data: bytes) -> None:
    answer = pusher.post("/api/v1/captures", content=data, headers=BYTES)
    assert code_of(answer) == (422, "payload_invalid")
    assert pusher.get("/api/v1/captures").json()["items"] == []


def test_a_capture_that_was_changed_is_not_kept(pusher: httpx.Client, tmp_path: Path) -> None:
    data = bytearray(packed(record_run(tmp_path / "run")))
    data[len(data) // 2] ^= 1
    answer = pusher.post("/api/v1/captures", content=bytes(data), headers=BYTES)
    assert code_of(answer) == (422, "payload_invalid")


def test_upload_of_a_few_bytes_does_not_take_gigabytes(
    pusher: httpx.Client, tmp_path: Path
) -> None:
    run, out = forge(tmp_path / "run", multiplying(6)), io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("manifest.json", "events.jsonl"):
            tar.add(run / name, name)
    data = lzma.compress(out.getvalue())
    assert len(data) < 2_000
    answer = pusher.post("/api/v1/captures", content=data, headers=BYTES)
    assert code_of(answer) == (422, "payload_invalid")
    assert "event 5 expands to" in answer.json()["error"]["message"]
    assert pusher.get("/api/v1/captures").json()["items"] == []


def test_captures_that_are_too_large_packed_or_unpacked(tmp_path: Path) -> None:
    with running(tmp_path / "data", limits=Limits(capture=1_000)) as house:
        pusher = house.client(house.key("replayer"))
        large = pusher.post("/api/v1/captures", content=bytes(1_001), headers=BYTES)
        assert code_of(large) == (413, "too_large")
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            entry = tarfile.TarInfo("events.jsonl")
            entry.size = 1_000_000
            tar.addfile(entry, io.BytesIO(bytes(entry.size)))
        bomb = pusher.post("/api/v1/captures", content=lzma.compress(out.getvalue()), headers=BYTES)
        assert code_of(bomb) == (422, "payload_invalid")
        assert "more than is allowed" in bomb.json()["error"]["message"]
