"""A server that is really asked in a replay takes as long as it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from reenact.engine.session.session import Session

__all__ = ["waited_for"]


async def waited_for(session: Session, live: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """``await live()``. A replay meanwhile does not take the quiet for a standstill: whoever
    listens to the server waits, too."""
    if session.mode != "replay":
        return await live()
    scheduler = session.scheduler
    task = asyncio.ensure_future(live())
    try:
        while not task.done():
            scheduler.helper_comes()
            try:
                await asyncio.wait([task], timeout=scheduler.patience / 4)
            finally:
                scheduler.helper_goes()
        return task.result()
    finally:
        task.cancel()
