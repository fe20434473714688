"""What a ``tests.json`` says, and everything that is wrong with one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from reenact.policy.json_tests import Case, is_ours, read_cases
from reenact.policy.paths import WORLDS
from tests.meta.markdown import blocks

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "fixtures.md"
HEAD = '{"schema_version": "reenact.tests@1", "tests": [\n'


def _put(folder: Path, *tests: dict[str, Any]) -> Path:
    """A file with one test on each line, from line 2 on."""
    path = folder / "tests.json"
    path.write_text(HEAD + ",\n".join(map(json.dumps, tests)) + "\n]}\n", "utf-8")
    return path


def _wrong(path: Path) -> list[tuple[str, str, str]]:
    tests, findings = read_cases(path, "tests.json", WORLDS)
    assert tests == []
    assert all(one.severity == "error" and one.hint for one in findings)
    return [(one.place, one.message, one.hint) for one in findings]


def test_tests_come_with_their_lines(tmp_path: Path) -> None:
    first = {"id": "a", "entry": "app:a"}
    second = {**first, "id": "x/b", "world": "ci", "expect": "fail", "raises": "KeyError"}
    path = _put(tmp_path, first, {**second, "fixture_root": "f/", "cassette": "c"})
    assert is_ours(path)
    found, findings = read_cases(path, "tests.json", WORLDS)
    assert findings == []
    assert found == [
        (Case(id="a", entry="app:a"), 2),
        (
            Case(
                id="x/b",
                entry="app:a",
                world="ci",
                expect="fail",
                raises="KeyError",
                fixture_root="f/",
                cassette="c",
            ),
            3,
        ),
    ]


def test_every_mistake_has_its_line_and_the_nearest_name(tmp_path: Path) -> None:
    path = _put(
        tmp_path,
        {"id": "a", "entry": "app:a", "fixtureroot": "f"},
        {"id": "b", "expect": "passes"},
    )
    second = "tests.json:3 $.tests[1]"
    assert _wrong(path) == [
        (
            "tests.json:2 $.tests[0].fixtureroot",
            "there is no such field",
            "did you mean fixture_root?",
        ),
        (f"{second}.expect", "'passes' is not a choice here", "did you mean pass?"),
        (second, "the field entry is missing", "add entry"),
    ]


ONE = {"id": "a", "entry": "app:a"}


@pytest.mark.parametrize(
    "field, value, message, hint",
    [
        ("world", "tset", "tset is not a known world", "did you mean test?"),
        ("world", "solve-rr", "solve-rr is not a known world", "X07's solve-rr is test"),
        ("raises", "KeyError", "expect is pass", "fail"),
        ("policy", "smoke", "the policy requires a cassette", "add the cassette"),
        ("mode", "replay", "the mode requires a cassette", "add the cassette"),
        ("cassette", "../x", "segment '..'", "weather"),
        ("cassette", "/x", "absolute", "weather"),
        ("cassette", ".reenact/x", "starts with .reenact", "weather"),
        ("fixture_root", "/tmp", "absolute", "seen from this file"),
        ("fixture_root", ".", "segment '.'", "tests/fixtures"),
        ("fixture_root", "..", "segment '..'", "tests/fixtures"),
        ("fixture_root", "a\\b", "backslash", "tests/fixtures"),
        ("fixture_root", "a\0b", "NUL", "tests/fixtures"),
        ("fixture_root", ".x07_rr", "starts with .x07_", "tests/fixtures"),
        ("fixture_root", "away", "symlink", "tests/fixtures"),
        ("fixture_root", "tests.json", "not a folder", "tests/fixtures"),
    ],
)
def test_contradictions_and_unsafe_paths(
    field: str, value: str, message: str, hint: str, tmp_path: Path
) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "away").symlink_to(tmp_path)
    ((place, said, to_do),) = _wrong(_put(folder, {**ONE, field: value}))
    assert place == f"tests.json:2 $.tests[0].{field}"
    assert message in said
    assert hint in to_do


def test_an_id_stands_once(tmp_path: Path) -> None:
    ((place, message, _),) = _wrong(_put(tmp_path, ONE, ONE))
    assert place == "tests.json:3 $.tests[1].id"
    assert message == "a stands twice, first at $.tests[0]"


@pytest.mark.parametrize(
    "text, place, message",
    [
        ("", "tests.json", ""),
        ('{"schema_version": "reenact.tests@1", "tests": [', "tests.json", ""),
        ('{"schema_version": "reenact.tests@1", "tests": []}', "tests.json:1 $.tests", "no test"),
        ("[]", "tests.json:1", "not a JSON object"),
        ('{"tests": []}', "tests.json:1", "not a list of tests of version reenact.tests@1"),
        (
            '{\n"schema_version": "reenact.tests@2", "tests": []}',
            "tests.json:2 $.schema_version",
            "not a list of tests of version reenact.tests@1",
        ),
        ('{"schema_version": "vendor.tests@0.1.0"}', "tests.json:1 $.schema_version", "not"),
        ('{"tests": [], "tests": []}', "tests.json", "tests"),
    ],
)
def test_what_is_no_list_of_tests(text: str, place: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "tests.json"
    path.write_text(text, "utf-8")
    ((found, said, hint),) = _wrong(path)
    assert found == place
    assert message in said
    assert "reenact.tests@1" in hint


def test_files_of_others_are_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "tests.json"
    assert not is_ours(path)
    path.write_text('{"schema_version": "x07.tests_manifest@0.1.0", "tests": []}', "utf-8")
    assert not is_ours(path)
    path.write_text('{"schema_version": "reenact.tests@9", broken', "utf-8")
    assert is_ours(path)


X07 = {"id": "rr_smoke", "world": "solve-rr", "entry": "app.rr_smoke_v1"}
REPLAY = {**X07, "expect": "pass", "fixture_root": "fixtures/replay"}


def _put_x07(folder: Path, *tests: Any, version: str = "0.1.0") -> Path:
    """A manifest of X07 with one test on each line, from line 2 on."""
    head = f'{{"schema_version": "x07.tests_manifest@{version}", "tests": [\n'
    path = folder / "tests.json"
    path.write_text(head + ",\n".join(map(json.dumps, tests)) + "\n]}\n", "utf-8")
    return path


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
def test_a_manifest_of_x07_is_read(tmp_path: Path, version: str) -> None:
    other = {**X07, "id": "b", "world": "run-os", "entry": "a.b.c", "returns": "result_i32"}
    own = {**X07, "id": "c", "world": "solve-pure"}
    path = _put_x07(tmp_path, REPLAY, {**other, "expect": "skip"}, own, version=version)
    found, findings = read_cases(path, "tests.json", (*WORLDS, "solve-pure"))
    assert findings == []
    entry = "app:rr_smoke_v1"
    assert found == [
        (Case(id="rr_smoke", entry=entry, world="test", fixture_root="fixtures/replay"), 2),
        (Case(id="b", entry="a.b:c", world="local", expect="skip"), 3),
        (Case(id="c", entry=entry, world="solve-pure"), 4),
    ]


@pytest.mark.parametrize(
    "change, place, message, hint",
    [
        ({"timeout_ms": 5}, ".timeout_ms", "X07's field timeout_ms has no", "pytest-timeout"),
        ({"solve_fuel": 5}, ".solve_fuel", "X07's field solve_fuel has no", "pytest-timeout"),
        ({"input_b64": ""}, ".input_b64", "X07's field input_b64 has no", "without arguments"),
        ({"pbt": {}}, ".pbt", "X07's field pbt has no", "Hypothesis"),
        ({"policy_json": "p"}, ".policy_json", "X07's field policy_json", "rr.with_policy"),
        ({"returns": "bytes_status_v1"}, ".returns", "only entries that", "result_i32"),
        ({"world": "solve-kv"}, ".world", "X07's world solve-kv has no", "solve-rr"),
        ({"world": "run-os"}, ".fixture_root", "world run-os has no fixture_root", "delete"),
        ({"world": None}, "", "the field world is missing", "solve-rr"),
        ({"fixture_root": None}, "", "solve-rr needs a fixture_root", "fixtures/replay"),
        ({"entry": "app"}, ".entry", "'app' is not module.function", "app.rr_smoke_v1"),
        ({"entry": "app:f.g"}, ".entry", "'app:f.g' is not module.function", "app.rr_smoke_v1"),
        ({"fixture_root": "."}, ".fixture_root", "segment '.'", "tests/fixtures"),
        ({"expect": "perhaps"}, ".expect", "", ""),
        ({"wrold": "test"}, ".wrold", "X07's manifest has no field 'wrold'", "world"),
        ({"cassette": "c"}, ".cassette", "X07's manifest has no field 'cassette'", ""),
    ],
)
def test_what_a_manifest_of_x07_cannot_say_is_named(
    change: dict[str, Any], place: str, message: str, hint: str, tmp_path: Path
) -> None:
    path = _put_x07(tmp_path, {**REPLAY, **change})
    ((found, said, advice),) = _wrong(path)
    assert found == f"tests.json:2 $.tests[0]{place}"
    assert message in said
    assert hint in advice


def test_an_unknown_version_of_x07s_manifest_is_refused(tmp_path: Path) -> None:
    ((place, message, hint),) = _wrong(_put_x07(tmp_path, REPLAY, version="9.0.0"))
    assert place == "tests.json:1 $.schema_version"
    assert "9.0.0" in message
    assert "0.1.0 and 0.2.0" in hint


def test_a_manifest_of_x07_is_ours_if_its_module_is_python(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    path = _put_x07(tmp_path / "tests", REPLAY, 7, {"entry": "../x.f"}, {"entry": 7})
    assert not is_ours(path, tmp_path)
    (tmp_path / "app.py").touch()
    assert is_ours(path, tmp_path)
    assert not is_ours(path)


def test_the_guide_shows_a_right_list_and_every_field(tmp_path: Path) -> None:
    (shown,) = (block.text for block in blocks(GUIDE) if block.language == "json")
    (tmp_path / "tests.json").write_text(shown, "utf-8")
    found, findings = read_cases(tmp_path / "tests.json", "tests.json", WORLDS)
    assert findings == []
    assert [case.expect for case, _ in found] == ["pass", "fail", "pass"]
    listed = set(re.findall(r"^\| `(\w+)` \|", GUIDE.read_text("utf-8"), re.MULTILINE))
    assert set(Case.__struct_fields__) - listed == {"policy", "mode"}  # in the row of cassette


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "tests.json").mkdir()
    ((place, message, _),) = _wrong(tmp_path / "tests.json")
    assert (place, message) == ("tests.json", "it cannot be read: it is not a regular file")
