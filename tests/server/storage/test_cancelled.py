"""A transaction that is cancelled gives its connection back in order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.pool import Pool

from reenact.server.storage.database import Database
from reenact.server.storage.engines import open_file

pytestmark = pytest.mark.sqlite_file


async def _read(database: Database) -> None:
    async with database.reading("tenant") as scope:
        await scope.run(text("SELECT 1"))


async def _cancel_while_it_gives_its_connection_back(file: Path) -> bool:
    database = open_file(file)
    reading = asyncio.ensure_future(_read(database))

    def cancel(*_: Any) -> None:
        reading.cancel()

    event.listen(Pool, "reset", cancel)
    try:
        await asyncio.wait({reading})
    finally:
        event.remove(Pool, "reset", cancel)
        await database.close()
    return reading.cancelled()


def test_a_cancelled_transaction_logs_no_error_of_the_pool(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert asyncio.run(_cancel_while_it_gives_its_connection_back(tmp_path / "server.db"))
    assert caplog.messages == []
