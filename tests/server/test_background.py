"""What runs beside the requests goes on whatever happens to it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from starlette.applications import Starlette

from reenact.server.app import make_app
from reenact.server.process.startup import World, open_server
from reenact.server.runtime import Server, Timings


async def _live(app: Starlette, until: asyncio.Event) -> None:
    async with app.router.lifespan_context(app):
        await until.wait()


def test_work_that_fails_is_begun_again_until_the_server_stops(tmp_path: Path) -> None:
    begun: list[int] = []

    async def life() -> None:
        recovered = asyncio.Event()

        async def work(_: Server, stop: asyncio.Event) -> None:
            begun.append(len(begun))
            if len(begun) < 3:
                raise KeyError("nobody thought of this")
            recovered.set()
            await stop.wait()

        world = World(timings=Timings(retry=0.01))
        async with open_server(tmp_path / "data", "", world) as opened:
            await _live(make_app(opened.server, background=(work,)), recovered)

    asyncio.run(life())
    assert begun == [0, 1, 2]
