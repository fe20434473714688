"""Tests that are data: ``tests.json`` in whole small projects."""

from __future__ import annotations

import json
import os
import re
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.meta.tree import modules
from tests.plugin.standin import ARGUMENTS, CONFTEST
from tests.unit.policy.sets import POLICY, SANITIZER, put, put_set

pytest_plugins = ("pytester",)

APP = """
import asyncio
import os
import sys

import reenact

MODE = os.environ.get("APP_MODE", "replay")


def _ping(session):
    return session.call("ping", {}, lambda: "PONG", capability="net.fetch")


def smoke():
    with reenact.session("smoke.jsonl", policy="smoke_v1", mode=MODE) as session:
        assert _ping(session) == "PONG"


async def async_smoke():
    async with reenact.session("smoke.jsonl", policy="smoke_v1", mode=MODE) as session:
        ping = session.aio.call("ping", {}, lambda: asyncio.sleep(0, "PONG"), capability="net.fetch")
        assert await ping == "PONG"


def by_handle():
    with reenact.rr.scope({"path": "handles", "mode": MODE}) as handle:
        if MODE == "record":
            reenact.rr.append(handle, {"kind": "rr", "op": "x", "key": "k", "resp": "v"})
        else:
            assert reenact.rr.next(handle, "rr", "x", "k").resp == b"v"


def given():
    assert _ping(reenact.current()) == "PONG"


async def async_given():
    await asyncio.sleep(0)
    assert _ping(reenact.current()) == "PONG"


def changed():
    reenact.current().call("pong", {}, lambda: 1, capability="net.fetch")


def alone():
    assert reenact.current() is None
    assert "REENACT_FIXTURE_ROOT" not in os.environ


def where():
    return "here"


def compares():
    place = where()
    assert place == "there"


def lookup():
    return {}["x"]


def refused():
    reenact.session("../x", mode="replay")


def leaves():
    sys.exit(3)


class Suite:
    @staticmethod
    def fine():
        assert os.environ["REENACT_WORLD"] == "ci"


NUMBER = 7
"""
SMOKE = {**POLICY, "id": "smoke_v1"}


class Project:
    """A project below pytester's folder, with its tests in ``tests/``."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester = pytester
        self.environ = monkeypatch
        self.root = pytester.path
        self.tests = self.root / "tests"
        self.tests.mkdir()
        pytester.makeconftest(CONFTEST)
        (self.tests / "app.py").write_text(APP, "utf-8")
        put_set(self.root, SMOKE, worlds=["ci", "test"])

    def put(self, *tests: dict[str, Any]) -> None:
        """The tests, each on a line, from line 3 on."""
        lines = ",\n".join(map(json.dumps, tests))
        text = f'{{"schema_version": "reenact.tests@1",\n"tests": [\n{lines}\n]}}\n'
        (self.tests / "tests.json").write_text(text, "utf-8")

    def run(self, *args: str, mode: str = "replay") -> pytest.RunResult:
        self.environ.setenv("APP_MODE", mode)
        return self.pytester.runpytest_inprocess(*ARGUMENTS, *args)


@pytest.fixture(scope="module", autouse=True)
def _everything_is_imported() -> None:
    """What is imported inside of a run within this process is forgotten after it, and there would be
    two of each."""
    for name in modules():
        if not name.startswith("reenact.__main__"):
            import_module(name)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # each takes its time
    return Project(pytester, monkeypatch)


def _case(name: str, entry: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "world": "test", "entry": f"app:{entry}", "expect": "pass", **more}


def _text(result: pytest.RunResult) -> str:
    return str(result.stdout) + str(result.stderr)


def test_cassettes_are_found_below_rr_of_the_fixture_root(project: Project) -> None:
    where = {"fixture_root": "fixtures/replay"}
    project.put(
        _case("rr_smoke", "smoke", **where),
        _case("rr/handle", "by_handle", **where),
        _case("given", "given", cassette="given.jsonl", policy="smoke_v1", **where),
        _case("alone", "alone"),
    )
    fixtures = project.tests / "fixtures" / "replay"
    recording = project.run(
        "tests/tests.json::rr_smoke", "tests/tests.json::rr/handle", mode="record"
    )
    recording.assert_outcomes(passed=2)
    assert sorted(one.name for one in (fixtures / "rr").iterdir()) == [
        "handles.jsonl",
        "smoke.jsonl",
    ]
    assert not (project.root / ".reenact" / "cassettes").exists()
    (fixtures / "rr" / "given.jsonl").write_bytes((fixtures / "rr" / "smoke.jsonl").read_bytes())
    project.run().assert_outcomes(passed=4)
    # A folder without rr is read itself.
    for file in (fixtures / "rr").iterdir():
        file.rename(fixtures / file.name)
    (fixtures / "rr").rmdir()
    project.put(
        _case("async", "async_smoke", **where),
        _case("async_given", "async_given", cassette="given", mode="replay", **where),
        _case("handle", "by_handle", **where),
    )
    project.run().assert_outcomes(passed=3)


def test_cassettes_without_a_fixture_root_are_those_of_the_project(project: Project) -> None:
    """In whatever folder pytest is started, also where there is no folder .reenact yet."""
    project.put(_case("handle", "by_handle"))
    shutil.rmtree(project.root / ".reenact")
    project.environ.chdir(project.tests)
    project.run("--rootdir", str(project.root), mode="record").assert_outcomes(passed=1)
    assert (project.root / ".reenact" / "cassettes" / "handles.jsonl").exists()
    assert "REENACT_ROOT" not in os.environ


SCOPES = """
import os
import pytest
import reenact

