"""The audit log: a record appended, against a bare insert; a log verified, against hashing it."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Iterator
from time import perf_counter, process_time
from typing import Any, Final

from bench.measure import Row, Setting, at_most, fact, interleave, ratio
from bench.server_asking import Asker
from bench.server_places import Place, places
from bench.server_process import NAME, TENANT, settle
from bench.server_rooms import audit_log, record_of
from reenact.audit.bundle import KeySpan, export_folder
from reenact.audit.keys import Signer
from reenact.audit.log import origin_of, parse_head
from reenact.audit.verify import verify_export
from reenact.server.process.startup import open_server, read_seed
from reenact.server.storage.schema import GROWING

TITLE = "audit log of a server"

_COLUMNS: Final = ("tenant", "digest", "salt", "value", "at")
_numbers = itertools.count(1)


def run(setting: Setting) -> Iterator[Row]:
    for place in places(setting):
        yield from _append(setting, place)
    yield from _verify(setting)


def _append(setting: Setting, place: Place) -> Iterator[Row]:
    """A transaction each, on the disk when it is answered. What it is held against is one row as
    large as record, nodes and head together, in a table without guards."""
    count = setting.scaled(100)
    with place.asker() as bare:
        cases = {
            "ours": lambda: asyncio.run(_write(place, count)),
            "bare": lambda: _insert(bare, count),
        }
        times = interleave(cases, setting.rounds)
    label = f"{place.name}, audit record appended"
    yield ratio(f"{label}: / bare INSERT", times["ours"], times["bare"], at_most(8), clock="wall")
    yield fact(label, [count / one for one in times["ours"]], "records/s", clock="wall")
    if place.address:
        yield _size(place)


def _size(place: Place) -> Row:
    """With its nodes and its head."""
    whole = " + ".join(f"pg_total_relation_size('{table}')" for table in GROWING)
    with place.asker() as bare:
        size = bare.ask(f"SELECT {whole}")[0][0]
        count = bare.ask("SELECT count(*) FROM audit_records")[0][0]
    return fact(
        f"{place.name}, an audit record in the database", [size / count], "B", clock="bytes"
    )


async def _write(place: Place, count: int) -> float:
    async with open_server(place.data, database=place.address) as opened:
        server = opened.server
        start = perf_counter()
        for _ in range(count):
            async with server.database.writing(TENANT) as scope:
                await server.auditor.write(scope, record_of(next(_numbers)))
        return perf_counter() - start


def _insert(bare: Asker, count: int) -> float:
    value = bytes(1_000)
    rows = [(TENANT, f"bench {next(_numbers)}", bytes(16), value, 0) for _ in range(count)]
    start = perf_counter()
    for row in rows:
        bare.insert("audit_values", _COLUMNS, [row])
    return perf_counter() - start


def _verify(setting: Setting) -> Iterator[Row]:
    """A whole export: every record read, every hash and every signed head checked."""
    count = setting.scaled(20_000)
    data = setting.folder / "export-of"
    asyncio.run(settle(data, ""))
    found: dict[str, list[dict[str, Any]]] = {
        table: [dict(zip(columns, row, strict=True)) for row in rows]
        for table, columns, rows in audit_log(data, count)
    }
    lines = [row["line"] for row in found["audit_records"]]
    export = setting.folder / "export"
    origin = origin_of(NAME, TENANT)
    key = Signer(f"{NAME}/audit", read_seed(data / "keys" / "audit")).named(origin).key
    heads = (parse_head(row["note"].encode()) for row in found["audit_heads"])
    export_folder(export, origin, lines, heads, [KeySpan(0, key)], 0)
    report = verify_export(export, [key])
    if report.findings:
        raise AssertionError(report.findings)
    cases = {
        "ours": lambda: _cpu(lambda: verify_export(export, [key])),
        "bare": lambda: _cpu(lambda: [hashlib.sha256(line).digest() for line in lines]),
    }
    times = interleave(cases, 3)
    label = f"audit log of {count:,} records verified"
    yield ratio(f"{label}: / SHA-256 of them", times["ours"], times["bare"])
    yield fact(label, [count / one for one in times["ours"]], "records/s", clock="cpu")


def _cpu(work: Any) -> float:
    start = process_time()
    work()
    return process_time() - start
