"""X07 cassettes, opened in place by their own names."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import reenact
from reenact import PathRefused, RecordingMissing, rr
from reenact.rr.entries import (
    CFG_INVALID,
    ENTRY_INVALID,
    KIND_MISMATCH,
    MISS,
    MODE_FORBIDS_APPEND,
    MODE_FORBIDS_NEXT,
    OPEN_FAILED,
    OVER_CASSETTE_BYTES,
    TRUNCATED,
)
from reenact.rr.rrbin import decode, encode
from tests.unit.rr.cassettes import counts, raises_number, write

FETCH, SEND = "std.rr.fetch_v1", "std.stream.src.rr_send_v1"
SMOKE = (
    rr.Entry(kind="rr", op=FETCH, key=b"C", req=b"C", resp=b"PONG"),
    rr.Entry(kind="rr", op=SEND, key=b"C", req=b"C", resp=b"PONG"),
)
GOLDEN = "1b193ab3d99cdbb8"
"""The first digits of the SHA-256 of the smoke cassette in X07's repository."""

BYTES = b"".join(encode(entry, number) for number, entry in enumerate(SMOKE))
PATH = ".reenact/cassettes/smoke.rrbin"


def _put(root: Path, content: bytes = BYTES, path: str = PATH) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def _entries(file: Path) -> list[rr.Entry]:
    return [entry for entry, _ in decode(file.read_bytes())]


@pytest.mark.parametrize("path", [PATH, ".x07_rr/smoke.rrbin"])
def test_a_cassette_of_x07_is_replayed_as_it_is(root: Path, path: str) -> None:
    assert hashlib.sha256(BYTES).hexdigest().startswith(GOLDEN)
    file = _put(root, path=path)
    with rr.scope({"path": "smoke.rrbin", "mode": 2}) as handle:
        assert counts(handle)["bytes"] == len(BYTES)
        assert rr.next(handle, "rr", FETCH, "C") == SMOKE[0]
        assert b"".join(rr.stream("C", chunk_max_bytes=64)) == b"PONG"
        with raises_number(MISS):
            rr.next(handle, "rr", FETCH, "C")
        with raises_number(MODE_FORBIDS_APPEND):
            rr.append(handle, SMOKE[0])
    assert file.read_bytes() == BYTES
    assert os.listdir(file.parent) == ["smoke.rrbin"]


def test_transcripts_of_x07_are_matched_in_order(root: Path) -> None:
    _put(root)
    with rr.scope({"path": "smoke.rrbin", "match_mode": 1}) as handle:
        with raises_number(KIND_MISMATCH):
            rr.next(handle, "http", FETCH, "C")
        assert rr.next(handle, "rr", FETCH, b"") == SMOKE[0]


def test_an_empty_cassette_of_x07_has_no_entries(root: Path) -> None:
    _put(root, b"")
    with rr.scope({"path": "smoke.rrbin"}) as handle:
        assert counts(handle)["entries"] == 0


@pytest.mark.parametrize("root_of_rr", ["fixtures/replay", "fixtures/replay/rr"])
def test_a_fixture_root_has_its_cassettes_in_rr_or_is_that_folder(
    root: Path, root_of_rr: str
) -> None:
    _put(root, path="fixtures/replay/rr/smoke.rrbin")
    _put(root, b"", ".x07_rr/smoke.rrbin")
    with rr.scope({"path": "smoke.rrbin", "fixture_root": root_of_rr}) as handle:
        assert rr.next(handle, "rr", FETCH, "C").resp == b"PONG"


def test_a_cassette_cut_off_at_the_end_is_2014(root: Path) -> None:
    for length in (len(BYTES) - 1, 3):
        _put(root, BYTES[:length])
        with raises_number(TRUNCATED):
            rr.open({"path": "smoke.rrbin"})


def test_a_cassette_with_a_damaged_entry_is_2008(root: Path) -> None:
    _put(root, BYTES.replace(b"\x03\x00\x00\x00err", b"\x03\x00\x00\x00erx"))
    with raises_number(ENTRY_INVALID) as caught:
        rr.open({"path": "smoke.rrbin"})
    assert "smoke.rrbin, frame 1" in caught.value.message


def test_a_missing_cassette_of_x07_is_2002(root: Path) -> None:
    with raises_number(OPEN_FAILED) as caught:
        rr.open({"path": "smoke.rrbin"})
    assert str(root / PATH) in caught.value.message
    assert "reenact import made of it is read as smoke.jsonl" in caught.value.hint
    (root / PATH).parent.mkdir(parents=True)
    os.mkfifo(root / PATH)
    with raises_number(ENTRY_INVALID) as caught:
        rr.open({"path": "smoke.rrbin"})
    assert "not a regular file" in caught.value.message


