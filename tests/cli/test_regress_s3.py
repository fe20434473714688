"""``reenact regress s3://…``: recordings in a real store that speaks S3."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from reenact.store.pack import pack
from tests.cli.conftest import Run
from tests.cli.remote import AGENT, BUCKET, bucket, files_of, record, settings, store, upload

TARGET = ("--target", "agentry:agent", "-q", "-j", "2")
SECRET = "-".join(["planted", "in", "the", "environment"])


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with store() as address:
        yield address


@pytest.fixture
def s3(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "agentry.py").write_text(AGENT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REENACT_CACHE", str(tmp_path / "cache"))
    for name, value in settings(address, SECRET).items():
        monkeypatch.setenv(name, value)
    with bucket(address) as client:
        yield client


@pytest.fixture
def stored(s3: Any, tmp_path: Path) -> Any:
    """A capture, a packed one, a tape; and what is none of them."""
    upload(s3, record(tmp_path / "runs/0", 0), "some/where/runs/0")
    pack(record(tmp_path / "runs/1", 1), tmp_path / "1.reenact")
    upload(s3, tmp_path / "1.reenact", "some/where/1.reenact")
    upload(s3, record(tmp_path / "2.jsonl", 2, tape=True), "some/where/2.jsonl")
    for key in ("notes.txt", "j.jsonl", "runs/0/sealed/x.json", "empty.jsonl", "runs2/"):
        s3.put_object(Bucket=BUCKET, Key=f"some/where/{key}", Body=b"" if "empty" in key else b"x")
    return s3


NAMES = [f"s3://{BUCKET}/some/where/{name}" for name in ("1.reenact", "2.jsonl", "runs/0")]


def test_packed_ones_folders_and_tapes(run: Run, stored: Any, tmp_path: Path) -> None:
    ran = run("regress", f"s3://{BUCKET}/some", *TARGET, "--journal", "j.jsonl", "--shard", "1/1")
    assert (ran.code, ran.out, ran.err) == (0, "", "reenact: 3 recordings: 3 ok\n")
    _, *lines = Path("j.jsonl").read_bytes().splitlines()
    assert sorted(json.loads(line)["recording"] for line in lines) == NAMES
    assert len(files_of(tmp_path / "cache")) == 3
    ran = run("regress", *NAMES, "runs/0", *TARGET)
    assert ran.err == "reenact: 4 recordings: 4 ok\n", "each of these names is one of its own"


def test_what_is_wrong_with_one_is_wrong_with_one(run: Run, stored: Any, tmp_path: Path) -> None:
    key = "some/where/1.reenact"
    content = bytearray(stored.get_object(Bucket=BUCKET, Key=key)["Body"].read())
    content[len(content) // 2] ^= 0xFF
    stored.put_object(Bucket=BUCKET, Key=key, Body=bytes(content))
    stored.delete_object(Bucket=BUCKET, Key="some/where/runs/0/manifest.json")
    ran = run("regress", f"s3://{BUCKET}/some/where/", *TARGET, "--json")
    found = ran.json()
    assert (ran.code, found["counts"]["ok"]) == (3, 1)
    assert {group["cause"]: group["recordings"] for group in found["groups"]} == {
        "RecordingDamaged": NAMES[:1],
        "RecordingUnfinished": NAMES[2:],
    }
    assert len(files_of(tmp_path / "cache")) == 1, "what is not whole is not kept"


def test_content_that_has_changed_is_got_anew(run: Run, stored: Any, tmp_path: Path) -> None:
    words = ("regress", NAMES[2], "-q", "--target", "agentry:changed")
    assert run(*words).code == 0
    upload(stored, record(tmp_path / "runs/other", 1), "some/where/runs/0")
    ran = run(*words)
    assert ran.code == 1
    assert f"  {NAMES[2]}\n" in ran.out


@pytest.mark.parametrize(
    "words, code, says",
    [
        ((f"s3://{BUCKET}/nowhere",), 3, f"no recording found under s3://{BUCKET}/nowhere"),
        ((f"s3://{BUCKET}/x.reenact",), 3, f"there is nothing at s3://{BUCKET}/x.reenact"),
        (("s3://nobody-made-this",), 3, "there is nothing at s3://nobody-made-this"),
    ],
    ids=["prefix", "object", "bucket"],
)
def test_what_is_not_there(run: Run, s3: Any, words: tuple[str, ...], code: int, says: str) -> None:
    ran = run("regress", *words, *TARGET)
    assert ran.code == code
    assert says in ran.err


class _Closed(BaseHTTPRequestHandler):
    """A store that lets nobody in, and repeats what it was told."""

    def do_GET(self) -> None:
        body = f"<Error><Message>{self.headers['Authorization']}</Message></Error>".encode()
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@pytest.mark.parametrize("name", [f"s3://{BUCKET}", f"s3://{BUCKET}/x.reenact"])
def test_a_store_that_refuses(run: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    server = HTTPServer(("127.0.0.1", 0), _Closed)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        for one, value in settings(f"http://127.0.0.1:{server.server_port}", SECRET).items():
            monkeypatch.setenv(one, value)
        ran = run("regress", name, *TARGET)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert ran.code == 4
    assert f"{name} cannot be read with these keys" in ran.err
    assert "Signature" not in ran.err


def test_the_secret_is_nowhere_and_a_store_that_is_away_is_told(
    run: Run, stored: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REENACT_API_KEY", "")
    reports = ("--html", "p.html", "--junit", "j.xml", "--report", "r.json", "--journal", "j.jsonl")
    ran = run("regress", NAMES[0], "-q", "--target", "agentry:tells", *reports)
    assert "RuntimeError: I know  and …" in ran.out
    for name in reports[1::2]:
        assert SECRET not in Path(name).read_text(encoding="utf-8")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    away = run("regress", f"s3://{BUCKET}", *TARGET)
    assert away.code == 3
    assert "cannot be asked for" in away.err
    assert SECRET not in away.err
