"""A list reads the rows that it shows, whatever it is filtered by, however many there are."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.dialects import sqlite

from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_paging import Page
from reenact.server.storage.exchange_rows import Filters, listing
from reenact.server.storage.exchange_tables import TEXTS
from reenact.server.storage.migrating import migrate
from reenact.server.storage.sqlite import open_file

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
]


async def plan_of(file: Path, filters: Filters, page: Page) -> str:
    """How SQLite, which knows nothing about the rows, finds what is asked for."""
    database = open_file(file)
    try:
        async with database.platform(write=True) as platform:
            await platform.define(migrate)
        async with database.reading("default") as scope:
            asked = _words(scope, filters, page)
            rows = await scope.all(text(f"EXPLAIN QUERY PLAN {asked}"))
            return " ".join(str(row.detail) for row in rows)
    finally:
        await database.close()


def _words(scope: Scope, filters: Filters, page: Page) -> str:
    statement = listing(scope, filters, None, page)
    whole = statement.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
    return str(whole).replace(":", "\\:")


@pytest.mark.parametrize("filters, index", FILTERS, ids=[index for _, index in FILTERS])
def test_a_list_follows_an_index_in_its_order(tmp_path: Path, filters: Filters, index: str) -> None:
    for page in (Page(50), Page(50, 1_790_000_000_000, "ex_1")):
        plan = asyncio.run(plan_of(tmp_path / "reenact.db", filters, page))
        assert f"USING INDEX {index} (tenant=?" in plan
        assert "TEMP B-TREE" not in plan, "it would have to be sorted"
        if page.id:
            assert "(started_at,exchange_id)<" in plan, "it would begin at the newest again"


def test_a_text_is_looked_for_without_reading_rows(tmp_path: Path) -> None:
    """A row that is not found is left where it is: what decides is in the index."""
    file = tmp_path / "reenact.db"
    asyncio.run(plan_of(file, Filters(), Page(50)))
    words = " OR ".join(f"{name} LIKE '%timeout%'" for name in TEXTS)
    plan = "EXPLAIN QUERY PLAN SELECT count(*) FROM exchanges WHERE tenant = 'default' AND"
    with closing(sqlite3.connect(file)) as raw:
        (row,) = raw.execute(f"{plan} ({words})").fetchall()
    assert "USING COVERING INDEX exchanges_with_texts (tenant=?)" in row[-1]
