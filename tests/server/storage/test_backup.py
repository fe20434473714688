"""A copy that is restored goes on with its audit log, and one that is too old is found out."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reenact.audit.keys import Key
from reenact.audit.verify import verify_export
from reenact.audit.verify_records import Report
from tests.server.databases import DATABASES, ROLE, Kind
from tests.server.house import House, running


def write(house: House, name: str) -> bytes:
    """One more record; the head after it."""
    client = house.client(house.key("tenant admin"))
    answer = client.put(f"/api/v1/environments/{name}", json={"kind": "production"})
    assert answer.status_code == 200
    return client.get("/api/v1/audit/head").content


def exported(house: House, path: Path) -> Key:
    client = house.client(house.key("tenant admin"))
    path.write_bytes(client.get("/api/v1/audit/export").content)
    return Key.from_text(client.get("/api/v1/audit/key").text.removeprefix("0 ").strip())


def back_up(kind: Kind, data: Path, copy: Path) -> None:
    """While the server runs, as the guide says: the database first, then the rest."""
    copy.mkdir()
    if kind == "sqlite":
        with (
            closing(sqlite3.connect(data / "reenact.db")) as source,
            closing(sqlite3.connect(copy / "reenact.db")) as target,
        ):
            source.backup(target)
    else:
        cluster, name = DATABASES.cluster(), DATABASES.address(data).rpartition("/")[2]
        cluster.run("pg_dump", *cluster.options(), "-Fc", "-f", "copy.dump", name)
    shutil.copytree(data / "keys", copy / "keys")


def restore(kind: Kind, copy: Path) -> None:
    if kind == "postgresql":
        cluster, name = DATABASES.cluster(), DATABASES.address(copy).rpartition("/")[2]
        cluster.run("pg_restore", *cluster.options(), "-d", name, "copy.dump")


def verified(tmp_path: Path, kind: Kind, *, late: bool) -> tuple[Report, list[str]]:
    """The log of a server that was restored, against a head from the server that is gone."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    with running(data) as house:
        head = write(house, "before")
        back_up(kind, data, copy)
        if late:
            head = write(house, "lost")
    restore(kind, copy)
    with running(copy, seed="after") as house:
        write(house, "after")
        records = house.records("environment.changed")
        key = exported(house, tmp_path / "export.tar")
    names = [record["subject"]["id"] for record in records]
    return verify_export(tmp_path / "export.tar", [key], head), names


@pytest.mark.both_databases
def test_a_restored_log_goes_on_from_the_head_that_somebody_kept(
    tmp_path: Path, database_kind: Kind
) -> None:
    report, names = verified(tmp_path, database_kind, late=False)
    assert report.ok, report
    assert names == ["before", "after"]


@pytest.mark.both_databases
def test_what_was_lost_with_an_older_copy_is_found_out(tmp_path: Path, database_kind: Kind) -> None:
    report, names = verified(tmp_path, database_kind, late=True)
    assert names == ["before", "after"]
    assert not report.ok


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_what_was_restored_is_guarded_as_before(tmp_path: Path, database_kind: Kind) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    with running(data) as house:
        write(house, "before")
        back_up(database_kind, data, copy)
    restore(database_kind, copy)
    name = DATABASES.address(copy).rpartition("/")[2]
    cluster = DATABASES.cluster()
    assert cluster.sql("SELECT count(*) FROM audit_records", name, ROLE)[0][0] == 0
    may = "SELECT has_table_privilege('audit_records', 'DELETE')"
    assert not cluster.sql(may, name, ROLE)[0][0]
