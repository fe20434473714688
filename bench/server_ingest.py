"""Ingest through a real server, against the same rows put into the same table by hand.

Requests are as agents send them that have much to send: 500 exchanges, compressed. Four agents send at
the same time.
"""

from __future__ import annotations

import gzip
import itertools
import os
from base64 import b64encode
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import msgspec

from bench.measure import Row, Setting, at_most, fact, interleave
from bench.server_asking import Asker
from bench.server_exchanges import exchanges
from bench.server_places import Place, places
from bench.server_process import APP, ENVIRONMENT, TENANT, Line, serving
from reenact.exchange.model import Exchange, RecordingRef
from reenact.format.canonical import digest_bytes
from reenact.server.exchanges.ingest import columns_of
from reenact.server.process.startup import ENTROPY, make_id
from reenact.server.storage.rows import pack

TITLE = "ingest"

_REQUEST: Final = 500
_AGENTS: Final = 4
_RECORDING: Final = 4_000
_KIND: Final = "application/x-ndjson"
_numbers = itertools.count()


def run(setting: Setting) -> Iterator[Row]:
    pool = list(exchanges(_REQUEST))
    for place in places(setting):
        with ExitStack() as stack:
            bare = stack.enter_context(place.asker())
            process = stack.enter_context(serving(place.data, place.address))
            key = place.rights[0].agent_key
            lines = [stack.enter_context(Line(process.url, key=key)) for _ in range(_AGENTS)]
            yield from _plain(setting, place, pool, bare, lines)
            yield from _recorded(setting, place, pool, bare, lines)
            yield from _size(place, bare)


def _plain(
    setting: Setting, place: Place, pool: list[Exchange], bare: Asker, lines: list[Line]
) -> Iterator[Row]:
    rounds = 3 if setting.quick else 5
    requests = [[_again(pool) for _ in range(2 * _AGENTS)] for _ in range(2 * rounds + 2)]
    bodies = iter([[_body(some, ()) for some in one] for one in requests[: rounds + 1]])
    rows = iter([[_rows(some) for some in one] for one in requests[rounds + 1 :]])
    cases = {
        "server": lambda: _send(lines, next(bodies)),
        "bare": lambda: _insert(bare, next(rows)),
    }
    times = interleave(cases, rounds)
    count = 2 * _AGENTS * _REQUEST
    values = [a / b for a, b in zip(times["server"], times["bare"], strict=True)]
    label = f"{place.name}, ingest"
    yield fact(f"{label}: / bare batched INSERT", values, "×", at_most(10), clock="wall")
    yield fact(label, [count / one for one in times["server"]], "exchanges/s", clock="wall")
    yield fact(
        f"{place.name}, bare batched INSERT",
        [count / one for one in times["bare"]],
        "rows/s",
        clock="wall",
    )


def _recorded(
    setting: Setting, place: Place, pool: list[Exchange], bare: Asker, lines: list[Line]
) -> Iterator[Row]:
    """Recordings are files that are on the disk before the answer comes."""
    rounds = 3
    some = pool[: _REQUEST // 5]
    requests = [[_with_blobs(_again(some)) for _ in range(_AGENTS)] for _ in range(2 * rounds + 2)]
    bodies = iter([[_body(*one) for one in request] for request in requests[: rounds + 1]])
    rows = iter(requests[rounds + 1 :])
    folder = setting.folder / f"{place.name}-files"
    folder.mkdir()

    def by_hand() -> float:
        made = [(_rows(taken), blobs) for taken, blobs in next(rows)]
        start = perf_counter()
        for values, blobs in made:
            _write(folder, blobs)
            bare.insert("exchanges", tuple(values[0]), [tuple(row.values()) for row in values])
        return perf_counter() - start

    times = interleave({"server": lambda: _send(lines, next(bodies)), "bare": by_hand}, rounds)
    count = _AGENTS * len(some)
    values = [a / b for a, b in zip(times["server"], times["bare"], strict=True)]
    label = f"{place.name}, ingest with recordings of 4 KB"
    yield fact(f"{label}: / INSERT and a synced file each", values, "×", clock="wall")
    yield fact(label, [count / one for one in times["server"]], "exchanges/s", clock="wall")


def _size(place: Place, bare: Asker) -> Iterator[Row]:
    if place.address:
        size = bare.ask("SELECT pg_total_relation_size('exchanges')")[0][0]
    else:
        size = sum(file.stat().st_size for file in place.data.glob("reenact.db"))
    count = bare.ask("SELECT count(*) FROM exchanges")[0][0]
    text = bare.ask("SELECT sum(length(document)) FROM exchanges")[0][0]
    yield fact(f"{place.name}, an exchange in the database", [size / count], "B", clock="bytes")
    yield fact(f"{place.name}, its content, compressed", [int(text) / count], "B", clock="bytes")


def _again(pool: Sequence[Exchange]) -> list[Exchange]:
    """The same content under ids that nobody has seen."""
    number = next(_numbers)
    return [
        msgspec.structs.replace(
            one, exchange_id=make_id("ex", one.started_at + number, os.urandom(ENTROPY))
        )
        for one in pool
    ]


def _with_blobs(some: list[Exchange]) -> tuple[list[Exchange], tuple[bytes, ...]]:
    blobs = tuple(os.urandom(_RECORDING) for _ in some)
    named = [
        msgspec.structs.replace(
            one, recording=RecordingRef(digest=digest_bytes(data), size=len(data))
        )
        for one, data in zip(some, blobs, strict=True)
    ]
    return named, blobs


def _body(some: Sequence[Exchange], blobs: Sequence[bytes]) -> bytes:
    """As the sender of an agent writes it."""
    items: list[Any] = [
        {"blob": {"digest": digest_bytes(data), "base64": b64encode(data).decode()}}
        for data in blobs
    ]
    items += [{"exchange": one} for one in some]
    return gzip.compress(b"".join(msgspec.json.encode(one) + b"\n" for one in items), 1)


def _rows(some: Sequence[Exchange]) -> list[dict[str, Any]]:
    return [
        {
            **columns_of(one),
            "tenant": TENANT,
            "app": APP,
            "environment": ENVIRONMENT,
            "agent_id": "",
            "received_at": one.started_at,
            "digest": one.start_digest,
            "document": pack(one),
        }
        for one in some
    ]


def _send(lines: list[Line], bodies: list[bytes]) -> float:
    """Each agent sends its share, one request after the other."""

    def work(number: int) -> None:
        for body in bodies[number :: len(lines)]:
            answer = msgspec.json.decode(lines[number].post("/api/v1/ingest", body, _KIND, "gzip"))
            if any(one["status"] != "stored" for one in answer["results"]):
                raise AssertionError("something was not stored")

    with ThreadPoolExecutor(len(lines)) as pool:
        start = perf_counter()
        list(pool.map(work, range(len(lines))))
        return perf_counter() - start


def _insert(bare: Asker, requests: list[list[dict[str, Any]]]) -> float:
    ready = [[tuple(row.values()) for row in rows] for rows in requests]
    columns = tuple(requests[0][0])
    start = perf_counter()
    for rows in ready:
        bare.insert("exchanges", columns, rows)
    return perf_counter() - start


def _write(folder: Path, blobs: Sequence[bytes]) -> None:
    for data in blobs:
        fd = os.open(folder / digest_bytes(data).partition(":")[2], os.O_WRONLY | os.O_CREAT)
        os.write(fd, data)
        os.fsync(fd)
        os.close(fd)
