"""The canonical setup of X07's page on record/replay, with a Python program in it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from reenact import rr
from reenact.rr.rrbin import encode
from tests.plugin.standin import ARGUMENTS, CONFTEST
from tests.unit.policy.arches import REFERENCE, arch_index, put_arch
from tests.unit.policy.sets import POLICY, put_set

pytest_plugins = ("pytester",)

APP = """
import reenact
from reenact import rr


def rr_smoke_v1():
    with rr.with_policy("smoke_rr_v1", "smoke.rrbin", 2):
        doc = b"".join(
            rr.stream(
                "K",
                chunk_max_bytes=64,
                bufread_cap_bytes=64,
                max_in_bytes=1048576,
                max_out_bytes=1048576,
                max_items=1048576,
            )
        )
    assert doc == b"PONG" * 100


def in_session_v1():
    with reenact.session("talk", mode=0):
        rr_smoke_v1()


def rewrites_v1():
    with rr.with_policy("smoke_rr_v1", "smoke.rrbin", 4):
        pass


def traverses_v1():
    with rr.with_policy("smoke_rr_v1", ".x07_rr/smoke.rrbin", 2):
        pass
"""
ENTRY = rr.Entry(kind="rr", op="std.stream.src.rr_send_v1", key=b"K", req=b"K", resp=b"PONG" * 100)
TEST = {
    "id": "rr_smoke",
    "world": "solve-rr",
    "entry": "app.rr_smoke_v1",
    "expect": "pass",
    "fixture_root": "fixtures/replay",
}


class Project:
    """The files of the page, below pytester's folder."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester
        self.root = pytester.path
        self.tests = self.root / "tests"
        self.cassette = self.tests / "fixtures/replay/rr/smoke.rrbin"
        self.cassette.parent.mkdir(parents=True)
        self.cassette.write_bytes(encode(ENTRY, 0))
        pytester.makeconftest(CONFTEST)
        (self.tests / "app.py").write_text(APP, "utf-8")
        self.put(TEST)

    def put(self, *tests: dict[str, str]) -> None:
        manifest = {"schema_version": "x07.tests_manifest@0.1.0", "tests": tests}
        (self.tests / "tests.json").write_text(json.dumps(manifest, indent=2), "utf-8")

    def run(self, *args: str) -> pytest.RunResult:
        return self._pytester.runpytest_subprocess(*ARGUMENTS, *args)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # each takes its time
    return Project(pytester)


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(one.relative_to(folder)): one.read_bytes()
        for one in folder.rglob("*")
        if one.is_file() and one.suffix != ".pyc" and one.name not in ("stdout", "stderr")
    }


def test_the_canonical_setup_of_x07_passes_as_it_is_written(project: Project) -> None:
    put_arch(project.root)
    before = _files(project.root)
    result = project.run("-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["tests/tests.json::rr_smoke PASSED*"])
    assert _files(project.root) == before


def test_the_imported_policy_does_the_same(project: Project, pytester: pytest.Pytester) -> None:
    put_arch(project.root)
    put_set(project.root, POLICY)
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*reenact policy import arch/rr*"])
    assert pytester.run(sys.executable, "-m", "reenact", "policy", "import", "arch/rr").ret == 0
    project.run().assert_outcomes(passed=1)


def test_the_policy_holds_in_the_tests_of_a_manifest(project: Project) -> None:
    put_arch(project.root, index=arch_index({**REFERENCE, "kinds_allowed": ["http"]}))
    project.put(
        TEST,
        {**TEST, "id": "session", "entry": "app.in_session_v1"},
        {**TEST, "id": "rewrite", "entry": "app.rewrites_v1"},
        {**TEST, "id": "traversal", "entry": "app.traverses_v1"},
    )
    result = project.run()
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(["*the index does not allow the kind rr for the policy*"])
    result.stdout.fnmatch_lines(["*the index does not allow the mode rewrite*"])
    result.stdout.fnmatch_lines(["*'.x07_rr/smoke.rrbin' cannot be a cassette*"])
    put_arch(project.root)
    project.run("-k", "rr_smoke or session").assert_outcomes(passed=2, deselected=2)


def test_the_common_mistake_of_the_page_is_refused(project: Project) -> None:
    put_arch(project.root)
    project.put({**TEST, "fixture_root": "."})
    result = project.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*$.tests?0?.fixture_root: it cannot be a fixture root*"])


def test_a_manifest_without_a_python_module_is_left_to_x07(project: Project) -> None:
    (project.tests / "app.py").unlink()
    assert project.run().ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result = project.run("tests/tests.json")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the entry app:rr_smoke_v1 cannot be imported*"])