def test_the_imported_cassette_is_opened_where_the_file_is_missing(root: Path) -> None:
    write(*SMOKE)
    with rr.scope({"path": "smoke.rrbin", "mode": 2}) as handle:
        assert rr.next(handle, "rr", FETCH, "C") == SMOKE[0]
    with reenact.session("smoke.rrbin", mode=2, unused="allow"):
        assert list(rr.stream("C")) == [b"PONG"]


def test_a_session_names_the_command_that_imports_the_cassette(root: Path) -> None:
    file = _put(root)
    for name in ("smoke.rrbin", "smoke"):
        with pytest.raises(RecordingMissing) as caught, reenact.session(name, mode="replay"):
            pass
        assert f"reenact import {file}" in caught.value.hint
    with pytest.raises(reenact.RecordingDamaged) as damaged:
        reenact.session(tape=file, mode="replay").__enter__()
    assert f"reenact import {file}" in damaged.value.hint
    with pytest.raises(PathRefused, match="X07 cassette"):
        reenact.session("smoke.rrbin", mode="record")
    file.unlink()
    file = _put(root, path=".x07_rr/api/smoke.rrbin")
    with pytest.raises(RecordingMissing) as caught:
        reenact.session("api/smoke.rrbin", mode="replay").__enter__()
    target = root / ".reenact/cassettes/api/smoke.jsonl"
    assert f"reenact import {file} -o {target}," in caught.value.hint


def test_recording_writes_the_bytes_that_x07_writes(root: Path) -> None:
    write(*SMOKE, path="smoke.rrbin")
    assert (root / PATH).read_bytes() == BYTES
    assert os.listdir((root / PATH).parent) == ["smoke.rrbin"]
    with raises_number(OPEN_FAILED) as caught:
        rr.open({"path": "smoke.rrbin", "mode": 1})
    assert "rewrite" in caught.value.hint
    write(SMOKE[0], path="smoke.rrbin", append=True)
    assert _entries(root / PATH) == [*SMOKE, SMOKE[0]]
    write(SMOKE[1], path="smoke.rrbin", overwrite=True)
    assert _entries(root / PATH) == [SMOKE[1]]


def test_a_new_cassette_goes_into_x07s_folder_if_there_is_one(root: Path) -> None:
    (root / ".x07_rr").mkdir()
    write(*SMOKE, path="smoke.rrbin")
    assert (root / ".x07_rr/smoke.rrbin").read_bytes() == BYTES


def test_record_missing_adds_to_the_cassette_of_x07(root: Path) -> None:
    file = _put(root)
    new = rr.Entry(kind="rr", op=FETCH, key=b"D", resp=b"\xff")
    for already in (False, True):
        with rr.scope({"path": "smoke.rrbin", "mode": 3}) as handle:
            assert rr.next(handle, "rr", FETCH, "C") == SMOKE[0]
            if already:
                assert rr.next(handle, "rr", FETCH, "D") == new
                continue
            with raises_number(MISS):
                rr.next(handle, "rr", FETCH, "D")
            rr.append(handle, new)
            with raises_number(MISS):
                rr.next(handle, "rr", FETCH, "D")
            assert file.read_bytes() == BYTES
        assert file.read_bytes() == BYTES + encode(new, 2)


def test_a_rewrite_replaces_the_cassette_of_x07_at_its_end(root: Path) -> None:
    file = _put(root)
    with rr.scope({"path": "smoke.rrbin", "mode": 4}) as handle, raises_number(MODE_FORBIDS_NEXT):
        rr.next(handle, "rr", FETCH, "C")
    assert file.read_bytes() == BYTES
    with pytest.raises(LookupError), rr.scope({"path": "smoke.rrbin", "mode": 4}) as handle:
        rr.append(handle, SMOKE[1])
        raise LookupError
    assert file.read_bytes() == BYTES
    with rr.scope({"path": "smoke.rrbin", "mode": 4}) as handle:
        rr.append(handle, SMOKE[1])
        assert file.read_bytes() == BYTES
    assert _entries(file) == [SMOKE[1]]
    assert os.listdir(file.parent) == ["smoke.rrbin"]


def test_off_touches_no_cassette_of_x07(root: Path) -> None:
    with rr.scope({"path": "smoke.rrbin", "mode": 0}) as handle:
        assert counts(handle)["cassettes"] == 0
    assert list(root.iterdir()) == []


def test_two_writers_of_one_cassette_are_refused(root: Path) -> None:
    with rr.scope({"path": "smoke.rrbin", "mode": 1}) as handle:
        with raises_number(OPEN_FAILED) as caught:
            rr.open({"path": "smoke.rrbin", "mode": 4})
        assert "another program" in caught.value.message
        rr.append(handle, SMOKE[0])
    assert _entries(root / PATH) == [SMOKE[0]]


