"""How slow somebody may be who sends a body, or reads an answer."""

from __future__ import annotations

import asyncio

from reenact.server.ports import Server

__all__ = ["Pace"]


class Pace:
    """Begins now. In each span of ``Timings.slow`` seconds as many bytes have to move as
    ``Limits.rate`` says, or all that are left."""

    def __init__(self, server: Server) -> None:
        self._span = server.timings.slow
        self._enough = server.limits.rate * server.timings.slow
        self._moved = 0
        self._since = asyncio.get_running_loop().time()

    def limit(self) -> asyncio.Timeout:
        """Raises :class:`TimeoutError` when nothing moves; to be rescheduled with :meth:`moved`."""
        return asyncio.timeout_at(self.moved(0))

    def moved(self, number: int) -> float:
        """So many bytes more. When to give up, by the clock of the loop."""
        self._moved += number
        if self._moved >= self._enough:
            self._moved, self._since = 0, asyncio.get_running_loop().time()
        return self._since + self._span
