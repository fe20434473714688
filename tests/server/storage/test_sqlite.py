"""A database in a file that others open and write meanwhile."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from reenact.server.storage.engines import open_file


def test_a_file_that_another_is_about_to_write_is_waited_for(tmp_path: Path) -> None:
    """SQLite itself does not wait there: of servers that started at once on a new file, some did not."""

    async def opened() -> None:
        database = open_file(file)
        try:
            async with database.platform(write=True):
                pass
        finally:
            await database.close()

    async def work() -> None:
        opening = asyncio.create_task(opened())
        await asyncio.wait({opening}, timeout=0.2)
        assert not opening.done()
        other.execute("COMMIT")
        await opening

    file = tmp_path / "reenact.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("CREATE TABLE anything (it)")
        other.execute("BEGIN IMMEDIATE")
        asyncio.run(work())
    with closing(sqlite3.connect(file)) as after:
        assert after.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
