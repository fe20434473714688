"""Somebody with the database file: whatever they do to the log shows when an export is verified with
a key and a head from before. The guards are tried first, then removed."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from reenact.audit.bundle import open_bundle
from reenact.audit.keys import Key, Signer
from reenact.audit.log import Checkpoint, sign_head
from reenact.audit.merkle import Frontier, hash_leaf
from reenact.audit.verify import verify_export
from reenact.audit.verify_records import Report
from reenact.errors import AuditInvalid, UsageError
from reenact.server.process.startup import migrate_only
from reenact.server.storage.schema import SQLITE_GUARDS
from tests.server.databases import raw
from tests.server.house import House, running

pytestmark = pytest.mark.sqlite_file

TABLES = ("audit_records", "audit_nodes", "audit_heads")
Tampering = Callable[[sqlite3.Connection], None]


def fill(house: House, count: int = 6) -> tuple[Key, bytes]:
    client = house.client(house.key("tenant admin"))
    for number in range(count):
        house.clock.move(1)
        client.put(f"/api/v1/environments/e{number}", json={"kind": "non-production"})
    head = client.get("/api/v1/audit/head").content
    text = client.get("/api/v1/audit/key").text
    return Key.from_text(text.removeprefix("0 ").strip()), head


def repair(data: Path) -> None:
    """Put the guards back, as ``reenact serve --migrate-only`` does."""
    asyncio.run(migrate_only(data))


def tamper(tmp_path: Path, how: Tampering) -> tuple[Report, Key]:
    """The log is filled, the server stopped, the guards removed, the file changed, the server
    started again, and the log exported and verified."""
    data = tmp_path / "data"
    with running(data) as house:
        key, head = fill(house)
    with raw(data) as connection:
        triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in triggers.fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        how(connection)
    repair(data)
    with running(data) as house:
        client = house.client(house.key("tenant admin"))
        house.clock.move(100)
        path = tmp_path / "export.tar"
        answer = client.get("/api/v1/audit/export")
        if answer.status_code != 200:  # the log cannot go on: then the file is exported as it is
            assert answer.status_code == 500
            house.run(_export(house, path))
        else:
            path.write_bytes(answer.content)
    return verify_export(path, [key], head), key


async def _export(house: House, path: Path) -> None:
    from reenact.server.audit.service import write_export

    with await write_export(house.server, "default", "tar") as file:
        path.write_bytes(file.read())


def line_of(connection: sqlite3.Connection, seq: int) -> bytes:
    found = connection.execute("SELECT line FROM audit_records WHERE seq = ?", (seq,)).fetchone()
    return bytes(found[0])


def edit(connection: sqlite3.Connection) -> None:
    line = line_of(connection, 3).replace(b'"e2"', b'"e9"')
    connection.execute("UPDATE audit_records SET line = ? WHERE seq = 3", (line,))


def edit_with_hash(connection: sqlite3.Connection) -> None:
    """And the hash that was kept of it; the heads were signed over another one."""
    edit(connection)
    leaf = hash_leaf(line_of(connection, 3))
    connection.execute("UPDATE audit_nodes SET hash = ? WHERE level = 0 AND position = 3", (leaf,))


def delete(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM audit_records WHERE seq = 3")


def reorder(connection: sqlite3.Connection) -> None:
    two, three = line_of(connection, 2), line_of(connection, 3)
    connection.execute("UPDATE audit_records SET line = ? WHERE seq = 2", (three,))
    connection.execute("UPDATE audit_records SET line = ? WHERE seq = 3", (two,))


def truncate(connection: sqlite3.Connection) -> None:
    """Records, nodes and heads, so that what is left is a whole, shorter log."""
    connection.execute("DELETE FROM audit_records WHERE seq >= 4")
    connection.execute("DELETE FROM audit_heads WHERE size > 4")
    connection.execute("DELETE FROM audit_nodes WHERE (position + 1) * (1 << level) > 4")


def replace(connection: sqlite3.Connection) -> None:
    line = line_of(connection, 3).replace(b'"e2"', b'"e9"')
    connection.execute(
        "INSERT OR REPLACE INTO audit_records SELECT tenant, seq, at, action, actor, environment, "
        "exchange_id, replay_id, outcome, ? FROM audit_records WHERE seq = 3",
        (line,),
    )


def back_date(connection: sqlite3.Connection) -> None:
    record = json.loads(line_of(connection, 3))
    record["at"] -= 86_400_000
    line = json.dumps(record, separators=(",", ":"), sort_keys=True).encode()
    connection.execute(
        "UPDATE audit_records SET line = ?, at = ? WHERE seq = 3", (line, record["at"])
    )


def rewrite(signer_of: Callable[[str], Signer]) -> Tampering:
    """Change a record and make everything after it fit: nodes, roots, heads."""

    def work(connection: sqlite3.Connection) -> None:
        edit(connection)
        rows = connection.execute("SELECT line FROM audit_records ORDER BY seq").fetchall()
        origin = connection.execute("SELECT note FROM audit_heads").fetchone()[0].split("\n")[0]
        signer, frontier = signer_of(origin), Frontier()
        for (line,) in rows:
            frontier, nodes = frontier.append(hash_leaf(line))
            for node in nodes:
                connection.execute(
                    "UPDATE audit_nodes SET hash = ? WHERE level = ? AND position = ?",
                    (node.hash, node.level, node.index),
                )
            note = sign_head(Checkpoint(origin, frontier.size, frontier.root()), [signer])
            connection.execute(
                "UPDATE audit_heads SET note = ?, frontier = ? WHERE size = ?",
                (note.to_text(), frontier.to_bytes(), frontier.size),
            )

    return work


def own_key(data: Path) -> Callable[[str], Signer]:
    """The operator's own key: nothing but a head from before shows this."""
    return lambda origin: Signer(
        origin, bytes.fromhex((data / "keys" / "audit").read_text("ascii"))
    )


