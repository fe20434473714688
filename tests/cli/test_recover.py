"""``reenact recover``."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.store.verify import verify
from tests.cli.conftest import Run
from tests.cli.samples import begin, flip, mutation, record

SECRET = "hunter2-and-more"
SALT = b"0123456789abcdef\n"


def _unfinished(path: Path, tail: bytes = b"") -> Path:
    """What a kill leaves: whole lines, perhaps a torn one, and no manifest."""
    record(path)
    if path.is_dir():
        (path / "manifest.json").unlink()
        log = path / "events.jsonl"
    else:
        *lines, _closing = path.read_bytes().splitlines(keepends=True)
        log = path.with_name(f"{path.name}.part")
        path.rename(log)
        log.write_bytes(b"".join(lines))
    log.write_bytes(log.read_bytes() + tail)
    return path


@pytest.mark.parametrize("name", ["run", "run.jsonl"])
def test_recover_closes_and_says_what_was_cut(name: str, run: Run, tmp_path: Path) -> None:
    path = _unfinished(tmp_path / name, b'{"torn')
    ran = run("recover", path)
    assert (ran.code, ran.err) == (0, "")
    first, cut = ran.out.splitlines()
    assert first == f"{path}: recovered, 3 events kept"
    assert cut.startswith("  cut: 6 bytes after the last complete event")
    assert verify(path).manifest.status == "recovered"
    again = run("recover", path)
    assert (again.code, again.out) == (0, f"{path}: whole already, 3 events; nothing was done\n")


def test_recover_json(run: Run, tmp_path: Path) -> None:
    path = _unfinished(tmp_path / "run")
    expected = {"path": str(path), "events": 3, "status": "recovered", "cut": []}
    expected["unfinished"] = 0
    assert run("recover", path, "--json").json() == {**expected, "alreadyWhole": False}
    assert run("recover", path, "--json").json() == {**expected, "alreadyWhole": True}


def test_recover_with_a_bad_line_offers_to_cut(run: Run, tmp_path: Path) -> None:
    path = _unfinished(tmp_path / "run", b'{"not": "an event"}\n')
    ran = run("recover", path)
    assert ran.code == 3
    assert "events.jsonl line 4" in ran.err
    assert ran.hint == f"to end it before that line: reenact recover --cut {path}"
    cut = run("recover", path, "--cut")
    assert cut.code == 0
    assert "3 events kept" in cut.out


def test_recover_refuses_what_is_damaged_missing_or_being_written(run: Run, tmp_path: Path) -> None:
    assert run("recover", tmp_path / "none").code == 3
    damaged = record(tmp_path / "damaged")
    flip(damaged / "events.jsonl", b"counted")
    ran = run("recover", damaged)
    assert ran.code == 3
    assert "--cut" not in ran.err
    recording = begin(tmp_path / "busy")
    recording.add(*mutation(1))
    busy = run("recover", tmp_path / "busy", "--json")
    assert busy.code == 2
    assert busy.json()["error"]["code"] == "sink.busy"
    recording.finish()
