"""Processes of multiprocessing that the program ends by a signal, wherever they are.

How far one has come by then is another matter in every run. So it is written down that it was
stopped: in a replay it need not come as far, and one that comes further waits for its end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from reenact.engine.elsewhere import taking_part
from reenact.engine.patches import LatePatch
from reenact.format.schedule import STOPPED

__all__ = ["note_stopped", "stopped_patches"]

_LANE = "reenact_lane"


def stopped_patches() -> list[LatePatch]:
    """The patches of this module."""
    return [
        LatePatch("multiprocessing.process", lambda module: module.BaseProcess, "start", _start),
        LatePatch(
            "multiprocessing.popen_fork", lambda module: module.Popen, "_send_signal", _send_signal
        ),
        LatePatch("multiprocessing.connection", _connection, "send", _tell),
        LatePatch("multiprocessing.connection", _connection, "send_bytes", _tell),
        LatePatch("multiprocessing.queues", lambda module: module.Queue, "put", _tell),
        LatePatch("multiprocessing.queues", lambda module: module.JoinableQueue, "put", _tell),
    ]


def _connection(module: ModuleType) -> Any:
    return module._ConnectionBase


def _tell(original: Callable[..., None]) -> Callable[..., None]:
    """Another process learns something, and may end this one the next moment: what was drawn by
    then is written."""

    @wraps(original)
    def tell(self: Any, *args: Any, **kwargs: Any) -> None:
        session = taking_part()
        if session is not None and session.writes:
            session.draws.end(session.lanes.current())
        original(self, *args, **kwargs)

    return tell


def note_stopped(lane: str) -> None:
    """What is in ``lane`` may end anywhere from now on."""
    session = taking_part()
    if session is not None and session.writes:
        session.record_delivery(lane, STOPPED)


def _start(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def start(self: Any) -> None:
        session = taking_part()
        if session is None:
            original(self)
            return
        lane = session.lanes.current()
        before = lane.spawned
        original(self)
        if lane.spawned > before:  # a process is the last thing that starting one spawns
            setattr(self._popen, _LANE, f"{lane.name}.{lane.spawned}")

    return start


def _send_signal(original: Callable[..., None]) -> Callable[..., None]:
    """``terminate`` and ``kill``, also of what is left over when the program ends."""

    @wraps(original)
    def send_signal(self: Any, number: int) -> None:
        lane: str | None = getattr(self, _LANE, None)
        if lane is not None and self.returncode is None:
            note_stopped(lane)
        original(self, number)

    return send_signal
