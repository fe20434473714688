"""A server that is slow is no standstill of the replay."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from reenact.boundaries.mcp.client_connection import waited_for


class Conductor:
    """Counts the signs of life that it gets; after three of them the server answers."""

    patience = 0.01

    def __init__(self) -> None:
        self.helpers = 0
        self.signs = 0
        self.answered = asyncio.Event()

    def helper_comes(self) -> None:
        self.helpers += 1

    def helper_goes(self) -> None:
        self.helpers -= 1
        self.signs += 1
        if self.signs == 3:
            self.answered.set()


def _session(mode: str, scheduler: Conductor) -> Any:
    return SimpleNamespace(mode=mode, scheduler=scheduler)


def test_a_replay_sees_that_somebody_is_at_work() -> None:
    async def main() -> None:
        scheduler = Conductor()

        async def live() -> str:
            await scheduler.answered.wait()
            return "at last"

        assert await waited_for(_session("replay", scheduler), live) == "at last"
        assert scheduler.signs >= 3
        assert scheduler.helpers == 0

    asyncio.run(main())


def test_what_fails_fails() -> None:
    async def main() -> None:
        async def live() -> str:
            raise LookupError("nobody there")

        with pytest.raises(LookupError, match="nobody there"):
            await waited_for(_session("replay", Conductor()), live)

    asyncio.run(main())


def test_who_is_cancelled_cancels() -> None:
    async def main() -> None:
        began, ended = asyncio.Event(), asyncio.Event()

        async def live() -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        task = asyncio.create_task(waited_for(_session("replay", Conductor()), live))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await ended.wait()
        assert ended.is_set()

    asyncio.run(main())


def test_while_recording_nobody_is_told() -> None:
    async def main() -> None:
        scheduler = Conductor()

        async def live() -> int:
            return 3

        assert await waited_for(_session("record", scheduler), live) == 3
        assert scheduler.signs == 0

    asyncio.run(main())
