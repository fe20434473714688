"""The command streams that a process has open. In one loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

__all__ = ["Open", "Streams"]


class Open(msgspec.Struct, frozen=True):
    """One of them: whose it is, and which registration and stream of that agent it was."""

    tenant: str
    agent_id: str
    key_id: str
    epoch: int
    number: int


class Streams:
    """All of them."""

    def __init__(self) -> None:
        self._open: set[Open] = set()
        self._cut: dict[Open, int] = {}

    @property
    def open(self) -> tuple[Open, ...]:
        """As they are now."""
        return tuple(self._open)

    @contextmanager
    def having(self, one: Open) -> Iterator[None]:
        """Keep a stream registered until the block ends."""
        self._open.add(one)
        try:
            yield
        finally:
            self._open.discard(one)

    def cut(self, one: Open, at: int) -> None:
        """Note that the agent closed or lost its stream at this time, in milliseconds."""
        self._cut[one] = at

    def cut_until(self, at: int) -> dict[Open, int]:
        """The streams that were cut by then, and when. They are forgotten with this call."""
        found = {one: when for one, when in self._cut.items() if when <= at}
        for one in found:
            del self._cut[one]
        return found
