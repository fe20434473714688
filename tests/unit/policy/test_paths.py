"""Roots, worlds and the paths of cassettes."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.errors import PathRefused, UsageError
from reenact.policy.paths import cassette_path, find_root, unsafe_reason, world
from tests.unit.policy.unsafe_names import REFUSED


def test_root_is_the_nearest_ancestor_with_the_folder(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    assert find_root(inner, {}) == inner
    (tmp_path / ".reenact").mkdir()
    assert find_root(inner, {}) == tmp_path
    (tmp_path / "a" / ".reenact").mkdir()
    assert find_root(inner, {}) == tmp_path / "a"
    (tmp_path / "a" / "b" / ".reenact").write_text("a file is no folder", "utf-8")
    assert find_root(inner, {}) == tmp_path / "a"


def test_variable_names_the_root(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / ".reenact").mkdir()
    assert find_root(tmp_path, {"REENACT_ROOT": str(tmp_path / "there")}) == tmp_path / "there"
    assert find_root(tmp_path, {"REENACT_ROOT": "there"}) == tmp_path / "there"
    assert find_root(tmp_path, {"REENACT_ROOT": ""}) == tmp_path


@pytest.mark.parametrize("said", ["nowhere", "a\0b"])
def test_variable_that_names_no_folder_is_refused(said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="REENACT_ROOT") as found:
        find_root(tmp_path, {"REENACT_ROOT": said})
    assert found.value.hint


def test_root_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_root(Path("."), {}).is_absolute()


@pytest.mark.parametrize(
    "environ, under_pytest, expected",
    [
        ({}, False, "local"),
        ({}, True, "test"),
        ({"CI": "true"}, True, "ci"),
        ({"CI": "false"}, False, "ci"),
        ({"CI": ""}, False, "local"),
        ({"REENACT_WORLD": "production", "CI": "1"}, True, "production"),
        ({"REENACT_WORLD": "", "CI": "1"}, False, "ci"),
        ({"REENACT_WORLD": "edge"}, False, "edge"),
    ],
)
def test_world(environ: dict[str, str], under_pytest: bool, expected: str) -> None:
    assert world(environ, under_pytest, known=("edge",)) == expected


def test_unknown_world_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="prodution") as found:
        world({"REENACT_WORLD": "prodution"}, False)
    assert "did you mean production?" in found.value.hint
    with pytest.raises(UsageError) as found:
        world({"REENACT_WORLD": "egde"}, False, known=("edge",))
    assert "did you mean edge?" in found.value.hint


FINE = [
    "weather",
    "weather.jsonl",
    "api/v1/weather",
    "ü x",
    ".hidden",
    "null",
    "x" * 200,
    "天気/東京",
]
FINE += ["می\u200cخواهم", "test_x[a-1]", "...x", "com10"]


@pytest.mark.parametrize("name", FINE)
def test_name_becomes_a_tape_below_the_root(name: str, tmp_path: Path) -> None:
    file = name if name.endswith(".jsonl") else f"{name}.jsonl"
    expected = tmp_path / ".reenact" / "cassettes" / file
    for writing in (True, False):
        assert cassette_path(tmp_path, name, writing=writing) == expected
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name, reason", REFUSED)
def test_name_is_refused_with_the_reason(name: str, reason: str, tmp_path: Path) -> None:
    for writing in (True, False):
        with pytest.raises(PathRefused, match=reason) as found:
            cassette_path(tmp_path, name, writing=writing)
        assert found.value.hint
        assert found.value.exit_code == 2


def test_unsafe_knows_a_safe_path() -> None:
    assert unsafe_reason("policies/default.policy.json") is None
    assert unsafe_reason("ab:c") is None


def test_symlink_that_leads_outside_is_refused(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    cassettes = root / ".reenact" / "cassettes"
    cassettes.mkdir(parents=True)
    outside.mkdir()
    (cassettes / "away").symlink_to(outside)
    (cassettes / "file.jsonl").symlink_to(outside / "not-yet-there.jsonl")
    for name in ("away/x", "file"):
        for writing in (True, False):
            with pytest.raises(PathRefused, match="symlink"):
                cassette_path(root, name, writing=writing)


def test_symlinked_cassettes_folder_that_leads_out_of_the_root_is_refused(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / ".reenact").mkdir(parents=True)
    outside.mkdir()
    (root / ".reenact" / "cassettes").symlink_to(outside)
    with pytest.raises(PathRefused, match="symlink"):
        cassette_path(root, "x", writing=True)


def test_symlink_that_stays_inside_and_a_symlinked_root_are_fine(tmp_path: Path) -> None:
    cassettes = tmp_path / "root" / ".reenact" / "cassettes"
    (cassettes / "old").mkdir(parents=True)
    (cassettes / "new").symlink_to(cassettes / "old")
    (tmp_path / "link").symlink_to(tmp_path / "root")
    found = cassette_path(tmp_path / "link", "new/x", writing=True)
    assert found.resolve() == (cassettes / "old" / "x.jsonl").resolve()


def test_loop_of_symlinks_is_refused(tmp_path: Path) -> None:
    cassettes = tmp_path / ".reenact" / "cassettes"
    cassettes.mkdir(parents=True)
    (cassettes / "a").symlink_to(cassettes / "b")
    (cassettes / "b").symlink_to(cassettes / "a")
    with pytest.raises((PathRefused, OSError)):
        cassette_path(tmp_path, "a/x", writing=False).read_bytes()


def test_fixture_root_is_read_as_it_is_and_written_below_rr(tmp_path: Path) -> None:
    fixtures = tmp_path / "fixtures"
    fixtures.mkdir()
    for given in (fixtures, Path("fixtures")):
        reading = cassette_path(tmp_path, "x", fixture_root=given, writing=False)
        assert reading == fixtures / "x.jsonl"
        writing = cassette_path(tmp_path, "x", fixture_root=given, writing=True)
        assert writing == fixtures / "rr" / "x.jsonl"
    (fixtures / "rr").mkdir()
    reading = cassette_path(tmp_path, "x", fixture_root=fixtures, writing=False)
    assert reading == fixtures / "rr" / "x.jsonl"


@pytest.mark.parametrize("given", [".", "", "a/..", "..", "link"])
def test_fixture_root_that_is_the_root_is_refused(given: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "link").symlink_to(root)
    for fixture_root in (given, Path(given), root / given):
        for writing in (True, False):
            with pytest.raises(PathRefused, match="fixture root") as found:
                cassette_path(root, "x", fixture_root=fixture_root, writing=writing)
            assert found.value.hint


@pytest.mark.parametrize(
    "given, reason",
    [
        ("../outside", r"segment '\.\.'"),
        ("a/../../outside", r"segment '\.\.'"),
        ("./a", r"segment '\.'"),
        ("a//b", "empty segment"),
        ("a\\b", "backslash"),
        ("a\0b", "NUL"),
        ("c:/x", "drive letter"),
        (".reenact/fixtures", r"starts with \.reenact"),
        (".x07_rr", r"starts with \.x07_"),
        ("away", "symlink"),
        ("away/deeper", "symlink"),
        ("nowhere", "symlink"),
        ("loop", "symlink"),
        ("file", "not a folder"),
    ],
)
def test_fixture_root_is_refused_with_the_reason(given: str, reason: str, tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "a", outside):
        folder.mkdir(parents=True)
    (root / "away").symlink_to(outside)
    (root / "nowhere").symlink_to(outside / "not-yet-there")
    (root / "loop").symlink_to(root / "loop")
    (root / "file").write_text("", "utf-8")
    for writing in (True, False):
        with pytest.raises(PathRefused, match=reason) as found:
            cassette_path(root, "x", fixture_root=given, writing=writing)
        assert "fixture root" in str(found.value)
        assert found.value.hint


def test_symlink_below_a_fixture_root_that_leads_out_is_refused(tmp_path: Path) -> None:
    fixtures, outside = tmp_path / "fixtures", tmp_path / "outside"
    (fixtures / "rr").mkdir(parents=True)
    outside.mkdir()
    (fixtures / "rr" / "away").symlink_to(outside)
    (fixtures / "rr" / "file.jsonl").symlink_to(outside / "not-yet-there.jsonl")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "rr").symlink_to(outside)
    (tmp_path / "dangling").mkdir()
    (tmp_path / "dangling" / "rr").symlink_to(outside / "nowhere")
    for given, name, modes in (
        ("fixtures", "away/x", (True, False)),
        ("fixtures", "file", (True, False)),
        ("linked", "x", (True, False)),
        ("dangling", "x", (True,)),
    ):
        for writing in modes:
            with pytest.raises(PathRefused, match="symlink"):
                cassette_path(tmp_path, name, fixture_root=given, writing=writing)


def test_a_symlinked_fixture_root_that_stays_inside_and_a_slash_at_the_end_are_fine(
    tmp_path: Path,
) -> None:
    (tmp_path / "old" / "rr").mkdir(parents=True)
    (tmp_path / "new").symlink_to(tmp_path / "old")
    for given in ("new", "new/", tmp_path / "new"):
        found = cassette_path(tmp_path, "x", fixture_root=given, writing=False)
        assert found.resolve() == (tmp_path / "old" / "rr" / "x.jsonl").resolve()


@pytest.mark.parametrize("name, reason", REFUSED)
def test_fixture_root_does_not_make_a_name_safe(name: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(PathRefused, match=reason):
        cassette_path(tmp_path, name, fixture_root=tmp_path / "f", writing=True)
