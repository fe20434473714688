"""One exchange of a batch, ordered at most once, and not more of them at a time than were wanted."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Row

from reenact.server.problems import Problem
from reenact.server.storage.batch_items import change_item, count_of_agent, find_item
from reenact.server.storage.batch_rows import locked_batch
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_replays import find_replay

__all__ = ["MINUTE", "Part"]

MINUTE: Final = 60_000


class Part:
    """Keeps the order of ``exchange_id`` for ``batch_row`` one: its row is written where the replay
    is written, and says which that is, for good."""

    def __init__(self, batch_row: Row[Any], exchange_id: str, agent_id: str, now: int) -> None:
        self.batch: str = batch_row.batch_id
        self._row = batch_row
        self._exchange_id = exchange_id
        self._agent_id = agent_id
        self._now = now

    async def before(self, scope: Scope) -> Row[Any] | None:
        item = await find_item(scope, self.batch, self._exchange_id)
        if item is None or item.state not in ("waiting", "asked", "ended"):
            raise _not_now("conflict", "the batch does not want it any more")
        return await find_replay(scope, item.replay_id) if item.replay_id else None

    async def check(self, scope: Scope) -> None:
        """Somebody else may drive the same batch, or may just have cancelled it."""
        row = await locked_batch(scope, self.batch)
        if row is None or row.state != "running":
            raise _not_now("conflict", "the batch is not running")
        if not self._agent_id:
            return
        busy, lately = await count_of_agent(scope, self._agent_id, self._now - MINUTE + 1)
        if busy >= self._row.concurrency or lately >= self._row.per_minute:
            raise _not_now("rate_limited", "the agent has enough to do")

    async def remember(self, scope: Scope, replay_id: str) -> None:
        values = {
            "state": "asked",
            "replay_id": replay_id,
            "agent_id": self._agent_id,
            "asked_at": self._now,
        }
        if not await change_item(scope, self.batch, self._exchange_id, "waiting", values):
            raise _not_now("conflict", "the batch does not want it any more")


def _not_now(code: str, message: str) -> Problem:
    """Nobody was refused anything: there is nothing to be written down."""
    return Problem(code, message, audited=True)
