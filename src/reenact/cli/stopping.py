"""Being told to stop: by Ctrl-C, or by whoever runs this (a CI system sends SIGTERM)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Ended", "as_interrupt"]


class Ended:
    """``by`` is the number of the signal."""

    by: int = signal.SIGINT


@contextmanager
def as_interrupt(also: signal.Signals) -> Iterator[Ended]:
    """While this lasts, ``also`` raises :class:`KeyboardInterrupt` as Ctrl-C does."""
    ended = Ended()

    def interrupt(number: int, frame: FrameType | None) -> None:
        ended.by = number
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield ended
        return
    before = signal.signal(also, interrupt)
    try:
        yield ended
    finally:
        signal.signal(also, before)
