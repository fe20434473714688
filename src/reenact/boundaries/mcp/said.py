"""What the process of a server writes to its standard error, which is the program's own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from reenact.format.event import Data

__all__ = ["Said", "descriptor_of", "say_again"]

_MOST = 65_536


class Said:
    """A pipe between the process and us; each piece that comes is handed to ``heard``.

    Used in the loop's own thread. ``pipe`` is asked for once, if at all; :meth:`begin` when the
    process has its end of it, :meth:`end` when the process is gone.
    """

    def __init__(self, heard: Callable[[Data], None]) -> None:
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._ours: int | None = None
        self._theirs: Any = None

    def pipe(self) -> Any:
        """The file that a process writes to."""
        self._ours, theirs = os.pipe()
        os.set_blocking(self._ours, False)
        self._theirs = open(theirs, "w", encoding="utf-8")  # noqa: SIM115 - closed in begin or end
        return self._theirs

    def begin(self) -> None:
        """The process has started."""
        if self._ours is not None:
            self._theirs.close()
            self._loop.add_reader(self._ours, self._read)

    def end(self) -> None:
        """The process has ended: what is still in the pipe is all there is."""
        if self._ours is not None:
            self._theirs.close()
            while self._read():
                pass
            if self._ours is not None:
                self._forget()

    def _read(self) -> bool:
        if self._ours is None:
            return False
        try:
            found = os.read(self._ours, _MOST)
        except BlockingIOError:
            return False
        if found:
            self._heard({"stderr": _text(found)})
            return True
        self._forget()
        return False

    def _forget(self) -> None:
        assert self._ours is not None
        self._loop.remove_reader(self._ours)
        os.close(self._ours)
        self._ours = None


def _text(found: bytes) -> str | bytes:
    try:
        return found.decode("utf-8")
    except UnicodeDecodeError:
        return found


def descriptor_of(errors: Any) -> int | None:
    """Where the program wants to see the errors of a server: a file, or a descriptor. None where
    it does not want to. Raises what a file raises that has no descriptor."""
    if errors is None:
        return None
    number: int = errors if isinstance(errors, int) else errors.fileno()
    return number if number >= 0 else None  # subprocess.DEVNULL is less


def say_again(piece: Data, errors: int) -> None:
    """Write to the descriptor ``errors`` what the process wrote."""
    said = piece["stderr"]
    rest = memoryview(said.encode() if isinstance(said, str) else said)
    while rest:
        rest = rest[os.write(errors, rest) :]
