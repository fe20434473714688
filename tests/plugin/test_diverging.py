"""A test that does something else than was recorded fails, and its report says what."""

from __future__ import annotations

import pytest

from tests.plugin.project import Project

pytest_plugins = ["pytester"]

# What changes is on the disk: what a test reads of the environment is as it was recorded.
TESTS = """
import asyncio, pathlib, threading
import pytest
from world import get, httpx, URL

pytestmark = pytest.mark.reenact
CHANGED = pathlib.Path(__file__).with_name("changed").exists()


def ask(old, new):
    return get(new if CHANGED else old)


def test_another_call():
    ask("/old", "/new")


def test_swallowed():
    try:
        ask("/old", "/new")
    except BaseException:
        pass


def test_in_a_thread():
    thread = threading.Thread(target=ask, args=("/old", "/new"))
    thread.start()
    thread.join()


def test_in_a_group():
    async def main():
        async with httpx.AsyncClient(base_url=URL) as client, asyncio.TaskGroup() as group:
            group.create_task(client.get("/new" if CHANGED else "/old"))
    asyncio.run(main())


def test_left_over():
    if not CHANGED:
        get("/left")


@pytest.fixture
def goodbye():
    yield
    if not CHANGED:
        get("/goodbye")


def test_left_over_at_the_end(goodbye):
    get("/first")


def test_one_more():
    get("/one")
    if CHANGED:
        get("/more")


def test_fails_by_itself():
    if CHANGED:
        assert 1 == 2
    get("/never")


def test_skips():
    if CHANGED:
        pytest.skip("not here")
    get("/never")


def test_the_same():
    get("/same")
"""


def test_a_divergence_fails_the_test_and_is_told_plainly(project: Project) -> None:
    project.write("test_it.py", TESTS)
    project.run().assert_outcomes(passed=10)
    project.world.news()
    project.write("changed", "")

    run = project.run(
        "--reenact-report",
        "report.json",
        "-W",
        "ignore::pytest.PytestUnhandledThreadExceptionWarning",
    )
    run.assert_outcomes(failed=7, passed=2, skipped=1, errors=1)
    assert project.world.news() == []
    text = run.stdout.str()
    first = text.partition("test_another_call _")[2].partition("test_swallowed _")[0]
    assert "test_it.py:15: in test_another_call" in first
    assert "E   reenact.errors.DivergenceError: divergence: event_payload_mismatch" in first
    assert f'E       - "{project.world.url}/old"' in first
    assert f'E       + "{project.world.url}/new"' in first
    assert "pytest test_it.py::test_another_call --reenact-update" in first
    cassette = ".reenact/cassettes/test_it/test_another_call.jsonl"
    assert f"reenact explain {cassette}" in first
    assert "site-packages" not in first
    assert "reenact/engine" not in text.replace("\\", "/")
    swallowed = text.partition("test_swallowed _")[2].partition("test_in_a_thread _")[0]
    assert 'test_it.py", line 20, in test_swallowed' in swallowed
    run.stdout.fnmatch_lines(
        [
            "*ERROR at teardown of test_left_over_at_the_end*",
            "E   DivergenceError: divergence: event_missing, *",
            "*_ test_left_over _*",
            "E   DivergenceError: divergence: event_missing, *",
            "reenact: 2 replayed, 1 skipped, 7 diverged",
            "FAILED test_it.py::test_another_call - DivergenceError: The call network*",
        ]
    )
    assert "test_fails_by_itself - assert 1 == 2" in text  # and nothing of what it did not use
    told = project.report()
    assert (
        told["test_it.py::test_in_a_thread"]["divergences"][0]["code"] == "event_payload_mismatch"
    )
    assert told["test_it.py::test_left_over"]["counts"]["unused"] == 1
    assert told["test_it.py::test_the_same"]["divergences"] == []

    explained = project.explain(cassette)
    assert [cause["name"] for cause in explained["causes"]] == ["another_call"]
    (update, _) = explained["causes"][0]["ways"]
    assert update["command"] == "pytest test_it.py::test_another_call --reenact-update"

    lenient = project.run("--reenact-lenient", "-k", "another or swallowed or left or more")
    lenient.assert_outcomes(passed=4, failed=1)  # there is nothing to serve for one more call
    lenient.stdout.fnmatch_lines(["test_it.py::test_another_call: 1 divergence"])


