"""Of a run that failed nothing is kept, where the settings say so; and patches that stay."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from reenact.boundaries.registry import PATCHES
from reenact.engine.session.session import Session
from reenact.engine.session.settings import resolve_settings


def _session(tape: Path, said: list[str], mode: str = "record") -> Session:
    return Session(
        resolve_settings(tape=tape, mode=mode, strict=True, keeps_failed=False, warn=said.append)
    )


@pytest.mark.parametrize("mode", ["record", "rewrite", "record_missing"])
def test_a_run_that_failed_leaves_what_was_there(tmp_path: Path, mode: str) -> None:
    tape = tmp_path / "a.jsonl"
    said: list[str] = []
    with pytest.raises(ZeroDivisionError), _session(tape, said, mode) as session:
        session.call("look", {"n": 1}, lambda: 1 // 0)
    assert list(tmp_path.iterdir()) == []
    assert said == [f"{tape} was not written, because the run failed"]
    with _session(tape, said) as session:
        session.call("look", {"n": 1}, lambda: "seen")
    before = tape.read_bytes()
    if mode != "record":
        with pytest.raises(ZeroDivisionError), _session(tape, said, mode) as session:
            session.call("look", {"n": 2}, lambda: 1 // 0)
        assert said[1:] == [f"{tape} stays as it was, because the run failed"]
    assert tape.read_bytes() == before
    assert list(tmp_path.iterdir()) == [tape]


def test_patches_stay_for_the_next_session(tmp_path: Path) -> None:
    plain = time.time
    settings = resolve_settings(tape=tmp_path / "a.jsonl", mode="record", boundaries=PATCHES)
    with Session(settings) as session:
        release = session.keep_patches()
        patched = time.time
    try:
        assert patched is not plain
        assert time.time is patched
    finally:
        release()
    assert time.time is plain
