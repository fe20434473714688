"""``reenact sign``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.samples import flip, record


@pytest.fixture
def key(run: Run, tmp_path: Path) -> Path:
    pytest.importorskip("cryptography")
    made = run("sign", "--new-key", tmp_path / "release.key")
    assert made.code == 0
    return tmp_path / "release.key"


def test_sign_and_verify(key: Path, run: Run, tmp_path: Path) -> None:
    public = f"{key}.pub"
    for path in (record(tmp_path / "run"), record(tmp_path / "run.jsonl")):
        unsigned = run("verify", path, "--key", public)
        assert (unsigned.code, unsigned.out.splitlines()[0]) == (
            3,
            f"{path}: signature not good at file {_signature(path).name}",
        )
        assert unsigned.hint == f"reenact sign {path} --key KEY"
        signed = run("sign", path, "--key", key)
        assert (signed.code, signed.err) == (0, "")
        assert signed.out.startswith(f"{path}: verified and signed, 3 events")
        ran = run("verify", path, "--key", public)
        assert (ran.code, ran.err) == (0, "")
        assert "signature good" in ran.out
        assert run("verify", path, "--key", public, "--json").json()["signatureChecked"] is True


def _signature(path: Path) -> Path:
    return path / "manifest.sig" if path.is_dir() else path.with_name(f"{path.name}.sig")


def test_signature_moved_to_another_recording(key: Path, run: Run, tmp_path: Path) -> None:
    one, two = record(tmp_path / "one"), record(tmp_path / "two")
    run("sign", one, "--key", key)
    shutil.copy(_signature(one), _signature(two))
    ran = run("verify", one, two, "--key", f"{key}.pub")
    assert ran.code == 3
    assert "changed after it was signed" in ran.err


def test_json_of_signing(key: Path, run: Run, tmp_path: Path) -> None:
    path = record(tmp_path / "run")
    assert run("sign", path, "--key", key, "--json").json() == {
        "path": str(path),
        "signature": str(path / "manifest.sig"),
    }
    other = tmp_path / "other.key"
    assert run("sign", "--new-key", other, "--json").json() == {
        "privateKey": str(other),
        "publicKey": f"{other}.pub",
    }
    assert other.stat().st_mode & 0o077 == 0


def test_damaged_recording_is_not_signed(key: Path, run: Run, tmp_path: Path) -> None:
    path = record(tmp_path / "run")
    flip(path / "events.jsonl", b"counted")
    assert run("sign", path, "--key", key).code == 3
    assert not _signature(path).exists()


def test_signing_that_makes_no_sense(key: Path, run: Run, tmp_path: Path) -> None:
    path = record(tmp_path / "run")
    for words in (
        [],
        [path],
        ["--key", key],
        [path, "--new-key", tmp_path / "k"],
        [path, "--key", tmp_path / "none"],
        [path, "--key", f"{key}.pub"],
    ):
        ran = run("sign", *words)
        assert (ran.code, ran.out) == (2, ""), words
    assert run("sign", "--new-key", key).code == 2
    assert run("verify", path, "--key", key).hint == "give the .pub file"
    assert run("verify", path, "--key", tmp_path / "none").code == 2
