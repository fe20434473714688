"""What is kept of a recording, and what is not."""

from __future__ import annotations

from tests.plugin.project import Project

pytest_plugins = ["pytester"]

TESTS = """
import pathlib
import pytest
from world import get

pytestmark = pytest.mark.reenact
GOOD = pathlib.Path(__file__).with_name("good").exists()
RUNS = []


def test_fails():
    get("/fails")
    assert GOOD


def test_skips():
    get("/skips")
    pytest.skip("half way")


@pytest.fixture
def broken():
    get("/broken")
    assert GOOD


def test_fixture_fails(broken):
    pass


@pytest.mark.xfail
def test_is_known_to_fail():
    get("/known")
    assert False


@pytest.mark.flaky(reruns=1)
def test_fails_at_first():
    RUNS.append(1)
    get(f"/rerun/{len(RUNS)}")
    assert len(RUNS) > 1


def test_is_good():
    get("/good")


def test_stops_everything():
    get("/stops")
    if not GOOD:
        raise KeyboardInterrupt
"""


def test_half_a_recording_is_never_a_cassette(project: Project) -> None:
    project.write("test_it.py", TESTS)
    first = project.run(plugins=("rerunfailures",))
    first.stdout.fnmatch_lines(
        [
            "test_it.py::test_fails: *test_fails.jsonl was not written, because the run failed",
            "reenact: 3 recorded, 1 skipped, 2 not kept",
        ]
    )
    assert "KeyboardInterrupt" in first.stdout.str()
    good = ["test_fails_at_first", "test_is_good", "test_is_known_to_fail"]
    assert project.cassettes == [f"test_it/{name}.jsonl" for name in good]
    assert list((project.root / ".reenact").rglob("*.part")) == []
    text = project.cassette("test_it/test_fails_at_first").read_text("utf-8")
    assert ("/rerun/1" in text, "/rerun/2" in text) == (False, True)

    # What a run that was killed has left does not stand in the way, and is not taken for whole.
    lines = text.splitlines(keepends=True)
    part = project.cassette("test_it/test_fails").with_name("test_fails.jsonl.part")
    part.write_text("".join(lines[:2]), "utf-8")
    before = project.cassette("test_it/test_is_good").read_bytes()
    project.write("good", "")
    project.world.news()
    second = project.run("-k", "not first", plugins=("rerunfailures",))
    second.assert_outcomes(passed=4, skipped=1, xfailed=1, deselected=1)
    second.stdout.fnmatch_lines(["reenact: 2 replayed, 3 recorded, 1 skipped"])
    assert project.world.news() == ["/broken", "/fails", "/skips", "/stops"]

    # One that fails while it is made again leaves the old one as it was.
    (project.root / "good").unlink()
    third = project.run("--reenact-rewrite", "-k", "test_fails", plugins=("rerunfailures",))
    third.stdout.fnmatch_lines(["*test_fails.jsonl stays as it was, because the run failed"])
    assert project.cassette("test_it/test_is_good").read_bytes() == before
    assert '"closed"' in project.cassette("test_it/test_fails").read_text("utf-8")


SHARED = """
import threading, time
import pytest
from world import get


@pytest.mark.reenact(scope="class")
class TestOne:
    def test_first(self):
        get("/first", t=time.time())
        get("/first/again")

    def test_second(self):
        thread = threading.Thread(target=get, args=("/second",))
        thread.start()
        thread.join()

    def test_nothing(self):
        assert True

    @pytest.mark.parametrize("n", [1, 2])
    def test_many(self, n):
        get(f"/many/{n}")


@pytest.mark.reenact(scope="module")
def test_of_the_module():
    get("/module")
"""


def test_tests_of_a_class_have_parts_of_one_cassette(project: Project) -> None:
    project.write("test_it.py", SHARED)
    first = project.run("-n", "2", plugins=("xdist",))
    first.assert_outcomes(passed=6)
    assert project.cassettes == ["test_it/TestOne.jsonl", "test_it/module.jsonl"]
    asked = ["/first", "/first/again", "/many/1", "/many/2", "/module", "/second"]
    assert project.world.news() == asked
    text = project.cassette("test_it/TestOne").read_text("utf-8")
    assert '"sessionKey":"TestOne::test_many[2]"' in text

    some = project.run("-k", "second or many or nothing", "--reenact-report", "report.json")
    some.assert_outcomes(passed=4, deselected=2)
    some.stdout.fnmatch_lines(["reenact: 4 replayed"])
    assert project.world.news() == []
    assert {test["counts"]["unused"] for test in project.report().values()} == {0}

    one = project.run("-k", "test_many and 1", "--reenact-rewrite")
    one.stdout.fnmatch_lines(["reenact: 1 recorded"])
    assert project.world.news() == ["/many/1"]
    kept = [line for line in text.splitlines() if "/first" in line]
    again = project.cassette("test_it/TestOne").read_text("utf-8").splitlines()
    assert [line.partition('"ts"')[2] for line in kept] == [
        line.partition('"ts"')[2] for line in again if "/first" in line
    ]
    turned = project.run(plugins=("randomly",))
    turned.assert_outcomes(passed=6)
    assert project.world.news() == []
