"""``--reenact-update`` makes again what differs, and says what it was."""

from __future__ import annotations

import pytest

from tests.plugin.project import Project

pytest_plugins = ["pytester"]

TESTS = """
import pathlib, time
import pytest
from world import get

CHANGED = pathlib.Path(__file__).with_name("changed").exists()


def ask():
    get("/first", t=time.time())
    get("/new" if CHANGED else "/old")
    if CHANGED:
        get("/more")
    else:
        get("/gone")
    get("/last")


@pytest.mark.reenact
def test_own():
    ask()


@pytest.mark.reenact(scope="module")
def test_part():
    ask()


@pytest.mark.reenact
def test_same():
    get("/same")
"""


def test_an_update_makes_again_what_differs_and_nothing_else(project: Project) -> None:
    project.write("test_it.py", TESTS)
    project.run().assert_outcomes(passed=3)
    project.world.news()
    before = {name: project.root / ".reenact/cassettes" / name for name in project.cassettes}
    lines = {name: path.read_text("utf-8").splitlines() for name, path in before.items()}
    project.write("changed", "")
    run = project.run("--reenact-update", "--reenact-report", "report.json")
    run.assert_outcomes(passed=3)
    run.stdout.fnmatch_lines(["reenact: 1 replayed, 2 updated"])
    assert project.world.news() == ["/more", "/more", "/new", "/new"]
    told = project.report()["test_it.py::test_own"]
    assert told["kept"] == 2
    changes = {name: told[name] for name in ("changed", "added", "dropped")}
    assert len(changes["changed"]) == 2
    counts = ", ".join(f"{len(found)} {name}" for name, found in changes.items())
    details = [f"{name}: {one['detail']}" for name, found in changes.items() for one in found]
    assert told["notes"] == [f"2 kept, {counts}", *details]
    assert project.report()["test_it.py::test_same"]["notes"] == []
    for name, old in lines.items():
        kept = [line for line in old if "/first" in line or "/last" in line or "/same" in line]
        new = before[name].read_text("utf-8").splitlines()
        assert [line for line in kept if line not in new] == []
    project.run().assert_outcomes(passed=3)
    assert project.world.news() == []


@pytest.mark.parametrize("scope", ["function", "module"])
def test_an_update_of_a_test_that_fails_changes_nothing(project: Project, scope: str) -> None:
    test = (
        "import pathlib, pytest\nfrom world import get\n"
        "CHANGED = pathlib.Path(__file__).with_name('changed').exists()\n"
        f"@pytest.mark.reenact(scope={scope!r})\n"
        "def test_it():\n    get('/new' if CHANGED else '/old')\n    assert not CHANGED\n"
    )
    project.write("test_it.py", test)
    project.run().assert_outcomes(passed=1)
    (name,) = project.cassettes
    before = (project.root / ".reenact/cassettes" / name).read_bytes()
    project.write("changed", "")
    run = project.run("--reenact-update")
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(["reenact: 1 not kept"])
    assert (project.root / ".reenact/cassettes" / name).read_bytes() == before
