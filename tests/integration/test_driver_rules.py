"""Drivers that are allowed by name, recordings of programs that use them, and whole processes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import reenact
from reenact import DivergenceError, Policy, UsageError
from reenact.hermetic.driver_statements import DRIVERS, loaded_drivers
from reenact.policy.model import BoundaryRule
from tests.integration.hermetic import empty_recording
from tests.integration.processes import PATIENCE, environment

_INSERTS = """\
import sqlite3
try:
    with sqlite3.connect("data.db") as made:
        made.execute("CREATE TABLE IF NOT EXISTS one (name TEXT)")
        made.execute("INSERT INTO one VALUES ('secret-value')")
except BaseException as error:
    print("swallowed", type(error).__name__)
"""


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return empty_recording(tmp_path / "recording")


@pytest.fixture
def database(tmp_path: Path) -> sqlite3.Connection:
    made = sqlite3.connect(tmp_path / "data.db", isolation_level=None, check_same_thread=False)
    made.execute("CREATE TABLE one (name TEXT)")
    return made


def _rows(database: sqlite3.Connection) -> list[str]:
    return [name for [name] in database.execute("SELECT name FROM one")]


# The table


def test_every_driver_has_its_own_name_and_modules() -> None:
    names = [driver.name for driver in DRIVERS]
    modules = [module for driver in DRIVERS for module in driver.modules]
    assert len(set(names)) == len(names)
    assert len(set(modules)) == len(modules)


def test_loaded_drivers_are_listed_by_name() -> None:
    assert loaded_drivers({"redis", "json", "psycopg", "MySQLdb"}) == (
        "mysqlclient",
        "psycopg",
        "redis",
    )
    assert loaded_drivers({"redis", "psycopg"}, covered={"psycopg"}) == ("redis",)
    assert "sqlite3" in loaded_drivers()


# Sessions


def test_session_allows_a_driver_by_name_and_counts_its_statements(
    recording: Path, database: sqlite3.Connection
) -> None:
    with reenact.session(capture=recording, mode="replay", allow=["sqlite3"]) as session:
        database.execute("INSERT INTO one VALUES ('allowed')")
    assert _rows(database) == ["allowed"]
    assert session.report().status == "ok"
    assert session.report().passed == {"fs.write sqlite3": 1}


def test_policy_allows_a_driver_with_a_rule(recording: Path, database: sqlite3.Connection) -> None:
    rule = BoundaryRule(capability="fs.write", operation="sqlite3", action="pass")
    policy = Policy(id="p", boundaries=(rule,), allow_passthrough=True)
    with reenact.session(capture=recording, mode="replay", policy=policy) as session:
        database.execute("INSERT INTO one VALUES ('allowed')")
    assert session.report().passed == {"fs.write sqlite3": 1}


def test_allowing_one_driver_does_not_allow_another(
    recording: Path, database: sqlite3.Connection
) -> None:
    session = reenact.session(capture=recording, mode="replay", strict=True, allow=["redis"])
    with pytest.raises(DivergenceError, match="sqlite3"), session:
        database.execute("INSERT INTO one VALUES ('refused')")
    assert _rows(database) == []


def test_unknown_driver_is_refused_with_a_hint(recording: Path) -> None:
    with pytest.raises(UsageError, match="unknown boundary or driver 'sqlite'") as caught:
        reenact.session(capture=recording, mode="replay", allow=["sqlite"])
    assert "sqlite3" in caught.value.hint


def test_replay_uses_databases_in_memory(recording: Path) -> None:
    before = sqlite3.connect(":memory:")
    with reenact.session(capture=recording, mode="replay", strict=True) as session:
        for made in (
            before,
            sqlite3.connect(":memory:"),
            sqlite3.connect(""),
            sqlite3.connect("file::memory:?cache=shared", uri=True),
        ):
            made.execute("CREATE TABLE one (name TEXT, data BLOB)")
            made.execute("INSERT INTO one VALUES ('a', zeroblob(4))")
            with made:
                made.executemany("INSERT INTO one VALUES (?, NULL)", [["b"]])
            with made.blobopen("one", "data", 1) as blob:
                blob.write(b"abcd")
            made.execute("ATTACH ':memory:' AS other")
            other = sqlite3.connect(":memory:")
            made.backup(other)
            assert other.execute("SELECT count(*) FROM one").fetchone() == (2,)
    assert session.report().status == "ok"


def test_replay_refuses_to_write_to_a_blob_opened_before(
    recording: Path, database: sqlite3.Connection
) -> None:
    database.execute("INSERT INTO one VALUES ('abcd')")
    blob = database.blobopen("one", "name", 1)
    session = reenact.session(capture=recording, mode="replay", strict=True)
    with pytest.raises(DivergenceError, match="sqlite3"), session:
        blob.write(b"WXYZ")
    blob.close()
    assert _rows(database) == ["abcd"]


def test_refusal_names_the_statement_without_its_values(
    recording: Path, database: sqlite3.Connection
) -> None:
    session = reenact.session(capture=recording, mode="replay", strict=True)
    with pytest.raises(DivergenceError) as caught, session:
        database.execute("INSERT INTO one VALUES ('secret-value')")
    said = " ".join(str(caught.value).split())
    assert "INSERT INTO one VALUES (?)" in said
    assert "data.db" in said
    assert "test_driver_rules.py" in said
    assert "secret-value" not in said


def test_lenient_replay_refuses_as_well(recording: Path, database: sqlite3.Connection) -> None:
    with reenact.session(
        capture=recording, mode="replay", strict=False, warn=lambda text: None
    ) as session:
        for _ in range(2):
            with pytest.raises(DivergenceError):
                database.execute("INSERT INTO one VALUES ('refused')")
    assert _rows(database) == []
    assert session.report().status == "diverged"


def test_other_threads_use_a_driver_while_a_replay_is_open(
    recording: Path, database: sqlite3.Connection
) -> None:
    go, done = threading.Lock(), threading.Event()  # a signal would hand the statement over
    go.acquire()

    def run() -> None:
        go.acquire()
        database.execute("INSERT INTO one VALUES ('live')")
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    with reenact.session(capture=recording, mode="replay", strict=True) as session:
        go.release()
        done.wait()
    thread.join()
    assert _rows(database) == ["live"]
    assert session.report().status == "ok"


def test_types_of_drivers_are_as_before_after_a_session(
    recording: Path, database: sqlite3.Connection
) -> None:
    before = {name: vars(sqlite3.Connection)[name] for name in vars(sqlite3.Connection)}
    with reenact.session(capture=recording, mode="replay", strict=True):
        assert vars(sqlite3.Connection)["execute"] is not before["execute"]
    after = {name: vars(sqlite3.Connection)[name] for name in vars(sqlite3.Connection)}
    assert {name for name in after if after[name] is not before.get(name)} == set()
    database.execute("INSERT INTO one VALUES ('after')")


# Recordings


def test_recording_makes_statements_and_warns_once_for_each_driver(
    tmp_path: Path, database: sqlite3.Connection
) -> None:
    warnings: list[str] = []
    with reenact.session(capture=tmp_path / "made", mode="record", warn=warnings.append):
        database.execute("INSERT INTO one VALUES ('a')")
        database.cursor().execute("INSERT INTO one VALUES ('b')")
    assert _rows(database) == ["a", "b"]
    assert len(warnings) == 1
    assert "a replay refuses them" in warnings[0]
    assert "--allow sqlite3" in warnings[0]


# Whole processes


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    (tmp_path / "program.py").write_text(_INSERTS, encoding="utf-8")

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "reenact", "run", *options, "--", sys.executable]
        return subprocess.run(
            [*command, "program.py"],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )

    return run


def test_run_exits_with_1_though_the_program_swallows_the_refusal(
    tmp_path: Path, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    recorded = run("--capture", "c")
    assert recorded.returncode == 0, recorded.stderr
    assert "--allow sqlite3" in recorded.stderr
    replayed = run("--replay", "c")
    assert replayed.returncode == 1
    assert "swallowed DivergenceError" in replayed.stdout
    assert "through sqlite3" in " ".join(replayed.stderr.split())
    witness = sqlite3.connect(tmp_path / "data.db")
    assert witness.execute("SELECT count(*) FROM one").fetchone() == (1,)


def test_run_allows_a_driver_by_name(
    tmp_path: Path, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    assert run("--capture", "c").returncode == 0
    replayed = run("--replay", "c", "--allow", "sqlite3")
    assert replayed.returncode == 0, replayed.stderr
    assert "passed through fs.write sqlite3" in replayed.stderr
    witness = sqlite3.connect(tmp_path / "data.db")
    assert witness.execute("SELECT count(*) FROM one").fetchone() == (2,)
