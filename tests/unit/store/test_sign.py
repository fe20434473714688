from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from reenact.errors import SignatureInvalid, SinkError, UsageError
from reenact.store.sign import check_signature, new_key, sign, signature_path
from reenact.store.verify import verify
from tests.unit.store.samples import notes, read_manifest, record, rewrite_manifest

CONTAINERS = pytest.mark.parametrize("name", ["capture", "tape.jsonl"])


@CONTAINERS
def test_the_holder_of_the_key_can_be_told(tmp_path: Path, name: str) -> None:
    path = record(tmp_path / name, notes(2))
    public = new_key(tmp_path / "key")
    target = sign(path, read_manifest(path), tmp_path / "key")
    assert target == signature_path(path)
    check_signature(path, read_manifest(path), public)
    assert verify(path).manifest.event_count == 2
    assert set(json.loads(target.read_bytes())) == {"algorithm", "publicKey", "signature"}


def test_the_private_key_is_private_and_never_overwritten(tmp_path: Path) -> None:
    public = new_key(tmp_path / "key")
    assert public == tmp_path / "key.pub"
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    private = (tmp_path / "key").read_bytes()
    with pytest.raises(SinkError):
        new_key(tmp_path / "key")
    public.unlink()
    with pytest.raises(SinkError, match="cannot create"):
        new_key(tmp_path / "key")
    assert (tmp_path / "key").read_bytes() == private


@CONTAINERS
def test_an_unsigned_recording_says_how_to_sign_it(tmp_path: Path, name: str) -> None:
    path = record(tmp_path / name, notes(1))
    with pytest.raises(SignatureInvalid, match="is not signed") as caught:
        check_signature(path, read_manifest(path), new_key(tmp_path / "key"))
    assert caught.value.hint == f"reenact sign {path} --key KEY"
    assert caught.value.exit_code == 3


def test_the_signature_of_somebody_else_is_told_apart(tmp_path: Path) -> None:
    path = record(tmp_path / "c", notes(1))
    new_key(tmp_path / "mine")
    theirs = new_key(tmp_path / "theirs")
    sign(path, read_manifest(path), tmp_path / "mine")
    with pytest.raises(SignatureInvalid, match="signed with another key"):
        check_signature(path, read_manifest(path), theirs)


def test_an_edited_manifest_with_a_fitting_hash_is_noticed(tmp_path: Path) -> None:
    path = record(tmp_path / "c", notes(1))
    public = new_key(tmp_path / "key")
    sign(path, read_manifest(path), tmp_path / "key")
    rewrite_manifest(path, createdAt=1)
    verify(path)
    with pytest.raises(SignatureInvalid, match="changed after it was signed"):
        check_signature(path, read_manifest(path), public)


def test_a_field_that_was_added_inside_is_noticed(tmp_path: Path) -> None:
    path = record(tmp_path / "c", notes(1))
    public = new_key(tmp_path / "key")
    sign(path, read_manifest(path), tmp_path / "key")
    rewrite_manifest(path, model={"provider": "example", "model": "m-1", "added": 1})
    with pytest.raises(SignatureInvalid, match="changed after it was signed"):
        check_signature(path, read_manifest(path), public)


def test_a_claimed_key_without_its_signature_is_noticed(tmp_path: Path) -> None:
    """Somebody signs with a key of their own and writes ours beside it."""
    path = record(tmp_path / "c", notes(1))
    ours = new_key(tmp_path / "ours")
    sign(path, read_manifest(path), tmp_path / "ours")
    true = json.loads(signature_path(path).read_bytes())
    new_key(tmp_path / "theirs")
    sign(path, read_manifest(path), tmp_path / "theirs")
    forged = json.loads(signature_path(path).read_bytes())
    forged["publicKey"] = true["publicKey"]
    signature_path(path).write_text(json.dumps(forged), encoding="utf-8")
    with pytest.raises(SignatureInvalid, match="changed after"):
        check_signature(path, read_manifest(path), ours)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"\xff",
        b'{"algorithm":"ed25519","publicKey":"x","signature":"*"}',
        b'{"algorithm":"none","publicKey":"","signature":""}',
    ],
)
def test_a_signature_file_that_is_none_is_invalid(tmp_path: Path, content: bytes) -> None:
    path = record(tmp_path / "c", notes(1))
    signature_path(path).write_bytes(content)
    with pytest.raises(SignatureInvalid):
        check_signature(path, read_manifest(path), new_key(tmp_path / "key"))


def test_a_file_that_is_no_key_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    path = record(tmp_path / "c", notes(1))
    public = new_key(tmp_path / "key")
    (tmp_path / "text").write_text("not a key", encoding="utf-8")
    for wrong in (tmp_path / "text", tmp_path / "none", public):
        with pytest.raises(UsageError):
            sign(path, read_manifest(path), wrong)
    for wrong in (tmp_path / "text", tmp_path / "none", tmp_path / "key"):
        with pytest.raises(UsageError):
            check_signature(path, read_manifest(path), wrong)
