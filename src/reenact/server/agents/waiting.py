"""Waiting for a hint, and no longer than the server runs."""

from __future__ import annotations

import asyncio

from reenact.server.hints import Ear
from reenact.server.ports import Server

__all__ = ["rest"]


async def rest(server: Server, ear: Ear, seconds: float) -> bool:
    """Until there is a hint, the server begins to stop, or the time is over. Was there a hint?"""
    hint = asyncio.ensure_future(ear.wait(seconds))
    stopping = asyncio.ensure_future(server.stopping.wait())
    try:
        await asyncio.wait({hint, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return hint.done() and hint.result()
    finally:
        for task in (hint, stopping):
            task.cancel()
        await asyncio.gather(hint, stopping, return_exceptions=True)
