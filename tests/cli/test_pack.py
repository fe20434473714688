"""``reenact pack`` and ``unpack``."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.store.verify import verify
from tests.cli.conftest import Run
from tests.cli.samples import flip, record, record_run


@pytest.mark.parametrize("name", ["run", "run.jsonl"])
def test_there_and_back(name: str, run: Run, tmp_path: Path) -> None:
    path, away = record_run(tmp_path / name), tmp_path / f"away-{name}"
    packed = tmp_path / f"{name}.reenact"
    ran = run("pack", path)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{packed}: 11 events, ")
    back = run("unpack", packed, away)
    assert (back.code, back.out, back.err) == (0, f"{away}: 11 events, verified\n", "")
    assert verify(away).manifest == verify(path).manifest


def test_names_are_guessed_from_each_other(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = record_run(tmp_path / "run")
    monkeypatch.chdir(path)
    assert run("pack", ".").code == 0
    path.rename(tmp_path / "kept")
    monkeypatch.chdir(tmp_path)
    ran = run("unpack", "run.reenact", "--json")
    assert ran.json()["path"] == "run"
    assert ran.json()["contentHash"] == verify(tmp_path / "kept").manifest.integrity.content_hash
    named = run("pack", "kept", "other.bin", "--json")
    assert named.json()["path"] == "other.bin"
    unnamed = run("unpack", "other.bin")
    assert (unnamed.code, unnamed.hint) == (2, "reenact unpack other.bin TARGET")


def test_what_is_there_is_not_overwritten(run: Run, tmp_path: Path) -> None:
    path = record_run(tmp_path / "run")
    assert run("pack", path).code == 0
    for words in (["pack", path], ["unpack", tmp_path / "run.reenact"]):
        ran = run(*words)
        assert (ran.code, ran.out, ran.hint) == (2, "", "choose another name")


def test_damage_is_found_on_both_sides(run: Run, tmp_path: Path) -> None:
    path, packed = record_run(tmp_path / "run"), tmp_path / "run.reenact"
    run("pack", path)
    packed.write_bytes(packed.read_bytes()[:-40])
    ran = run("unpack", packed, tmp_path / "away", "--json")
    assert ran.code == 3
    assert ran.json()["error"]["code"] == "recording.damaged"
    assert ran.hint == "get another copy"
    assert not (tmp_path / "away").exists()
    flip(path / "events.jsonl", b"no such city")
    assert run("pack", path, tmp_path / "bad").code == 3
    assert not (tmp_path / "bad").exists()


def test_missing(run: Run, tmp_path: Path) -> None:
    for words in (["pack", tmp_path / "none"], ["unpack", tmp_path / "none.reenact"]):
        ran = run(*words)
        assert (ran.code, ran.out) == (3, "")
        assert ran.hint


def test_a_file_that_unpacks_to_too_much_is_refused(run: Run, tmp_path: Path) -> None:
    path = record(tmp_path / "r", [("run_start", {"input": "x" * 3_000_000})])
    assert run("pack", str(path)).code == 0
    small = run("unpack", f"{path}.reenact", str(tmp_path / "again"), "--most", "0.002")
    assert small.code == 2
    assert "more than is allowed" in small.err
    assert small.hint.endswith("reenact unpack --most GIB")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["r", "r.reenact"]
    assert run("unpack", f"{path}.reenact", str(tmp_path / "again"), "--most", "0.1").code == 0
