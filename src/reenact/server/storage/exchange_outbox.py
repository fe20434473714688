"""The outbox: commands that are to be sent, until they are acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, Select, text

from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_tables import COMMANDS, UNSENT

__all__ = [
    "add_command",
    "end_command",
    "end_commands",
    "has_cancel",
    "mark_sent",
    "pending_commands",
    "was_sent",
    "with_unsent",
]


async def add_command(scope: Scope, values: dict[str, Any]) -> None:
    """Put one in; it was not sent, and is not done."""
    await scope.add(COMMANDS, {"sent_at": 0, "done_at": 0, **values})


async def pending_commands(
    scope: Scope, agent_id: str, after: int, now: int, most: int
) -> Sequence[Row[Any]]:
    """Those for an agent that nobody has acknowledged, in order, from the one after ``after``."""
    return await scope.all(
        scope.select(COMMANDS)
        .where(
            COMMANDS.c.agent_id == agent_id,
            COMMANDS.c.number > after,
            COMMANDS.c.done_at == 0,
            COMMANDS.c.expires_at > now,
        )
        .order_by(COMMANDS.c.number)
        .limit(most)
    )


async def mark_sent(scope: Scope, agent_id: str, number: int, now: int) -> None:
    """It leaves ``now``, in milliseconds; the first time is the one that stays."""
    await scope.run(
        scope.update(COMMANDS)
        .where(
            COMMANDS.c.agent_id == agent_id, COMMANDS.c.number == number, COMMANDS.c.sent_at == 0
        )
        .values(sent_at=now)
    )


async def with_unsent(scope: Scope, now: int) -> set[str]:
    """Agents for which there is something that was never sent."""
    rows = await scope.all(
        scope.select(COMMANDS, COMMANDS.c.agent_id)
        .where(text(UNSENT), COMMANDS.c.expires_at > now)
        .distinct()
    )
    return {row.agent_id for row in rows}


async def was_sent(scope: Scope, replay_id: str) -> bool:
    """Has the command of this replay ever left?"""
    sent = _of(scope, replay_id, "replay").where(COMMANDS.c.sent_at > 0)
    return bool(await scope.all(sent))


async def has_cancel(scope: Scope, replay_id: str) -> bool:
    """Was the agent, or is it to be, told to end this replay?"""
    return bool(await scope.all(_of(scope, replay_id, "cancel")))


def _of(scope: Scope, replay_id: str, kind: str) -> Select[Any]:
    return scope.select(COMMANDS, COMMANDS.c.number).where(
        COMMANDS.c.replay_id == replay_id, COMMANDS.c.type == kind
    )


async def end_command(scope: Scope, agent_id: str, number: int, now: int) -> None:
    """Nobody is to get it any more."""
    await scope.run(
        scope.update(COMMANDS)
        .where(COMMANDS.c.agent_id == agent_id, COMMANDS.c.number == number)
        .values(done_at=now, document=b"")
    )


async def end_commands(scope: Scope, replay_id: str, now: int, *, only: str = "") -> None:
    """The same for all commands of a replay, or those of one type."""
    chosen = scope.update(COMMANDS).where(
        COMMANDS.c.replay_id == replay_id, COMMANDS.c.done_at == 0
    )
    if only:
        chosen = chosen.where(COMMANDS.c.type == only)
    await scope.run(chosen.values(done_at=now, document=b""))
