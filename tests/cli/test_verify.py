"""``reenact verify``."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.store.reader import open_recording
from tests.cli.conftest import Run
from tests.cli.samples import begin, flip, mutation, record, record_run


def test_whole_recording(run: Run, tmp_path: Path) -> None:
    path = record_run(tmp_path / "run")
    ran = run("verify", path)
    assert (ran.code, ran.err) == (0, "")
    with open_recording(path) as source:
        integrity = source.manifest().integrity
    facts = f"11 events, 2 lanes, 1 blob, content {integrity.content_hash}"
    assert ran.out == f"{path}: ok, {facts}\n"
    assert run("verify", path, "--quiet").out == ""
    assert run("verify", path, "--json").json() == {
        "path": str(path),
        "ok": True,
        "events": 11,
        "lanes": 2,
        "blobs": {"count": 1, "bytes": 70_000},
        "status": "ok",
        "contentHash": integrity.content_hash,
        "eventsHash": integrity.events_hash,
        "signatureChecked": False,
        "notes": [],
    }


def test_first_bad_place_is_named(run: Run, tmp_path: Path) -> None:
    path = record_run(tmp_path / "run")
    line = flip(path / "events.jsonl", b"no such city")
    place = f"events.jsonl line {line}"
    ran = run("verify", path)
    assert ran.code == 3
    assert ran.out == f"{path}: damaged at {place}\n"
    assert ran.err.startswith(f"reenact: error: {place}")
    assert "restore" in ran.hint
    found = run("verify", path, "--json")
    assert found.code == 3
    assert found.json()["ok"] is False
    assert found.json()["error"]["fields"]["place"] == place


def test_damaged_blob_and_extra_file(run: Run, tmp_path: Path) -> None:
    path = record_run(tmp_path / "run")
    (path / "notes.txt").write_bytes(b"")
    ran = run("verify", path)
    assert (ran.code, ran.out) == (3, f"{path}: damaged at file notes.txt\n")
    (path / "notes.txt").unlink()
    (blob,) = (file for file in (path / "blobs").rglob("*") if file.is_file())
    flip(blob, b"b")
    ran = run("verify", path)
    assert ran.code == 3
    assert f"at blob sha256:{blob.name}" in ran.out


def test_name_of_an_extra_file_is_not_obeyed(run: Run, tmp_path: Path) -> None:
    path = record(tmp_path / "run")
    (path / "\x1b[2Jx").write_bytes(b"")
    ran = run("verify", path)
    assert ran.code == 3
    assert "\x1b" not in ran.out + ran.err
    assert "\\u001b[2Jx" in ran.out


def test_many_are_all_checked_and_the_worst_counts(run: Run, tmp_path: Path) -> None:
    good, bad, last = (record(tmp_path / name) for name in ("good", "bad", "last"))
    flip(bad / "manifest.json", b"captureId")
    ran = run("verify", good, bad, tmp_path / "none", last)
    assert ran.code == 3
    first, *middle, final = ran.out.splitlines()
    assert first.startswith(f"{good}: ok")
    assert middle == [f"{bad}: damaged at manifest.json", f"{tmp_path / 'none'}: missing"]
    assert final.startswith(f"{last}: ok")
    found = run("verify", good, bad, tmp_path / "none", last, "--json").json_lines()
    assert [each["ok"] for each in found] == [True, False, False, True]
    quiet = run("verify", good, bad, last, "--quiet")
    assert quiet.out.splitlines() == middle[:1]


def test_unfinished(run: Run, tmp_path: Path) -> None:
    recording = begin(tmp_path / "run")
    recording.add(*mutation(1))
    ran = run("verify", tmp_path / "run")
    assert (ran.code, ran.out) == (3, f"{tmp_path / 'run'}: unfinished\n")
    assert "--follow" in ran.hint
    recording.finish()
    assert run("verify", tmp_path / "run").code == 0


def test_facts_worth_knowing_are_notes(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), begin(tmp_path / "run"):
        raise ZeroDivisionError
    ran = run("verify", tmp_path / "run")
    assert ran.code == 0
    assert ran.out.splitlines()[1] == "  note: ended with an error: ZeroDivisionError"
    assert len(run("verify", tmp_path / "run", "--json").json()["notes"]) == 1


# Signatures
