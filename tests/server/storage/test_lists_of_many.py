"""A list reads the rows that it shows, whatever it is filtered by, however many there are."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Select, text
from sqlalchemy.dialects import sqlite

from reenact.server.storage import exchanges, replays
from reenact.server.storage.database import Scope
from reenact.server.storage.engines import open_file
from reenact.server.storage.exchanges import Filters
from reenact.server.storage.replays import ReplayFilters
from reenact.server.storage.rows import Page
from reenact.server.storage.schema import migrate
from reenact.server.storage.tables import OPEN, TEXTS

pytestmark = pytest.mark.sqlite_file

FILTERS = [
    (Filters(), "exchanges_with_texts"),
    (Filters(app="shop"), "exchanges_by_app"),
    (Filters(environment="staging"), "exchanges_by_environment"),
    (Filters(route="orders"), "exchanges_by_route"),
    (Filters(trace_id="0" * 32), "exchanges_by_trace"),
    (Filters(correlation_id="order-1"), "exchanges_by_correlation"),
    (Filters(status="failed"), "exchanges_failed"),
    (Filters(replay=True), "exchanges_replayed"),
    (Filters(text="timeout", since=5), "exchanges_with_texts"),
    (ReplayFilters(), "replays_by_time"),
    (ReplayFilters(exchange="ex_1"), "replays_by_source"),
    (ReplayFilters(app="shop"), "replays_by_app"),
    (ReplayFilters(environment="staging"), "replays_by_environment"),
    (ReplayFilters(route="orders"), "replays_by_route"),
    (ReplayFilters(state="failed"), "replays_by_state"),
    (ReplayFilters(verdict="regressed"), "replays_by_verdict"),
    (ReplayFilters(by="ann@example.com", since=5), "replays_by_person"),
]
Either = Filters | ReplayFilters


async def plan_of(file: Path, filters: Either, page: Page) -> str:
    """How SQLite, which knows nothing about the rows, finds what is asked for."""
    return await plan(file, lambda scope: _listing(scope, filters, page))


async def plan(file: Path, ask: Callable[[Scope], Select[Any]]) -> str:
    database = open_file(file)
    try:
        async with database.platform(write=True) as platform:
            await platform.define(migrate)
        async with database.reading("default") as scope:
            asked = _words(ask(scope))
            rows = await scope.all(text(f"EXPLAIN QUERY PLAN {asked}"))
            return " ".join(str(row.detail) for row in rows)
    finally:
        await database.close()


def _listing(scope: Scope, filters: Either, page: Page) -> Select[Any]:
    if isinstance(filters, Filters):
        return exchanges.listing(scope, filters, None, page)
    return replays.listing(scope, filters, None, page)


def _words(statement: Select[Any]) -> str:
    whole = statement.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
    return str(whole).replace(":", "\\:")


@pytest.mark.parametrize("filters, index", FILTERS, ids=[index for _, index in FILTERS])
def test_a_list_follows_an_index_in_its_order(tmp_path: Path, filters: Either, index: str) -> None:
    order = "started_at,exchange_id" if isinstance(filters, Filters) else "requested_at,replay_id"
    for page in (Page(50), Page(50, 1_790_000_000_000, "ex_1")):
        plan = asyncio.run(plan_of(tmp_path / "reenact.db", filters, page))
        assert f"USING INDEX {index} (tenant=?" in plan
        assert "TEMP B-TREE" not in plan, "it would have to be sorted"
        if page.id:
            assert f"({order})<" in plan, "it would begin at the newest again"


def test_a_text_is_looked_for_without_reading_rows(tmp_path: Path) -> None:
    """A row that is not found is left where it is: what decides is in the index."""
    file = tmp_path / "reenact.db"
    asyncio.run(plan_of(file, Filters(), Page(50)))
    words = " OR ".join(f"{name} LIKE '%timeout%'" for name in TEXTS)
    plan = "EXPLAIN QUERY PLAN SELECT count(*) FROM exchanges WHERE tenant = 'default' AND"
    with closing(sqlite3.connect(file)) as raw:
        (row,) = raw.execute(f"{plan} ({words})").fetchall()
    assert "USING COVERING INDEX exchanges_with_texts (tenant=?)" in row[-1]


@pytest.mark.parametrize(
    "column, index",
    [
        ("trace_id", "exchanges_by_trace (tenant=? AND trace_id=?)"),
        ("correlation_id", "exchanges_by_correlation (tenant=? AND correlation_id=?)"),
        ("source_exchange_id", "exchanges_by_source (tenant=? AND source_exchange_id=?)"),
    ],
)
def test_what_is_related_is_found_without_walking_through_all(
    tmp_path: Path, column: Any, index: str
) -> None:
    """It took 20 ms for 20,000 exchanges, several times for one page."""
    for ids in (["a"], ["a", "b", "c"]):
        ask = partial(exchanges.related, column=column, ids=ids, most=1000)
        found = asyncio.run(plan(tmp_path / "reenact.db", ask))
        assert f"USING INDEX {index}" in found


def test_what_is_due_is_found_among_what_has_not_ended(tmp_path: Path) -> None:
    """However many replays of however many tenants there are."""
    file = tmp_path / "reenact.db"
    asyncio.run(plan_of(file, Filters(), Page(50)))
    asked = {
        f"SELECT replay_id FROM replays WHERE {OPEN} AND due_at <= 5 ORDER BY due_at": (
            "SEARCH replays USING INDEX replays_open (due_at<?)"
        ),
        f"SELECT state, count(*) FROM replays WHERE {OPEN} GROUP BY state": (
            "SCAN replays USING COVERING INDEX replays_open"
        ),
    }
    with closing(sqlite3.connect(file)) as raw:
        plans = {one: raw.execute(f"EXPLAIN QUERY PLAN {one}").fetchone()[-1] for one in asked}
    assert plans == asked
