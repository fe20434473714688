"""Recordings of a few hundred bytes that stand for gigabytes: refused before anything is joined."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from reenact import open_recording, verify
from reenact.errors import RecordingDamaged, UsageError
from reenact.format.canonical import digest_bytes
from reenact.store.payload_decoder import ReadLimits, limits_from
from tests.integration.bombs import FIRST, delta, forge, multiplying

MEMORY = 1 << 30


def test_delta_that_copies_earlier_events_does_not_take_gigabytes(tmp_path: Path) -> None:
    path = forge(tmp_path / "run", multiplying(6))
    assert (path / "events.jsonl").stat().st_size < 5_000

    def little_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    done = subprocess.run(
        [sys.executable, "-m", "reenact", "verify", str(path)],
        capture_output=True,
        preexec_fn=little_memory,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3, done.stderr.decode()
    assert b"event 5 expands to" in done.stderr
    assert b"hint: if you trust the recording, raise REENACT_EVENT_LIMIT" in done.stderr


@pytest.mark.parametrize("base", [1, -1])
def test_bases_that_are_joined_count_as_well(tmp_path: Path, base: int) -> None:
    first = FIRST[:-1] + b',"response":{"body":"' + b"w" * 200 + b'"}}'
    step = delta([base] * 6_000, [[0, 1]], first[:1])
    path = forge(tmp_path / "run", [first, step])
    with (
        open_recording(path, limits=ReadLimits(event=1 << 20)) as source,
        pytest.raises(RecordingDamaged, match="event 2 expands to") as error,
    ):
        source.at(2).data  # noqa: B018
    assert error.value.fields["seq"] == 2


def test_sum_of_all_events_is_limited(tmp_path: Path) -> None:
    again = [delta([1], [[0, len(FIRST)]], FIRST) for _ in range(20)]
    path = forge(tmp_path / "run", [FIRST, *again])
    most = 10 * len(FIRST)
    with open_recording(path, limits=ReadLimits(recording=most)) as source:
        for seq in (*range(2, 12), *range(2, 12)):  # reading it again costs nothing
            assert source.at(seq).data["name"] == "f"
        with pytest.raises(RecordingDamaged, match="event 12 expands the recording to"):
            source.at(12).data  # noqa: B018


def test_chain_that_holds_many_large_events_is_refused(tmp_path: Path) -> None:
    wide = b'{"args":1,"callId":"c","name":"f","text":"' + b"y" * 2_000 + b'"}'
    middle = [delta([1], [[0, len(wide)]], wide) for _ in range(10)]
    last = delta(list(range(2, 12)), [[0, 1]], wide[:1])
    path = forge(tmp_path / "run", [wide, *middle, last])
    with (
        open_recording(path, limits=ReadLimits(event=2_200)) as source,
        pytest.raises(RecordingDamaged, match="needs earlier events of"),
    ):
        source.at(12).data  # noqa: B018


def test_blob_that_an_event_repeats_is_limited(tmp_path: Path) -> None:
    blob = b"z" * 1_000
    reference = {"$blob": digest_bytes(blob), "kind": "text", "size": len(blob)}
    data = json.dumps({"args": [reference] * 10, "callId": "c", "name": "f"}).encode()
    path = forge(tmp_path / "run", [data], (blob,))
    with open_recording(path, limits=ReadLimits(event=200_000)) as source:
        assert source.at(1).data["args"] == ["z" * 1_000] * 10
    with (
        open_recording(path, limits=ReadLimits(event=30_000)) as source,
        pytest.raises(RecordingDamaged, match="event 1 repeats blobs of"),
    ):
        source.at(1).data  # noqa: B018


def test_json_blobs_inside_each_other_do_not_grow_exponentially(tmp_path: Path) -> None:
    blobs = [b'["' + b"z" * 1_000 + b'"]']
    for _ in range(40):
        inner = {"$blob": digest_bytes(blobs[-1]), "kind": "json", "size": len(blobs[-1])}
        blobs.append(json.dumps([inner, inner]).encode())
    last = {"$blob": digest_bytes(blobs[-1]), "kind": "json", "size": len(blobs[-1])}
    data = json.dumps({"args": last, "callId": "c", "name": "f"}).encode()
    path = forge(tmp_path / "run", [data], tuple(blobs))
    with pytest.raises(RecordingDamaged, match="event 1 repeats blobs of"):
        verify(path)


def test_small_values_of_an_expanded_event_are_limited_by_the_memory_they_take(
    tmp_path: Path,
) -> None:
    start, end = b'{"args":[', b'0],"callId":"c","name":"f"}'
    first = start + b"{}," * 100 + end
    whole = start + b"{}," * 3_000 + end
    ops = [[0, len(start)], *[[len(start), 300]] * 30, [len(start) + 300, len(end)]]
    path = forge(tmp_path / "run", [first, delta([1], ops, whole)])
    with open_recording(path, limits=ReadLimits(event=len(whole) * 8)) as source:
        assert len(source.at(2).data["args"]) == 3_001
    with (
        open_recording(path, limits=ReadLimits(event=len(whole))) as source,
        pytest.raises(RecordingDamaged, match="event 2 expands to values of"),
    ):
        source.at(2).data  # noqa: B018


def test_deeply_nested_data_and_blobs_are_damage_and_not_a_crash(tmp_path: Path) -> None:
    nested = b'{"args":' + b"[" * 5_000 + b"]" * 5_000 + b',"callId":"c","name":"f"}'
    blobs = [b'["x"]']
    for _ in range(1_000):
        inner = {"$blob": digest_bytes(blobs[-1]), "kind": "json", "size": len(blobs[-1])}
        blobs.append(json.dumps([inner]).encode())
    last = {"$blob": digest_bytes(blobs[-1]), "kind": "json", "size": len(blobs[-1])}
    data = json.dumps({"args": last, "callId": "c", "name": "f"}).encode()
    for number, path in enumerate(
        (forge(tmp_path / "a", [nested]), forge(tmp_path / "b", [data], tuple(blobs)))
    ):
        with pytest.raises(RecordingDamaged, match="nested deeper than"):
            verify(path)
        page = tmp_path / f"{number}.html"
        command = [sys.executable, "-m", "reenact", "view", str(path), "-o", str(page)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        assert "Traceback" not in done.stderr
        assert done.returncode == 3, done.stderr


def test_limits_come_from_the_environment() -> None:
    found = limits_from({"REENACT_EVENT_LIMIT": "2", "REENACT_RECORDING_LIMIT": "3"})
    assert found == ReadLimits(2 << 20, 3 << 20)
    assert limits_from({}) == ReadLimits()
    for wrong in ("0", "-1", "1e3", "much"):
        with pytest.raises(UsageError, match="REENACT_EVENT_LIMIT"):
            limits_from({"REENACT_EVENT_LIMIT": wrong})
