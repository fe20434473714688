"""Processor use of threads and child processes, and the progress of a session.

Used to detect quiescence and stalls. Reads ``/proc`` on Linux. On other systems no thread is known
to be running.

Invariants: nothing here takes the session's lock, and the functions of ``os`` are bound at import,
before anything is patched.

Relies on private details (CPython 3.11 to 3.14): the tables ``threading._active`` and
``multiprocessing.process._children``, the attribute ``_popen`` of a process, and fields 3, 14 and
15 of ``/proc/*/stat``. ``tests/unit/engine/test_cpu_usage.py`` notices a change.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from reenact._system import cpu_seconds, monotonic

__all__ = [
    "Progress",
    "child_cpu_seconds",
    "progress_at",
    "register_thread",
    "wants_processor",
]

_open, _read, _close = os.open, os.read, os.close  # before anything is patched
_threads: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]
_strangers: dict[int, int] = {}
_MOST = 512
_USER, _SYSTEM = 11, 12
"""Indexes of the processor times in the fields after the name."""


@contextmanager
def register_thread() -> Iterator[None]:
    """Register this thread, which ``threading`` does not list, for the block."""
    ident = threading.get_ident()
    _strangers[ident] = threading.get_native_id()
    try:
        yield
    finally:
        del _strangers[ident]


def wants_processor(ident: int) -> bool:
    """Return whether thread ``ident`` is running, or is ready to run on a busy machine."""
    thread = _threads.get(ident)
    native = thread.native_id if thread is not None else _strangers.get(ident)
    if native is None:
        return False
    # "123 (name) R …", and the name may be anything.
    return _stat(f"/proc/self/task/{native}/stat").rpartition(b")")[2][:2] == b" R"


def child_cpu_seconds() -> float:
    """Return the processor time used by the multiprocessing children of this process."""
    module = sys.modules.get("multiprocessing.process")
    if module is None:
        return 0.0
    started = (getattr(one, "_popen", None) for one in list(module._children))
    return sum(_seconds(one.pid) for one in started if one is not None)


def _seconds(pid: int) -> float:
    fields = _stat(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return sum(map(int, fields[_USER : _SYSTEM + 1])) / os.sysconf("SC_CLK_TCK")


def _stat(path: str) -> bytes:
    """Return the content of a ``stat`` file, or nothing if it is missing."""
    try:
        file = _open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return _read(file, _MOST)
    except OSError:
        return b""
    finally:
        _close(file)


_IDLE_SHARE: Final = 0.05
"""Share of the processor that an idle program can use."""


class Progress(NamedTuple):
    """Number of activities so far, processor time used, and the time of measurement."""

    activity: int
    cpu: float
    at: float

    def is_quiet_until(self, later: Progress) -> bool:
        """Return whether nothing has happened and nothing was computed until ``later``."""
        idle = later.cpu - self.cpu <= _IDLE_SHARE * (later.at - self.at)
        return later.activity == self.activity and idle


def progress_at(activity: int) -> Progress:
    """Return a snapshot of this moment, with ``activity`` as the number of activities so far."""
    return Progress(activity, cpu_seconds() + child_cpu_seconds(), monotonic())
