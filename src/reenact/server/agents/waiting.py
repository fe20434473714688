"""Waiting for a hint, and no longer than the server runs."""

from __future__ import annotations

import asyncio

from reenact.server.hints import Ear
from reenact.server.ports import Server

__all__ = ["rest"]


async def rest(server: Server, ear: Ear, seconds: float) -> None:
    """Until there is a hint, the server begins to stop, or the time is over."""
    tasks = {
        asyncio.ensure_future(ear.wait(seconds)),
        asyncio.ensure_future(server.stopping.wait()),
    }
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
