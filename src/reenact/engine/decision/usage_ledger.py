"""Ledger of the recorded events that a replay has used, shared by all processes of a run.

A memory-mapped file with one byte per event, so a killed process loses nothing. Also lists the
lanes of stubbed tools and whether the fork point was reached.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

__all__ = ["UsageLedger"]

_USED = "used"
_STUBBED = "stubbed"
_REACHED = "reached"


class UsageLedger:
    """One byte per event, shared by the processes of a run, and the lanes of stubbed tools."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with open(folder / _USED, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    @classmethod
    def make(cls, folder: Path, events: int) -> UsageLedger:
        """Create a ledger in ``folder`` for a recording with ``events`` events."""
        with open(folder / _USED, "xb") as file:
            file.truncate(events + 1)
        return cls(folder)

    def use(self, seq: int) -> None:
        """Note that the call opened by event ``seq`` was served."""
        self._map[seq] = 1

    def is_used(self, seq: int) -> bool:
        """Return whether the call opened by event ``seq`` was served."""
        return self._map[seq] == 1

    def reach(self) -> None:
        """Note that the call at the fork point was made."""
        (self._folder / _REACHED).touch()

    def is_reached(self) -> bool:
        """Return whether the call at the fork point was made."""
        return (self._folder / _REACHED).exists()

    def stub(self, lane: str) -> None:
        """Note that events under ``lane`` are no longer requested."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        fd = os.open(self._folder / _STUBBED, flags, 0o600)
        try:
            os.write(fd, f"{lane}\n".encode())
        finally:
            os.close(fd)

    def stubbed(self) -> list[str]:
        """Return the lanes of stubbed tools."""
        try:
            return (self._folder / _STUBBED).read_text("ascii").split()
        except FileNotFoundError:
            return []
