"""Databases with 1,000,000 exchanges, made once and kept under ``.cache``.

The rows go straight into the tables that a server has made. What is in them is what ingest would
have put there; only the digests are not those of the documents, which nothing here reads.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import asyncpg
import msgspec

from bench.measure import Setting
from bench.server_exchanges import APPS, ENVIRONMENTS, RARE, START, STEP, exchanges
from bench.server_process import TENANT, settle
from bench.server_rooms import TABLES, rooms
from reenact.exchange.model import Exchange, Trace
from reenact.server.exchanges.ingest import columns_of
from reenact.server.process.startup import make_id
from reenact.server.storage.schema import GROWING
from reenact.server.storage.tables import EXCHANGES

__all__ = ["count_of", "fill_file", "fill_postgres", "folder_of"]

_CACHE: Final = Path(".cache") / "bench-server"
_CHUNK: Final = 10_000
_FORMAT: Final = 2
"""Counted up when what is made here changes."""
_COLUMNS: Final = tuple(column.name for column in EXCHANGES.c)
_POOL: Final[list[Exchange]] = []
Values = tuple[Any, ...]


def count_of(setting: Setting) -> int:
    """How many exchanges."""
    return 20_000 if setting.quick else 1_000_000


def folder_of(setting: Setting) -> Path:
    """Where they are kept; a server that starts brings them up to date. It may be removed at any
    time."""
    return _CACHE.resolve() / f"{count_of(setting)}-{_FORMAT}"


def fill_file(setting: Setting) -> Path:
    """The folder of a server on SQLite."""
    data = folder_of(setting) / "sqlite"
    done = data.with_suffix(".done")
    if not done.exists():
        shutil.rmtree(data.parent, ignore_errors=True)
        data.parent.mkdir(parents=True)
        asyncio.run(settle(data, ""))
        _fill(data, count_of(setting))
        done.touch()
        setting.say(f"made {count_of(setting):,} exchanges; they stay in {data.parent}")
    return data


def _fill(data: Path, count: int) -> None:
    connection = sqlite3.connect(data / "reenact.db", isolation_level=None)
    for pragma in ("synchronous=OFF", "cache_size=-500000", "temp_store=MEMORY"):
        connection.execute(f"PRAGMA {pragma}")
    indexes = connection.execute(
        "SELECT name, sql FROM sqlite_master "
        "WHERE tbl_name = 'exchanges' AND type = 'index' AND sql <> ''"
    ).fetchall()
    connection.execute("BEGIN")
    for table in GROWING:  # a server that starts puts them back
        connection.execute(f"DROP TRIGGER {table}_insert")
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {name}")
    for some in _chunks(count):
        _insert(connection, "exchanges", _COLUMNS, some)
    for table, columns, rows in rooms(data, count):
        _insert(connection, table, columns, rows)
    for _, sql in indexes:
        connection.execute(sql)
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _insert(
    connection: sqlite3.Connection, table: str, columns: tuple[str, ...], rows: list[Values]
) -> None:
    places = ", ".join("?" * len(columns))
    connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)


def _chunks(count: int) -> Iterator[list[Values]]:
    """Rows of exchanges, made by two processes."""
    jobs = [(first, min(_CHUNK, count - first)) for first in range(0, count, _CHUNK)]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_rows, jobs)


def _rows(job: tuple[int, int]) -> list[Values]:
    """So many from the first on: ids, times, places and documents of their own, on one of a thousand
    contents."""
    first, count = job
    if not _POOL:
        _POOL.extend(exchanges(1000))
    return [_row(number) for number in range(first, first + count)]


def _row(number: int) -> Values:
    chance = hashlib.sha256(str(number).encode()).digest()
    made = _changed(_POOL[int.from_bytes(chance[:4]) % len(_POOL)], number, chance)
    values = {
        **columns_of(made),
        "tenant": TENANT,
        "app": APPS[chance[4] % len(APPS)],
        "environment": ENVIRONMENTS[chance[5] % len(ENVIRONMENTS)],
        "agent_id": f"agent-{chance[6] % 20}",
        "received_at": made.started_at + 900,
        "digest": f"sha256:{chance.hex()}",
        "document": zlib.compress(msgspec.json.encode(made), 1),
    }
    return tuple(values[name] for name in _COLUMNS)


def _changed(one: Exchange, number: int, chance: bytes) -> Exchange:
    at = START + number * STEP
    return msgspec.structs.replace(
        one,
        exchange_id=make_id("ex", at, chance[7:17]),
        started_at=at,
        route_id=RARE if number % 10_000 == 5_000 else one.route_id,
        trace=Trace(trace_id=chance[:16].hex(), span_id=chance[16:24].hex()),
        correlation_id=f"order-{int.from_bytes(chance[24:28])}",
    )


def fill_postgres(setting: Setting, address: str, admin: str) -> Path:
    """The same rows in the database at ``address``; ``admin`` is a superuser's. Gives the folder of a
    server on it."""
    folder = folder_of(setting)
    data, done = folder / "postgresql", folder / "postgresql.done"
    if not done.exists():
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        shutil.copytree(folder / "sqlite" / "keys", data / "keys")
        asyncio.run(settle(data, address))
        asyncio.run(_copy(folder / "sqlite" / "reenact.db", admin))
        done.touch()
        setting.say("copied them to PostgreSQL")
    return data


async def _copy(file: Path, admin: str) -> None:
    """As a superuser: for others COPY does not work where rows are guarded."""
    source, target = sqlite3.connect(file), await asyncpg.connect(admin)
    indexes = await target.fetch(
        "SELECT indexname, indexdef FROM pg_indexes "
        "WHERE tablename = 'exchanges' AND indexname NOT LIKE '%_pkey'"
    )
    await target.execute("SET session_replication_role = replica")  # without triggers
    for index in indexes:
        await target.execute(f"DROP INDEX {index['indexname']}")
    for table in ("exchanges", *TABLES):
        cursor = source.execute(f"SELECT * FROM {table}")
        columns = [one[0] for one in cursor.description]
        while rows := cursor.fetchmany(_CHUNK):
            await target.copy_records_to_table(table, records=rows, columns=columns)
    for index in indexes:
        await target.execute(index["indexdef"])
    await target.execute("VACUUM ANALYZE")
    await target.close()
    source.close()
