from __future__ import annotations

import os
import stat
import subprocess
import sys
import traceback
from base64 import b64encode
from pathlib import Path

import pytest

from reenact.errors import ExtraMissing, RecordingDamaged, SinkUnwritable, UsageError
from reenact.store.seal import KEY_SIZE, Seal, key_path, load_key, make_key

KEY = bytes(range(32))


@pytest.mark.parametrize(
    "environ,path",
    [
        ({"REENACT_CONFIG_DIR": "/r", "XDG_CONFIG_HOME": "/x", "HOME": "/h"}, "/r/seal.key"),
        ({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}, "/x/reenact/seal.key"),
        (
            {"REENACT_CONFIG_DIR": "", "XDG_CONFIG_HOME": "", "HOME": "/h"},
            "/h/.config/reenact/seal.key",
        ),
    ],
)
def test_where_the_key_is(environ: dict[str, str], path: str) -> None:
    assert key_path(environ) == Path(path)


def test_no_key_is_none(tmp_path: Path) -> None:
    assert load_key(tmp_path / "seal.key") is None
    assert load_key(tmp_path / "no" / "folder" / "seal.key") is None


def test_a_key_is_made_once_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "config" / "reenact" / "seal.key"
    key = make_key(path)
    assert len(key) == KEY_SIZE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
    assert make_key(path) == load_key(path) == key
    assert os.listdir(path.parent) == ["seal.key"]


def test_a_strict_umask_and_a_loose_one_make_the_same_file(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_key(tmp_path / "loose" / "seal.key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "loose" / "seal.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "loose").stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "seal.key"
    path.write_bytes(KEY)
    path.chmod(mode)
    with pytest.raises(UsageError, match="read by others") as refused:
        load_key(path)
    assert "chmod 600" in refused.value.hint
    with pytest.raises(UsageError):
        make_key(path)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_file_that_is_no_key_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "seal.key"
    path.write_bytes(b"k" * size)
    path.chmod(0o600)
    with pytest.raises(UsageError, match="32 bytes"):
        load_key(path)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SinkUnwritable, match="cannot be written"):
        make_key(tmp_path / "file" / "seal.key")


RACER = """
import sys
from pathlib import Path
from reenact.store.seal import make_key
sys.stdin.readline()
sys.stdout.write(make_key(Path(sys.argv[1])).hex())
"""


def test_processes_that_make_the_key_at_once_agree(tmp_path: Path) -> None:
    path = tmp_path / "config" / "seal.key"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environ,
            text=True,
        )
        for _ in range(6)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    keys = {racer.communicate()[0] for racer in racers}
    key = load_key(path)
    assert key is not None
    assert keys == {key.hex()}
    assert os.listdir(path.parent) == ["seal.key"]


def test_a_box_opens_with_its_key_and_context() -> None:
    seal = Seal(KEY)
    box = seal.close(b"open sesame", b"event 7 $.token")
    assert set(box) == {"nonce", "box"}
    assert seal.open(box, b"event 7 $.token") == b"open sesame"
    assert Seal(KEY).open(box, b"event 7 $.token") == b"open sesame"


def test_equal_values_make_different_boxes() -> None:
    seal = Seal(KEY)
    assert seal.close(b"x", b"") != seal.close(b"x", b"")


@pytest.mark.parametrize(
    "change",
    [
        {"box": b64encode(b"0" * 27).decode()},
        {"nonce": b64encode(b"0" * 12).decode()},
        {"nonce": ""},
        {"nonce": "not base64 !"},
        {"box": ""},
    ],
)
def test_a_changed_box_does_not_open(change: dict[str, str]) -> None:
    seal = Seal(KEY)
    box = {**seal.close(b"open sesame", b"here"), **change}
    with pytest.raises(RecordingDamaged) as damaged:
        seal.open(box, b"here")
    assert damaged.value.place == "sealed"


def test_a_moved_box_or_another_key_does_not_open() -> None:
    box = Seal(KEY).close(b"open sesame", b"here")
    with pytest.raises(RecordingDamaged):
        Seal(KEY).open(box, b"there")
    with pytest.raises(RecordingDamaged):
        Seal(bytes(32)).open(box, b"here")
    with pytest.raises(RecordingDamaged):
        Seal(KEY).open({"nonce": box["nonce"]}, b"here")


def test_the_key_id_tells_keys_apart_and_not_the_key() -> None:
    assert Seal(KEY).key_id == Seal(KEY).key_id
    assert Seal(KEY).key_id != Seal(bytes(32)).key_id
    assert len(Seal(KEY).key_id) == 16
    assert repr(Seal(KEY)) == f"Seal(key_id='{Seal(KEY).key_id}')"


def test_no_plain_text_in_an_error() -> None:
    box = Seal(KEY).close(b"open sesame", b"here")
    with pytest.raises(RecordingDamaged) as damaged:
        Seal(bytes(32)).open(box, b"here")
    shown = "".join(traceback.format_exception(damaged.value))
    assert "open sesame" not in shown
    assert damaged.value.__cause__ is None


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(UsageError, match="32 bytes"):
        Seal(b"short")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ExtraMissing) as missing:
        Seal(KEY)
    assert "reenact[seal]" in missing.value.hint