@pytest.mark.parametrize(
    "how, codes",
    [
        (edit, {"record.edited"}),
        (edit_with_hash, {"head.mismatch", "log.forked"}),
        (delete, {"record.deleted"}),
        (reorder, {"record.reordered"}),
        (truncate, {"log.truncated"}),
        (replace, {"record.edited"}),
        (back_date, {"record.edited", "record.backdated"}),
        (rewrite(lambda origin: Signer(origin, bytes(32))), {"head.key", "log.forked"}),
    ],
    ids=[
        "edit",
        "edit-with-hash",
        "delete",
        "reorder",
        "truncate",
        "replace",
        "back-date",
        "re-sign",
    ],
)
def test_it_is_found(tmp_path: Path, how: Tampering, codes: set[str]) -> None:
    report, _ = tamper(tmp_path, how)
    assert codes <= set(report.counts)
    assert report.proven == ()


@pytest.mark.parametrize("how", [edit, replace, delete], ids=["edit", "replace", "delete"])
def test_the_very_record_is_named(tmp_path: Path, how: Tampering) -> None:
    report, _ = tamper(tmp_path, how)
    assert [(one.seq, one.until) for one in report.findings] == [(3, None)]
    assert report.first_bad == 3


def forget_hashes(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM audit_nodes WHERE level = 0 AND position IN (2, 6)")


def test_hashes_that_are_gone_are_made_of_the_records(tmp_path: Path) -> None:
    report, _ = tamper(tmp_path, forget_hashes)
    assert report.counts == {}
    assert report.size == 8


def test_a_history_written_anew_with_the_real_key_is_found(tmp_path: Path) -> None:
    report, _ = tamper(tmp_path, rewrite(own_key(tmp_path / "data")))
    assert set(report.counts) == {"log.forked"}


def test_nothing_done_is_nothing_found(tmp_path: Path) -> None:
    report, _ = tamper(tmp_path, lambda connection: None)
    assert report.counts == {}
    assert report.size == 8


def test_a_log_that_was_cut_and_grew_again_is_found(tmp_path: Path) -> None:
    """By its length it could be the log that the head is about."""
    data, path = tmp_path / "data", tmp_path / "export.tar"
    with running(data) as house:
        key, head = fill(house)
    with raw(data) as connection:
        for table in TABLES:
            connection.execute(f"DROP TRIGGER {table}_no_delete")
        truncate(connection)
    repair(data)
    with running(data) as house:
        house.clock.move(1000)
        fill(house, 8)
        exporter = house.client(house.key("audit:export"))
        path.write_bytes(exporter.get("/api/v1/audit/export").content)
    assert verify_export(path, [key]).counts == {}  # it is whole, and signed
    assert set(verify_export(path, [key], head).counts) == {"log.forked"}


def test_many_writers_at_once_make_one_log(house: House, tmp_path: Path) -> None:
    key, head = fill(house, 1)
    clients = [house.client(house.key("tenant admin")) for _ in range(4)]

    def work(client: httpx.Client, number: int) -> list[int]:
        return [
            client.put(
                f"/api/v1/environments/w{number}-{count}", json={"kind": "production"}
            ).status_code
            for count in range(10)
        ]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, clients, range(4)))
    assert found == [[200] * 10] * 4
    path = tmp_path / "export.tar"
    path.write_bytes(house.client(house.key("audit:export")).get("/api/v1/audit/export").content)
    report = verify_export(path, [key], head)
    assert (report.counts, report.size) == ({}, 2 + 40 + 1)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {} SET tenant = 'x'",
        "DELETE FROM {}",
        "INSERT OR REPLACE INTO {} SELECT * FROM {}",
        "INSERT OR IGNORE INTO {} SELECT * FROM {}",
        "REPLACE INTO {} SELECT * FROM {}",
    ],
)
def test_the_guards_refuse(house: House, table: str, statement: str) -> None:
    fill(house, 2)
    with raw(house.server.data) as connection:
        before = connection.execute(f"SELECT * FROM {table}").fetchall()
        with pytest.raises(sqlite3.IntegrityError, match="only grows"):
            connection.execute(statement.format(table, table))
        assert connection.execute(f"SELECT * FROM {table}").fetchall() == before


