"""Does a thread want the processor, and do others work for us?"""

from __future__ import annotations

import multiprocessing
import sys
import threading

import pytest

from reenact.engine.scheduling.cpu_usage import child_cpu_seconds, wants_processor

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


def _use_processor() -> None:
    while True:
        pass


@_on_linux
def test_what_processes_have_used_that_work_for_us() -> None:
    assert child_cpu_seconds() == 0
    process = multiprocessing.get_context("fork").Process(target=_use_processor, daemon=True)
    process.start()
    try:
        while not child_cpu_seconds():
            pass  # the system counts in hundredths of a second
        assert child_cpu_seconds() > 0
    finally:
        process.kill()
        process.join()
    assert child_cpu_seconds() == 0
