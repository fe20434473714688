"""Hints between parts of a server: something may have changed, go and look.

A hint carries no facts. What counts is in the database, and whoever waits for a hint looks there
again after a while anyway. Those among several servers are in ``hints_postgres``.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Ear", "Hints"]


class Ear:
    """Hears of one subject."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """True when there was a hint since the last time, False when nothing came in time."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        self._event.clear()
        return True


class Hints:
    """Subjects are texts, such as ``agent:<tenant>:<id>``. In one loop."""

    def __init__(self) -> None:
        self._ears: defaultdict[str, set[Ear]] = defaultdict(set)

    def give(self, subject: str) -> None:
        """To whoever listens, in every process."""
        self.wake(subject)

    def wake(self, subject: str) -> None:
        """To whoever listens in this process."""
        for ear in self._ears.get(subject, ()):
            ear.wake()

    def give_all(self) -> None:
        """Something may have been missed, and nobody knows what."""
        for ears in self._ears.values():
            for ear in ears:
                ear.wake()

    @contextmanager
    def listening(self, subject: str) -> Iterator[Ear]:
        ear = Ear()
        self._ears[subject].add(ear)
        try:
            yield ear
        finally:
            self._ears[subject].discard(ear)
            if not self._ears[subject]:
                del self._ears[subject]
