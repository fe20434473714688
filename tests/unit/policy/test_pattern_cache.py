"""What is kept from one process to the next: private, whole, and never needed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reenact.policy.redaction.gate import PatternCache, pattern_cache


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "made" / "shelf"


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_kept_is_there_for_the_next_one(folder: Path) -> None:
    PatternCache(folder).keep("a", b"content")
    PatternCache(folder).keep("a", b"newer")
    PatternCache(folder).keep("b", b"")
    assert [PatternCache(folder).get(name) for name in ("a", "b", "c")] == [b"newer", b"", None]
    assert _names(folder) == ["a", "b"]


def test_nobody_else_can_read_it(folder: Path) -> None:
    PatternCache(folder).keep("a", b"content")
    modes = [path.stat().st_mode & 0o777 for path in (folder, folder / "a")]
    assert modes == [0o700, 0o600]


@pytest.mark.parametrize(
    "damaged",
    [b"", b"x", b"x" * 32, b"x" * 100],
    ids=["empty", "short", "no content", "other content"],
)
def test_what_is_damaged_is_not_there(damaged: bytes, folder: Path) -> None:
    PatternCache(folder).keep("a", b"content")
    (folder / "a").write_bytes(damaged)
    assert PatternCache(folder).get("a") is None


def test_a_changed_byte_is_noticed(folder: Path) -> None:
    PatternCache(folder).keep("a", b"content")
    whole = (folder / "a").read_bytes()
    for at in range(len(whole)):
        (folder / "a").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert PatternCache(folder).get("a") is None


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777], ids=oct)
def test_a_folder_that_others_may_write_to_is_not_used(mode: int, folder: Path) -> None:
    PatternCache(folder).keep("a", b"content")
    folder.chmod(mode)
    assert PatternCache(folder).get("a") is None
    PatternCache(folder).keep("b", b"content")
    assert _names(folder) == ["a"]


def test_a_file_that_others_may_write_to_is_not_used(folder: Path) -> None:
    PatternCache(folder).keep("a", b"content")
    (folder / "a").chmod(0o620)
    assert PatternCache(folder).get("a") is None


def test_links_are_not_followed(folder: Path, tmp_path: Path) -> None:
    PatternCache(folder).keep("a", b"content")
    (folder / "b").symlink_to(folder / "a")
    elsewhere = tmp_path / "link"
    elsewhere.symlink_to(folder)
    assert PatternCache(folder).get("b") is None
    assert PatternCache(elsewhere).get("a") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_somebody_else_owns_is_not_used(folder: Path) -> None:
    PatternCache(folder).keep("a", b"content")
    os.chown(folder / "a", 12345, -1)
    assert PatternCache(folder).get("a") is None
    PatternCache(folder).keep("a", b"content")
    os.chown(folder, 12345, -1)
    assert PatternCache(folder).get("a") is None


def test_a_place_that_cannot_be_made_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    shelf = PatternCache(tmp_path / "file" / "shelf")
    shelf.keep("a", b"content")
    assert shelf.get("a") is None


def test_the_oldest_go_when_there_are_too_many(folder: Path) -> None:
    shelf = PatternCache(folder)
    for number in range(20):
        shelf.keep(f"{number:02}", b"content")
        os.utime(folder / f"{number:02}", (number, number))
    assert _names(folder) == [f"{number:02}" for number in range(4, 20)]


@pytest.mark.parametrize(
    "environ, place",
    [
        ({"REENACT_CONFIG_DIR": "{}", "XDG_CACHE_HOME": "/x", "HOME": "/x"}, "compiled"),
        ({"REENACT_CONFIG_DIR": "", "XDG_CACHE_HOME": "{}", "HOME": "/x"}, "reenact"),
        ({"XDG_CACHE_HOME": "", "HOME": "{}"}, ".cache/reenact"),
    ],
    ids=["own", "of all programs", "home"],
)
def test_where_it_is(environ: dict[str, str], place: str, tmp_path: Path) -> None:
    filled = {name: value.format(tmp_path) for name, value in environ.items()}
    pattern_cache(filled).keep("a", b"content")
    assert (tmp_path / place / "a").is_file()


def test_without_a_home_nothing_is_kept() -> None:
    shelf = pattern_cache({})
    shelf.keep("a", b"content")
    assert shelf.get("a") is None
