"""Lists, searches and pages of a server with 1,000,000 exchanges, against the bare query.

Where that takes microseconds, a page of the same server that finds nothing is added to it: what
remains is the work for the rows.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from bench.measure import Row, Setting, at_most, fact, interleave
from bench.server_asking import Asker, PostgresAsker, SqliteAsker
from bench.server_exchanges import RARE, START, STEP
from bench.server_million import count_of, fill_file, fill_postgres, folder_of
from bench.server_postgres import ABSENT, cluster, make_database
from bench.server_process import Line, Process, Rights, serving, settle
from bench.server_shown import BRIEFLY, NEWEST, Page, pages_of

TITLE = "lists and pages of a server with 1,000,000 exchanges"

_NOTHING: Final = "correlationId=nobody"
_TEXTS: Final = ("exchange_id", "route_id", "error_type", "error_message", "correlation_id")


class Question(msgspec.Struct, frozen=True):
    """A list: what is asked of the server, and of the database. ``slow``: the bare query takes long
    enough to be held against by itself."""

    name: str
    query: dict[str, Any]
    where: str = ""
    slow: bool = False


def _questions(count: int, where: str) -> tuple[Question, ...]:
    middle = START + count // 2 * STEP
    cursor = urlsafe_b64encode(msgspec.json.encode((middle, "ex_z"))).decode()
    hour = middle + 3_600_000
    return (
        Question("first page", {}),
        Question(
            "page in the middle",
            {"cursor": cursor},
            f"AND (started_at, exchange_id) < ({middle}, 'ex_z')",
        ),
        Question("rare route", {"route": RARE}, f"AND route_id = '{RARE}'"),
        Question(
            "failed, of an app and an hour",
            {"app": "shop", "status": "failed", "since": middle, "until": hour},
            "AND app = 'shop' AND status = 'failed' "
            f"AND started_at >= {middle} AND started_at < {hour}",
        ),
        Question("text in one of 50", {"text": "order 1"}, _contains("order 1", where)),
        Question(
            "text that is nowhere", {"text": "nowhere"}, _contains("nowhere", where), slow=True
        ),
    )


def _contains(text: str, where: str) -> str:
    """SQLite takes small and large letters for the same by itself."""
    column = "{}" if where == "SQLite" else "lower({})"
    ways = (f"{column.format(name)} LIKE '%{text}%'" for name in _TEXTS)
    return f"AND ({' OR '.join(ways)})"


def run(setting: Setting) -> Iterator[Row]:
    yield from _on_sqlite(setting)
    yield from _on_postgres(setting)


def _on_sqlite(setting: Setting) -> Iterator[Row]:
    data = fill_file(setting)
    rights = asyncio.run(settle(data, ""))[0]
    with SqliteAsker(data / "reenact.db") as bare, serving(data) as process:
        yield from _measure(setting, "SQLite", process, rights, bare)


def _on_postgres(setting: Setting) -> Iterator[Row]:
    with cluster(folder_of(setting) / "cluster") as found:
        if found is None:
            setting.say(ABSENT)
            return
        address = make_database(found, "bench")
        data = fill_postgres(setting, address, found.address("bench", "postgres"))
        rights = asyncio.run(settle(data, address))[0]
        with PostgresAsker(address) as bare, serving(data, address) as process:
            yield from _measure(setting, "PostgreSQL", process, rights, bare)


def _measure(
    setting: Setting, where: str, process: Process, rights: Rights, bare: Asker
) -> Iterator[Row]:
    with ExitStack() as stack:
        api = stack.enter_context(Line(process.url, key=rights.user_key))
        pages = stack.enter_context(Line(process.url, cookie=rights.cookie))
        for question in _questions(count_of(setting), where):
            yield from _ask(setting, where, question, bare, api, pages)
        exchange_id = bare.ask(f"{BRIEFLY} {NEWEST}")[25][0]
        staging = bare.ask(f"{BRIEFLY} AND environment = 'staging' {NEWEST}")[25][0]
        for page in pages_of(exchange_id, staging):
            yield from _show(setting, where, page, bare, pages)
        yield from _empty(setting, where, pages)


def _ask(
    setting: Setting, where: str, one: Question, bare: Asker, api: Line, pages: Line
) -> Iterator[Row]:
    count = 1 if one.slow else setting.scaled(8)
    query = urlencode(one.query)
    statement = f"{BRIEFLY} {one.where} {NEWEST}"
    shown = urlencode(_of_page(one.query))
    cases = {
        "bare": lambda: bare.ask(statement),
        "api": lambda: api.get(f"/api/v1/exchanges?{query}"),
        "page": lambda: pages.get(f"/exchanges?{shown}"),
        "no api": lambda: api.get(f"/api/v1/exchanges?{_NOTHING}"),
        "no page": lambda: pages.get(f"/exchanges?{_NOTHING}"),
    }
    _check(one, bare.ask(statement), api.get(f"/api/v1/exchanges?{query}"))
    rounds = 3 if one.slow else setting.rounds
    times = interleave({name: _often(case, count) for name, case in cases.items()}, rounds)
    beside = "" if one.slow else " + one that finds nothing"
    for what, name in (("api", "list"), ("page", "history")):
        nothing = [0.0] * rounds if one.slow else times[f"no {what}"]
        base = [a + b for a, b in zip(times["bare"], nothing, strict=True)]
        values = [a / b for a, b in zip(times[what], base, strict=True)]
        label = f"{where}, {name}, {one.name}"
        yield fact(f"{label}: / bare query{beside}", values, "×", at_most(3), clock="wall")
        yield fact(label, [t * 1e3 / count for t in times[what]], "ms", clock="wall")


def _of_page(query: dict[str, Any]) -> dict[str, Any]:
    """Times are written for people there."""

    def moment(at: int) -> str:
        return datetime.fromtimestamp(at / 1000, UTC).replace(tzinfo=None).isoformat()

    names = {"since": "from", "until": "to"}
    return {
        names.get(name, name): moment(value) if name in names else value
        for name, value in query.items()
    }


def _check(one: Question, rows: Sequence[Any], answer: bytes) -> None:
    """The server answers what was asked of the database."""
    found = [item["exchangeId"] for item in msgspec.json.decode(answer)["items"]]
    if found != [row[0] for row in rows[:50]]:
        raise AssertionError(f"{one.name}: the server has found something else")


def _show(setting: Setting, where: str, page: Page, bare: Asker, pages: Line) -> Iterator[Row]:
    count = setting.scaled(8)

    def ask() -> None:
        for statement in page.queries:
            bare.ask(statement)

    cases: dict[str, Callable[[], Any]] = {
        "bare": ask,
        "page": lambda: pages.get(page.path),
        "none": lambda: pages.get(f"/exchanges?{_NOTHING}"),
    }
    times = interleave({n: _often(case, count) for n, case in cases.items()}, setting.rounds)
    base = [a + b for a, b in zip(times["bare"], times["none"], strict=True)]
    values = [a / b for a, b in zip(times["page"], base, strict=True)]
    label = f"{where}, page of {page.name}"
    beside = "bare queries + a history that finds nothing"
    yield fact(f"{label}: / {beside}", values, "×", at_most(3), clock="wall")
    yield fact(label, [t * 1e3 / count for t in times["page"]], "ms", clock="wall")


def _empty(setting: Setting, where: str, pages: Line) -> Iterator[Row]:
    count = setting.scaled(16)
    cases = {
        "none": lambda: pages.get(f"/exchanges?{_NOTHING}"),
        "alive": lambda: pages.get("/healthz"),
    }
    times = interleave({n: _often(case, count) for n, case in cases.items()}, setting.rounds)
    label = f"{where}, history that finds nothing"
    values = [a / b for a, b in zip(times["none"], times["alive"], strict=True)]
    yield fact(f"{label}: / GET /healthz", values, "×", clock="wall")
    yield fact(label, [t * 1e3 / count for t in times["none"]], "ms", clock="wall")


def _often(case: Callable[[], Any], count: int) -> Callable[[], float]:
    def work() -> float:
        start = perf_counter()
        for _ in range(count):
            case()
        return perf_counter() - start

    return work
