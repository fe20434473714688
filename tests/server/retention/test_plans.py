"""What retention asks of the largest table is answered by an index, on both databases."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import Executable, text
from sqlalchemy.dialects import postgresql, sqlite

from reenact.server.storage import replays, retention
from reenact.server.storage.database import Scope
from tests.server.house import House

pytestmark = pytest.mark.both_databases


class Planned(Scope):
    """Keeps the plans of what it is asked, in words."""

    def __init__(self, scope: Scope, dialect: str) -> None:
        super().__init__(scope._transaction, scope.tenant)
        self._prefix = "EXPLAIN QUERY PLAN" if dialect == "sqlite" else "EXPLAIN"
        self._dialect: Any = sqlite.dialect() if dialect == "sqlite" else postgresql.dialect()
        self.plans = ""

    async def all(self, statement: Executable) -> Any:
        words = statement.compile(  # type: ignore[attr-defined]
            dialect=self._dialect, compile_kwargs={"literal_binds": True}
        )
        rows = await super().all(text(f"{self._prefix} {words}".replace(":", r"\:")))
        self.plans += "\n".join(str(row[-1]) for row in rows)
        return await super().all(statement)


def plans(house: House, ask: Callable[[Scope], Awaitable[Any]]) -> str:
    """With so few rows PostgreSQL would read all of them: it is told that this is dear."""

    async def work() -> str:
        async with house.server.database.reading("default") as scope:
            if house.server.database.dialect == "postgresql":
                await scope.run(text("SET LOCAL enable_seqscan = off"))
            planned = Planned(scope, house.server.database.dialect)
            await ask(planned)
        return planned.plans

    return house.run(work())


def test_who_else_has_a_recording_is_found_by_its_digest(house: House) -> None:
    digests = ["sha256:" + "0" * 64, "sha256:" + "1" * 64]
    found = plans(house, lambda scope: retention.still_named(scope, digests, 5))
    assert "exchanges_by_recording" in found
    assert "captures_by_digest" in found


def test_captures_that_an_exchange_has_too_are_found_by_their_digest(house: House) -> None:
    found = plans(house, lambda scope: retention.old_captures(scope, 5, 10))
    assert "exchanges_by_recording" in found


def test_commands_that_were_never_sent_are_found_without_looking_at_all(house: House) -> None:
    assert "commands_unsent" in plans(house, lambda scope: replays.with_unsent(scope, 5))
