"""Where the index lies, and everything that can be wrong with it."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from reenact.search.index import VERSION
from tests.unit.search.finding import Project, hits, record

CHILD = """
import os, resource, sys
from pathlib import Path
sys.path[:0] = {path!r}
from tests.unit.search.finding import Project, hits
project = Project(Path({root!r}), {environ!r})
{body}
"""


def _spawn(project: Project, body: str) -> subprocess.Popen[str]:
    code = CHILD.format(
        path=[one for one in sys.path if one],
        root=str(project.root),
        environ=project.environ,
        body=textwrap.dedent(body),
    )
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_only_its_owner_and_never_git_looks_at_it(project: Project) -> None:
    record(project.runs / "a", "warm")
    assert project.ask("warm").index == project.index
    assert stat.S_IMODE(project.index.parent.stat().st_mode) == 0o700
    for file in (project.index, project.index.with_suffix(".lock")):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (project.index.parent / ".gitignore").read_text(encoding="utf-8") == "*\n"
    assert list((project.runs / "a").iterdir()) != []
    assert not list(project.runs.rglob("*.sqlite3*"))


@pytest.mark.parametrize("how", ["text", "zeros", "cut", "no tables", "older", "middle"])
def test_a_damaged_index_is_made_anew_and_said_so(project: Project, how: str) -> None:
    record(project.runs / "a", *(f"warm {number}" for number in range(200)))
    project.ask()
    content = project.index.read_bytes()
    if how == "text":
        project.index.write_text("no database", encoding="utf-8")
    elif how == "zeros":
        project.index.write_bytes(bytes(len(content)))
    elif how == "cut":
        project.index.write_bytes(content[: len(content) // 2])
    elif how == "middle":
        project.index.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    else:
        with sqlite3.connect(project.index) as database:
            if how == "older":
                database.execute("PRAGMA user_version = 0")
            else:
                database.execute("DROP TABLE places")
        database.close()
    assert len(project.found("warm")) == 200
    assert [("created again" in text) for text in project.said] == [True]
    assert project.ask("warm").progress.read == 0
    assert len(project.said) == 1


def test_the_index_of_a_later_version_stays_as_it_is(project: Project) -> None:
    record(project.runs / "a", "warm")
    project.ask()
    with sqlite3.connect(project.index) as database:
        database.execute(f"PRAGMA user_version = {VERSION + 1}")
    database.close()
    before = project.index.read_bytes()
    result = project.ask("warm")
    assert hits(result) == [("a", 1)]
    assert result.index is not None
    assert result.index.is_relative_to(project.environ["REENACT_CONFIG_DIR"])
    assert f"version {VERSION + 1}" in project.said[0]
    assert project.index.read_bytes() == before


def test_an_index_that_came_with_a_repository_is_not_trusted(project: Project) -> None:
    record(project.runs / "a", "warm")
    project.ask()
    with sqlite3.connect(project.index) as database:
        database.execute("DELETE FROM places")
    database.close()
    project.index.chmod(0o644)
    assert project.found("warm") == [("a", 1)]
    assert "created again" in project.said[0]
    assert stat.S_IMODE(project.index.stat().st_mode) == 0o600


def test_a_link_in_the_place_of_its_folder_is_not_followed(project: Project) -> None:
    record(project.runs / "a", "warm")
    elsewhere = project.root / "elsewhere"
    elsewhere.mkdir()
    (project.root / ".reenact" / "cache").symlink_to(elsewhere)
    assert project.found("warm") == [("a", 1)]
    assert list(elsewhere.iterdir()) == []
    assert "not one of yours" in project.said[0]


def test_it_may_be_deleted_at_any_time(project: Project) -> None:
    record(project.runs / "a", "warm")
    project.ask()
    shutil.rmtree(project.index.parent)
    assert project.found("warm") == [("a", 1)]
    assert not project.said


def test_a_place_that_cannot_be_written_is_left_for_the_users_own(project: Project) -> None:
    record(project.runs / "a", "warm")
    (project.root / ".reenact" / "cache").write_text("in the way", encoding="utf-8")
    result = project.ask("warm")
    assert hits(result) == [("a", 1)]
    assert result.index is not None
    assert not result.index.is_relative_to(project.root)
    assert "cannot be stored" in project.said[0]


def test_without_any_place_it_is_in_memory(project: Project) -> None:
    record(project.runs / "a", "warm")
    (project.root / ".reenact" / "cache").write_text("in the way", encoding="utf-8")
    project.environ = {}
    result = project.ask("warm")
    assert (hits(result), result.index) == ([("a", 1)], None)
    assert project.said[-1] == "the index is made in memory, for this search only"


def test_without_fts5_every_text_is_looked_at(project: Project) -> None:
    record(project.runs / "a", "lukewarm", "cold")
    result = project.ask("warm", words_known=False)
    assert (hits(result), result.words) == ([("a", 1)], False)
    assert "FTS5" in project.said[0]
    with sqlite3.connect(f"{project.index.with_name('search-plain.sqlite3')}") as database:
        names = database.execute("SELECT name FROM sqlite_schema").fetchall()
    database.close()
    assert ("words",) not in names
    assert project.found("warm") == [("a", 1)]


def test_a_disk_that_is_full_costs_only_time(project: Project) -> None:
    record(project.runs / "a", *(f"warm {'x' * 500} {number}" for number in range(300)))
    child = _spawn(
        project,
        """
        sys.dont_write_bytecode = True  # Python 3.11 would keep a bytecode file that the limit has cut short.
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        result = project.ask("warm")
        print(len(hits(result)), result.index)
        print(project.said)
        """,
    )
    out, err = child.communicate(timeout=60)
    assert out.splitlines()[0] == "300 None", err
    assert "cannot be stored" in out
    assert len(project.found("warm")) == 300


def test_several_searches_at_a_time_make_one_index(project: Project) -> None:
    for number in range(12):
        record(project.runs / f"r{number}", *(f"warm {number} {one}" for one in range(40)))
    children = [
        _spawn(
            project, "result = project.ask('warm')\nprint(len(hits(result)), result.progress.read)"
        )
        for _ in range(3)
    ]
    said = [child.communicate(timeout=60) for child in children]
    assert [out.split()[0] for out, _ in said] == ["480"] * 3, said
    assert sum(int(out.split()[1]) for out, _ in said) == 12
    assert project.ask().progress.read == 0


def test_a_search_that_is_killed_loses_nothing(project: Project) -> None:
    for name in ("a", "b"):
        record(project.runs / name, *(f"warm {name} {one}" for one in range(1_000)))
    long = record(project.runs / "z", *(f"warm {one}" for one in range(1_200)), "y " * 50_000)
    (blob, *_) = (one for one in (long / "blobs").rglob("*") if one.is_file())
    child = _spawn(
        project,
        f"""
        import os, signal, sys

        def kill(event, given):
            if event == "open" and str(given[0]) == {str(blob)!r}:  # it has come so far in the log
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(kill)
        project.ask()
        """,
    )
    _, err = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGKILL, err
    result = project.ask("warm")
    assert (len(hits(result)), result.progress.read) == (3_200, 1)
    assert not project.said


@pytest.mark.skipif(os.geteuid() == 0, reason="for root every folder can be written")
def test_a_folder_that_is_read_only(project: Project) -> None:
    record(project.runs / "a", "warm")
    folder = project.root / ".reenact"
    folder.chmod(0o500)
    try:
        assert project.found("warm") == [("a", 1)]
    finally:
        folder.chmod(0o700)
    assert "cannot be stored" in project.said[0]


def test_names_that_are_no_text_are_names(project: Project) -> None:
    place = Path(os.fsdecode(os.fsencode(project.runs) + b"/\xff\xfe"))
    record(place, "warm")
    (run,) = project.ask("warm").matches.runs
    assert os.fsencode(run.path.name) == b"\xff\xfe"