MODE = os.environ["APP_MODE"]


def _ping(answer):
    with reenact.session("smoke", mode=MODE) as session:
        assert session.call("ping", {}, lambda: answer, capability="net.fetch") == answer


def test_setting(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _ping("setting")


@pytest.mark.reenact(fixture_root="fixtures/marked")
class TestMarked:
    def test_marker(self):
        _ping("marker")


def test_after():
    _ping("setting")
"""


def test_scopes_in_code_follow_the_setting_and_the_marker(project: Project) -> None:
    shutil.rmtree(project.root / ".reenact")
    project.pytester.makeini("[pytest]\nreenact_fixture_root = fixtures/all\n")
    (project.tests / "test_scopes.py").write_text(SCOPES, "utf-8")
    module = "tests/test_scopes.py"
    recorded = project.run(module, "-k", "not after", mode="record")
    recorded.assert_outcomes(passed=2, deselected=1)
    fixtures = project.root / "fixtures"
    assert sorted(str(one.relative_to(fixtures)) for one in fixtures.rglob("smoke.jsonl")) == [
        "all/rr/smoke.jsonl",
        "marked/rr/smoke.jsonl",
    ]
    project.run(module).assert_outcomes(passed=3)
    project.put(_case("handle", "by_handle"))
    project.run("tests/tests.json", mode="record").assert_outcomes(passed=1)
    assert (fixtures / "all" / "rr" / "handles.jsonl").exists()
    # The variable goes before the setting, and not before the marker.
    (fixtures / "all").rename(fixtures / "elsewhere")
    project.environ.setenv("REENACT_FIXTURE_ROOT", str(fixtures / "elsewhere"))
    project.run(module).assert_outcomes(passed=3)
    assert os.environ["REENACT_FIXTURE_ROOT"] == str(fixtures / "elsewhere")


def test_what_is_expected_and_what_is_not(project: Project) -> None:
    project.put(
        _case("compares", "compares"),
        _case("fails", "compares", expect="fail"),
        _case("raises", "lookup", expect="fail", raises="LookupError"),
        _case("exact", "lookup", expect="fail", raises="builtins.KeyError"),
        _case("leaves", "leaves", expect="fail"),
        _case("other", "lookup", expect="fail", raises="ValueError"),
        _case("passes", "alone", expect="fail"),
        _case("refused", "refused", expect="fail"),
        _case("refusal", "refused", expect="fail", raises="PathRefused"),
        _case("skipped", "compares", expect="skip"),
        _case("method", "Suite.fine", world="ci"),
    )
    result = project.run("-rA")
    result.assert_outcomes(passed=6, failed=4, skipped=1)
    text = _text(result)
    for name in ("compares", "other", "passes", "refused"):
        assert f"FAILED tests/tests.json::{name}" in text
    assert "assert 'here' == 'there'" in text  # rewritten, as in a test module
    assert "tests.json:8: expected to fail with ValueError" in text
    assert "tests.json:9: app:alone was expected to fail with an exception, and passed" in text
    assert "tests.json:10: expected to fail with an error of its own" in text
    assert "tests.json:12: expect is skip" in text
    assert "collecting.py" not in text
    assert "case_judging.py" not in text


def test_entries_that_are_not_there(project: Project) -> None:
    project.put(
        _case("typo", "smoek"),
        {**_case("module", "x"), "entry": "apq:smoke"},
        _case("number", "NUMBER"),
        _case("nested", "Suite.fnie"),
        {**_case("broken", "x"), "entry": "broken:x"},
    )
    (project.tests / "broken.py").write_text("import no_such_module_at_all\n", "utf-8")
    result = project.run()
    result.assert_outcomes(failed=5)
    result.stdout.fnmatch_lines(
        [
            "tests.json:3: the entry app:smoek is not there: * has no smoek",
            "hint: did you mean smoke?",
            "tests.json:4: the entry apq:smoke cannot be imported: module apq does not exist",
            "tests.json:5: the entry app:NUMBER is int, and cannot be called",
            "hint: did you mean fine?",
            "*ModuleNotFoundError: No module named 'no_such_module_at_all'",
        ]
    )
    assert "importlib" not in _text(result)
    assert "rewrite.py" not in _text(result)


def test_two_modules_of_one_name_are_not_taken_for_each_other(project: Project) -> None:
    other = project.root / "other"
    other.mkdir()
    (other / "app.py").write_text("def alone():\n    raise LookupError\n", "utf-8")
    project.put(_case("one", "alone"))
    (project.tests / "tests.json").rename(other / "tests.json")
    project.put(_case("one", "alone"), {**_case("os", "getcwd"), "entry": "os:getcwd"})
    result = project.run("tests", "other")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["tests.json:3: app is *app.py, and there is *app.py, too"])


def test_tests_are_chosen_by_name_and_reported_with_their_line(project: Project) -> None:
    project.put(_case("one", "alone"), _case("two", "alone", world="ci"), _case("three", "where"))
    project.run("tests/tests.json::two").assert_outcomes(passed=1)
    project.run("-k", "two or three").assert_outcomes(passed=2, deselected=1)
    project.run("-k", "ci").assert_outcomes(passed=1, deselected=2)
    result = project.run("--collect-only", "-q")
    assert re.findall(r"tests/tests\.json::\w+", _text(result)) == [
        f"tests/tests.json::{name}" for name in ("one", "two", "three")
    ]
    items, _ = project.pytester.inline_genitems(*ARGUMENTS)
    assert [item.location for item in items] == [
        (str(Path("tests/tests.json")), line, name)
        for line, name in ((2, "one"), (3, "two"), (4, "three"))
    ]
    project.run("-p", "xdist", "-n", "2").assert_outcomes(passed=3)


def test_a_list_that_is_wrong_says_where_and_stops(project: Project) -> None:
    project.put(
        _case("a", "smoke", fixtureroot="f"),
        _case("b", "smoke", world="tset"),
    )
    result = project.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        [
            "tests/tests.json:3 $.tests[[]0[]].fixtureroot: there is no such field",
            "  hint: did you mean fixture_root?",
        ]
    )
    project.put(
        _case("a", "smoke", world="tset"),
        _case("a", "smoke", fixture_root="../outside"),
        _case("c", "smoke", fixture_root="."),
        _case("d", "smoke", world="edge"),
    )
    put_set(project.root, SMOKE, worlds=["edge"])
    result = project.run()
    result.stdout.fnmatch_lines(
        [
            "tests/tests.json:3 $.tests[[]0[]].world: tset is not a known world",
            "tests/tests.json:4 $.tests[[]1[]].id: a stands twice, first at *",
            "tests/tests.json:4 $.tests[[]1[]].fixture_root: *segment '..'",
            "tests/tests.json:5 $.tests[[]2[]].fixture_root: *segment '.'",
        ]
    )
    assert "tests.json:6" not in _text(result)  # the index names that world


def test_lists_of_other_tools_are_left_alone(project: Project) -> None:
    manifest = project.tests / "tests.json"
    manifest.write_text('{"schema_version": "vendor.tests@0.1.0", "tests": []}', "utf-8")
    assert project.run().ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result = project.run("tests/tests.json")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*not a list of tests of version reenact.tests@1"])


def test_a_policy_that_is_not_pinned_fails_with_the_command(project: Project) -> None:
    where = {"fixture_root": "fixtures"}
    project.put(
        _case("opens", "smoke", **where),
        _case("given", "given", cassette="smoke", policy="smoke_v1", mode="replay", **where),
    )
    project.run("-k", "opens", mode="record").assert_outcomes(passed=1)
    project.run().assert_outcomes(passed=2)
    pin = "hint: undo the change, or if it is meant: reenact policy pin smoke_v1"

    put(project.root, "policies/smoke_v1.policy.json", {**SMOKE, "unused": "allow"})
    _fails_with(project, "smoke_v1 is not what the index pins", pin)

    put_set(project.root, {**SMOKE, "sanitizer": "mine"}, SANITIZER)
    put(project.root, "sanitizers/mine.sanitize.json", {**SANITIZER, "profile": "none"})
    _fails_with(project, "mine is not what the index pins", pin)

    (project.root / ".reenact" / "index.json").unlink()
    _fails_with(project, "there is no such file", "reenact policy pin ID")

    put_set(project.root, {**POLICY, "id": "other"})
    _fails_with(
        project, "does not name it", "hint: look through it, then: reenact policy pin smoke_v1"
    )


def test_a_policy_is_used_in_its_worlds_only(project: Project) -> None:
    where = {"fixture_root": "fixtures"}
    project.put(*(_case(one, "smoke", world=one, **where) for one in ("test", "ci", "local")))
    project.run("tests/tests.json::test", mode="record")
    project.environ.setenv("REENACT_WORLD", "production")
    result = project.run()
    result.assert_outcomes(passed=2, failed=1)
    text = _text(result)
    assert "the index does not allow the world local for the policy smoke_v1" in text
    assert "hint: allowed: ci, test (.reenact/index.json, worlds)" in text


def _fails_with(project: Project, *said: str) -> None:
    result = project.run()
    outcomes = result.parseoutcomes()  # one that has a cassette is refused before it is run
    assert outcomes.get("failed", 0) + outcomes.get("errors", 0) == 2
    for text in said:
        assert _text(result).count(text) >= 2, text


def test_a_divergence_is_no_expected_failure(project: Project) -> None:
    where = {"fixture_root": "fixtures"}
    project.put(_case("opens", "smoke", **where))
    project.run(mode="record").assert_outcomes(passed=1)
    same = {"cassette": "smoke", "mode": "replay", **where}
    project.put(
        _case("given", "given", **same),
        _case("changed", "changed", expect="fail", **same),
        _case("raises", "changed", expect="fail", raises="DivergenceError", **same),
    )
    result = project.run()
    result.assert_outcomes(passed=1, failed=2)
    assert "pong" in _text(result)


def test_without_a_list_nothing_of_ours_is_imported(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        """
        import sys

        def test_it():
            assert not [name for name in sys.modules if name.startswith("reenact.engine")]
            assert "reenact.policy.json_tests" not in sys.modules
        """
    )
    pytester.makefile(".json", data="{}")
    pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "-p", "reenact.pytest_plugin"
    ).assert_outcomes(passed=1)