KILLED = """
import os
from reenact import rr
handle = rr.open({"path": "smoke.rrbin", "mode": 1})
rr.append(handle, {"kind": "rr", "op": "x", "key": "C", "resp": "PONG"})
os._exit(9)
"""


def test_entries_of_a_killed_recording_are_in_the_unfinished_file(root: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED], cwd=root, check=False, timeout=60)
    part = root / f"{PATH}.part"
    assert [entry.resp for entry in _entries(part)] == [b"PONG"]
    with raises_number(OPEN_FAILED) as caught:
        rr.open({"path": "smoke.rrbin", "mode": 1})
    assert str(part) in caught.value.message
    write(SMOKE[0], path="smoke.rrbin", mode="rewrite")
    assert _entries(root / PATH) == [SMOKE[0]]
    assert not part.exists()


def test_a_forked_child_reads_on_and_writes_nothing(root: Path) -> None:
    with rr.scope({"path": "smoke.rrbin", "mode": 1}) as handle:
        rr.append(handle, SMOKE[0])
        child = os.fork()
        if not child:
            try:
                rr.append(handle, SMOKE[1])
            except reenact.RrError as error:
                os._exit(7 if error.number == OPEN_FAILED else 8)
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert _entries(root / PATH) == [SMOKE[0]]


def test_entries_without_room_on_the_disk_leave_the_cassette_unchanged(root: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    file = _put(root)
    handle = rr.open({"path": "smoke.rrbin", "mode": 3})
    part = os.open("/dev/full", os.O_WRONLY)
    for fd in os.listdir("/proc/self/fd"):
        if os.path.islink(f"/proc/self/fd/{fd}") and os.readlink(f"/proc/self/fd/{fd}").endswith(
            "smoke.rrbin.part"
        ):
            os.dup2(part, int(fd))
    os.close(part)
    with raises_number(OPEN_FAILED):
        rr.append(handle, {"kind": "rr", "op": FETCH, "key": "D"})
    with raises_number(OPEN_FAILED):
        rr.close(handle)
    assert file.read_bytes() == BYTES


def test_secrets_are_redacted_in_what_is_written_and_served_as_they_are(root: Path) -> None:
    secret = b"sk-" + b"Zq81" * 9
    write(rr.Entry(kind="rr", op=FETCH, key=b"C", resp=secret), path="smoke.rrbin")
    assert secret not in (root / PATH).read_bytes()
    keys = [b"ghp_" + letter * 36 for letter in (b"a", b"b")]
    made = [rr.Entry(kind="rr", op=FETCH, key=key, resp=key) for key in keys]
    _put(root, b"".join(encode(entry, number) for number, entry in enumerate(made)))
    with rr.scope({"path": "smoke.rrbin"}) as handle:
        assert [rr.next(handle, "rr", FETCH, key).resp for key in reversed(keys)] == keys[::-1]
        with raises_number(MISS):
            rr.next(handle, "rr", FETCH, b"ghp_" + b"c" * 36)


@pytest.mark.parametrize(
    "path", ["../smoke.rrbin", "/smoke.rrbin", ".x07_rr/smoke.rrbin", "a\\b.rrbin", ".rrbin"]
)
def test_paths_that_leave_the_folder_are_2000(root: Path, path: str) -> None:
    _put(root, path=".x07_rr/smoke.rrbin")
    _put(root, path="smoke.rrbin")
    for fixtures in ({}, {"fixture_root": "fixtures"}):
        with raises_number(CFG_INVALID):
            rr.open({"path": path, **fixtures})
    with raises_number(CFG_INVALID):
        rr.open({"path": "smoke.rrbin", "fixture_root": "."})


def test_a_symlink_out_of_x07s_folder_is_2000(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = _put(tmp_path_factory.mktemp("outside"))
    (root / ".x07_rr").mkdir()
    (root / ".x07_rr/smoke.rrbin").symlink_to(outside)
    with raises_number(CFG_INVALID):
        rr.open({"path": "smoke.rrbin"})
    shutil.rmtree(root / ".x07_rr")
    (root / ".x07_rr").symlink_to(outside.parent)
    with raises_number(CFG_INVALID):
        rr.open({"path": "smoke.rrbin"})


def test_budgets_count_the_bytes_of_the_frames(root: Path) -> None:
    file = _put(root)
    for content in (BYTES, b"damaged".ljust(len(BYTES))):  # it is not even read
        file.write_bytes(content)
        with raises_number(OVER_CASSETTE_BYTES):
            rr.open({"path": "smoke.rrbin", "max_cassette_bytes": len(BYTES) - 1})
    file.write_bytes(BYTES)
    handle = rr.open({"path": "smoke.rrbin", "max_cassette_bytes": len(BYTES)})
    assert json.loads(rr.stats(handle))["bytes"] == len(BYTES)
    rr.close(handle)
