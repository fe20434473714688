"""Does a thread want the processor? Known on Linux; elsewhere none is known to."""

from __future__ import annotations

import os
import threading

__all__ = ["wants_processor"]

_open, _read, _close = os.open, os.read, os.close  # before anything is patched
_threads: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]
_MOST = 512


def wants_processor(ident: int) -> bool:
    """Is the thread ``ident`` running, or would it if the machine had time for it?"""
    thread = _threads.get(ident)
    native = thread.native_id if thread is not None else None
    if native is None:
        return False
    try:
        file = _open(f"/proc/self/task/{native}/stat", os.O_RDONLY)
    except OSError:
        return False
    try:
        # "123 (name) R …", and the name may be anything.
        return _read(file, _MOST).rpartition(b")")[2][:2] == b" R"
    except OSError:
        return False
    finally:
        _close(file)