@pytest.mark.parametrize("seq", [-1, 0, 2, 4, 100])
def test_numbers_are_dense(house: House, seq: int) -> None:
    fill(house, 2)
    with raw(house.server.data) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(
            "INSERT INTO audit_records VALUES ('default', ?, 0, '', '', '', '', '', '', x'00')",
            (seq,),
        )


@pytest.mark.parametrize(
    "change",
    [
        "DROP TRIGGER audit_records_no_delete",
        "DROP TRIGGER audit_records_no_delete; CREATE TRIGGER audit_records_no_delete "
        "BEFORE DELETE ON audit_records BEGIN SELECT 1; END",
    ],
    ids=["removed", "replaced"],
)
def test_server_does_not_start_when_a_guard_of_the_audit_log_is_missing(
    tmp_path: Path, change: str
) -> None:
    with running(tmp_path) as house:
        fill(house, 1)
    with raw(tmp_path) as connection:
        connection.executescript(change)
    with pytest.raises(UsageError, match=r"lost guards.*audit_records_no_delete") as refused:
        running(tmp_path).__enter__()
    assert "reenact serve --migrate-only" in refused.value.hint
    repair(tmp_path)
    with running(tmp_path), raw(tmp_path) as connection:
        found = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'trigger'")
        assert found.fetchone() == (len(SQLITE_GUARDS),)


def test_a_log_that_was_cut_cannot_go_on_unseen(tmp_path: Path) -> None:
    """Records are gone, heads are not: what should be recorded next fails, and with it what it
    would have been about."""
    with running(tmp_path) as house:
        fill(house)
    with raw(tmp_path) as connection:
        connection.execute("DROP TRIGGER audit_records_no_delete")
        connection.execute("DELETE FROM audit_records WHERE seq >= 4")
    repair(tmp_path)
    with running(tmp_path) as house:
        admin = house.client(house.key("tenant admin"))
        answer = admin.put("/api/v1/environments/new", json={"kind": "non-production"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
        names = [one["name"] for one in admin.get("/api/v1/environments").json()["items"]]
        assert "new" not in names


def test_a_node_that_is_gone_is_told(house: House) -> None:
    fill(house)
    with raw(house.server.data) as connection:
        connection.execute("DROP TRIGGER audit_nodes_no_delete")
        connection.execute("DELETE FROM audit_nodes WHERE level = 0 AND position = 0")
    answer = house.client(house.key("audit:read")).get("/api/v1/audit/proof/1")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "damaged")


def test_a_cut_off_export_is_no_export(house: House, tmp_path: Path) -> None:
    fill(house, 1)
    content = house.client(house.key("audit:export")).get("/api/v1/audit/export").content
    path = tmp_path / "cut.tar"
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(AuditInvalid):
        open_bundle(path)
