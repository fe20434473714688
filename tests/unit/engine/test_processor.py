"""Does a thread want the processor?"""

from __future__ import annotations

import sys
import threading

import pytest

from reenact.engine.processor import wants_processor

_on_linux = pytest.mark.skipif(sys.platform != "linux", reason="known on Linux only")


@_on_linux
def test_who_asks_is_running() -> None:
    assert wants_processor(threading.get_ident())


def test_a_thread_that_waits_does_not_want_it() -> None:
    stop = threading.Lock()
    stop.acquire()
    thread = threading.Thread(target=stop.acquire, name="a (name) R of its own")
    thread.start()
    try:
        assert thread.ident is not None
        while wants_processor(thread.ident):
            pass  # it is still on its way to the lock
        assert not wants_processor(thread.ident)
    finally:
        stop.release()
        thread.join()


def test_a_thread_that_is_gone_does_not_want_it() -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    assert thread.ident is not None
    assert not wants_processor(thread.ident)
    assert not wants_processor(0)
