"""Which file a marked test reads and writes; cassettes that are imported on the fly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact.errors import RecordingDamaged
from reenact.interop.vcr import write
from reenact.pytest_plugin.vcr_translation import (
    CassettePaths,
    empty_tape,
    mode_and_tape,
    replayed_tape,
    written_tape,
)
from tests.unit.interop.foreign_files import events_of, exchange, taken


class Config:
    """As much of pytest's as is asked for."""

    def __init__(self, root: Path, mode: str | None = None, *, cache: bool = True) -> None:
        self.rootpath = root
        self.stash = pytest.Stash()
        self.cleanups: list[Any] = []
        self._mode = mode
        if cache:
            self.cache = self

    def mkdir(self, name: str) -> Path:
        (self.rootpath / "cache" / name).mkdir(parents=True, exist_ok=True)
        return self.rootpath / "cache" / name

    def add_cleanup(self, cleanup: Any) -> None:
        self.cleanups.append(cleanup)

    def getoption(self, name: str, default: Any) -> Any:
        return self._mode or default


def _urls(tape: Path) -> list[str]:
    return [event.data["request"]["url"] for event in events_of(tape)]


def _cassette(path: Path, *names: str) -> Path:
    path.write_bytes(write([exchange(url=f"https://a.example/{name}") for name in names]).content)
    return path


def _config(root: Path, mode: str | None = None, **rest: Any) -> Any:
    return Config(root, mode, **rest)


def test_a_cassette_is_imported_once_and_beside_nothing(tmp_path: Path) -> None:
    config, places = _config(tmp_path), CassettePaths(_cassette(tmp_path / "c.yaml", "a"))
    tape = replayed_tape(config, places)
    assert _urls(tape) == ["https://a.example/a"]
    before = tape.stat().st_mtime_ns
    assert (replayed_tape(config, places), tape.stat().st_mtime_ns) == (tape, before)
    _cassette(tmp_path / "c.yaml", "b")
    assert _urls(replayed_tape(config, places)) == ["https://a.example/b"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.yaml", "cache"]


def test_the_tape_beside_a_cassette_is_used(tmp_path: Path) -> None:
    places = CassettePaths(_cassette(tmp_path / "c.yaml", "old"))
    taken([exchange(url="https://a.example/new")], tmp_path / "c.jsonl")
    assert replayed_tape(_config(tmp_path), places) == tmp_path / "c.jsonl"


def test_several_cassettes_are_played_together(tmp_path: Path) -> None:
    taken([exchange(url="https://a.example/tape")], tmp_path / "b.jsonl")
    more = (tmp_path / "b.yaml", _cassette(tmp_path / "c.yaml", "more"), tmp_path / "none.yaml")
    tape = replayed_tape(
        _config(tmp_path), CassettePaths(_cassette(tmp_path / "a.yaml", "own"), more)
    )
    assert [url.rpartition("/")[2] for url in _urls(tape)] == ["own", "tape", "more"]


def test_one_that_is_added_to_is_imported_beside_it(tmp_path: Path) -> None:
    places = CassettePaths(_cassette(tmp_path / "c.yaml", "a"))
    before = (tmp_path / "c.yaml").read_bytes()
    assert written_tape(_config(tmp_path), places) == tmp_path / "c.jsonl"
    assert _urls(tmp_path / "c.jsonl") == ["https://a.example/a"]
    assert (tmp_path / "c.yaml").read_bytes() == before


def test_without_pytests_cache_there_is_a_folder_of_the_run(tmp_path: Path) -> None:
    config = _config(tmp_path, cache=False)
    tape = empty_tape(config)
    assert (events_of(tape), empty_tape(config)) == ([], tape)
    config.cleanups[0]()
    assert not tape.exists()


def test_an_unreadable_cassette_is_never_taken_for_none(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("interactions: [\n", "utf-8")
    with pytest.raises(RecordingDamaged, match=r"c\.yaml"):
        replayed_tape(_config(tmp_path), CassettePaths(tmp_path / "c.yaml"))
    assert list((tmp_path / "cache" / "reenact-vcr").iterdir()) == []


@pytest.mark.parametrize(
    "record_mode,there,said,expected",
    [
        ("none", True, None, ("replay", "cache")),
        ("none", False, None, ("replay", "c.jsonl")),
        ("once", True, None, ("replay", "cache")),
        ("once", False, None, ("record", "c.jsonl")),
        ("new_episodes", True, None, ("record_missing", "c.jsonl")),
        ("all", True, None, ("rewrite", "c.jsonl")),
        ("rewrite", True, None, ("rewrite", "c.jsonl")),
        ("none", True, "update", ("update", "c.jsonl")),
        ("none", True, "rewrite", ("rewrite", "c.jsonl")),
        ("none", True, "off", ("replay", "cache")),
    ],
)
def test_modes(
    record_mode: str, there: bool, said: str | None, expected: tuple[str, str], tmp_path: Path
) -> None:
    if there:
        _cassette(tmp_path / "c.yaml", "a")
    places = CassettePaths(tmp_path / "c.yaml")
    mode, tape = mode_and_tape(_config(tmp_path, said), record_mode, places)
    assert (mode, tape.relative_to(tmp_path).parts[0]) == expected
