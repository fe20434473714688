"""The guide's commands for copies, as they stand there: copied, lost, restored, and proven."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.samples import record_run
from tests.server.databases import DATABASES, ROLE, Kind
from tests.server.deploy.guide import commands
from tests.server.deploy.standing import find_program
from tests.server.house import House, running
from tests.server.traffic.puppet import packed

pytestmark = pytest.mark.both_databases

NAME = "reenact"
"""Of the database, as in the guide."""


class Site:
    """One machine: the folders that the guide names, and a database."""

    def __init__(self, root: Path, kind: Kind) -> None:
        self._root = root
        self._kind = kind
        self.data = root / "var/lib/reenact"
        for name in ("var/lib", "backup", "elsewhere"):
            (root / name).mkdir(parents=True)
        self.address = ""
        if kind == "sqlite":
            find_program("sqlite3", "sqlite3")
        else:
            self.address = DATABASES.cluster().address(NAME)

    def type(self, beginning: str, house: House | None = None, expected: int = 0) -> str:
        """The guide's command that begins so, here; what it says."""
        (line,) = [one for one in commands("Copies") if one.startswith(beginning)]
        for place in ("/var/lib/reenact", "/backup", "/elsewhere"):
            line = line.replace(place, f"{self._root}{place}")
        line = line.removeprefix("sudo -u postgres ").replace("head-2026-01-31", "head-*")
        done = subprocess.run(
            ["bash", "-euc", line],
            cwd=self._root,
            env=self._environ(house),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
        )
        assert done.returncode == expected, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _environ(self, house: House | None) -> dict[str, str]:
        found = {**os.environ, "HOME": str(self._root)}
        programs = [str(Path(sys.executable).parent)]
        if self._kind == "postgresql":
            cluster = DATABASES.cluster()
            programs.insert(0, str(cluster.bin))
            found |= {"PGHOST": "127.0.0.1", "PGPORT": str(cluster.port), "PGUSER": "postgres"}
        if house is not None:
            found |= {"REENACT_SERVER": house.url, "REENACT_API_KEY": house.key("tenant admin")}
        return {**found, "PATH": os.pathsep.join([*programs, found.get("PATH", "")])}

    def copy(self) -> None:
        self.type("sqlite3" if self._kind == "sqlite" else "sudo -u postgres pg_dump")
        self.type("cp -a --update")
        self.type("install -d -m 700 /backup")

    def lose(self) -> None:
        """The disk is gone."""
        self.data.rename(self._root / "gone")
        if self._kind == "postgresql":
            DATABASES.cluster().sql(f"DROP DATABASE {NAME}")

    def restore(self) -> None:
        self.type("install -d -m 700 /var")
        if self._kind == "sqlite":
            self.type("cp /backup/reenact.db")
        else:
            self.type("sudo -u postgres createdb")
            self.type("sudo -u postgres pg_restore")


@pytest.fixture
def site(tmp_path: Path, database_kind: Kind) -> Iterator[Site]:
    site = Site(tmp_path, database_kind)
    with _database(database_kind):
        yield site


@contextmanager
def _database(kind: Kind) -> Iterator[None]:
    if kind == "sqlite":
        yield
        return
    cluster = DATABASES.cluster()
    cluster.sql(f"CREATE DATABASE {NAME} OWNER {ROLE}")
    try:
        yield
    finally:
        cluster.sql(f"DROP DATABASE IF EXISTS {NAME} WITH (FORCE)")


def write(house: House, name: str) -> None:
    client = house.client(house.key("tenant admin"))
    answer = client.put(f"/api/v1/environments/{name}", json={"kind": "production"})
    assert answer.status_code == 200


def push(house: House, folder: Path) -> tuple[str, bytes]:
    """A recording, which is in the blobs."""
    data = packed(record_run(folder))
    client = house.client(house.key("replayer"))
    kind = {"Content-Type": "application/octet-stream"}
    return client.post("/api/v1/captures", content=data, headers=kind).json()["captureId"], data


@pytest.mark.slow
@pytest.mark.parametrize("lost", [False, True])
def test_what_the_guide_says_brings_a_server_back(site: Site, tmp_path: Path, lost: bool) -> None:
    with running(site.data, database=site.address) as house:
        write(house, "before")
        capture, data = push(house, tmp_path / "run")
        site.type("reenact audit key", house)
        if not lost:
            site.type("reenact audit head", house)
        site.copy()
        if lost:
            write(house, "lost")
            site.type("reenact audit head", house)
    site.lose()
    site.restore()
    with running(site.data, database=site.address, seed="after") as house:
        write(house, "after")
        names = [one["subject"]["id"] for one in house.records("environment.changed")]
        assert names == ["before", "after"]
        client = house.client(house.key("replayer"))
        assert client.get(f"/api/v1/captures/{capture}").content == data
        site.type("reenact audit export", house)
    said = site.type("reenact audit verify", expected=3 if lost else 0)
    assert ("log.forked" in said) == lost, said
    assert ("verified" in said) != lost, said