TROUBLE = """
import pytest
from world import get


@pytest.mark.reenact("same", mode="record")
@pytest.mark.parametrize("n", [1, 2])
def test_one_cassette_for_two(n):
    get("/same")


@pytest.mark.reenact("../outside")
def test_outside():
    get("/outside")


@pytest.mark.reenact("test_it/test_kept", mode="record")
def test_record_again():
    get("/again")


@pytest.mark.reenact(only="netwrk", mode="record")
def test_only():
    get("/only")


@pytest.mark.reenact(mode="record")
@pytest.mark.trio
def test_trio():
    get("/trio")
"""


def test_each_trouble_with_a_cassette_says_what_to_do(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = "    get(f'/{request.node.name}')\n"
    tests = [f"def test_{name}(request):\n{asks}" for name in ("missing", "cut", "edited", "kept")]
    top = "import pytest\nfrom world import get\npytestmark = pytest.mark.reenact"
    project.write("test_it.py", "\n".join([top, *tests]))
    project.run().assert_outcomes(passed=4)
    project.world.news()
    project.cassette("test_it/test_missing").unlink()
    cut = project.cassette("test_it/test_cut")
    cut.write_bytes(cut.read_bytes()[:-40])
    edited = project.cassette("test_it/test_edited")
    edited.write_bytes(edited.read_bytes().replace(b"/test_edited", b"/test_changed", 1))
    project.write("test_trouble.py", TROUBLE)

    monkeypatch.setenv("CI", "true")
    run = project.run("-W", "ignore::pytest.PytestUnknownMarkWarning")
    run.assert_outcomes(passed=1, errors=8, failed=1)
    assert project.world.news() == []
    text = run.stdout.str()
    for said in (
        "RecordingMissing: test_it.py::test_missing has no cassette, and nothing is recorded in CI",
        "check it in: pytest test_it.py::test_missing --reenact-mode=record",
        "RecordingDamaged: test_cut.jsonl line 3: the closing line is missing or cut short",
        "RecordingDamaged: test_edited.jsonl line 2: not what was written",
        "E     pytest test_it.py::test_edited --reenact-rewrite",
        "UsageError: test_trouble.py::test_one_cassette_for_two[1] and "
        "test_trouble.py::test_one_cassette_for_two[2] name one cassette",
        "PathRefused: '../outside' cannot be a cassette: it has the segment '..'",
        "RecordingExists: test_trouble.py::test_record_again has a cassette already",
        "'netwrk' is not a source that can be recorded alone",
        "hint: did you mean network?",
        "UsageError: test_trouble.py::test_trio runs on trio, which is not covered",
        "reenact: 1 replayed, 1 not kept, 8 refused",
    ):
        assert said in text

    project.write("test_typo.py", top.replace("reenact", "reenact(casette='x')") + "\n" + tests[0])
    typo = project.run("test_typo.py")
    assert typo.ret == pytest.ExitCode.USAGE_ERROR
    typo.stderr.fnmatch_lines(["*has no argument 'casette': did you mean cassette?*"])


_DATABASE = """
import sqlite3
import pytest
from world import get


def _write():
    get("/written")
    with sqlite3.connect("data.db") as made:
        made.execute("CREATE TABLE IF NOT EXISTS one (name TEXT)")


@pytest.mark.reenact
def test_refused():
    _write()


@pytest.mark.reenact(allow=["sqlite3"])
def test_allowed():
    _write()
"""


def test_statements_of_a_database_fail_a_replayed_test_unless_they_are_allowed(
    project: Project,
) -> None:
    project.write("test_it.py", _DATABASE)
    project.run().assert_outcomes(passed=2)
    result = project.run()
    result.assert_outcomes(passed=1, failed=1)
    assert "--allow sqlite3" in result.stdout.str()
    project.write("pytest.ini", "[pytest]\nreenact_allow = sqlite3\n")
    project.run().assert_outcomes(passed=2)
