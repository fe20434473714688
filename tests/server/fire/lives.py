"""A program that lives again and again: forked each time from one that has imported everything, so
that a life costs no start of Python. It is told what to do in lines of JSON, and answers in such."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

Orders = dict[str, Any]
_PR_SET_PDEATHSIG = 1


def live(work: Callable[[Orders], None]) -> None:
    """Each line of standard input is another life, which gets it. Who reads the output is told of
    its end: ``{"ended": code}``, negative for a signal."""
    _die_with_parent()
    for orders in lines():
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _die_with_parent()
                work(orders)
                code = 0
            except BaseException as error:
                sys.excepthook(type(error), error, error.__traceback__)
            finally:
                sys.stderr.flush()
                os._exit(code)
        tell(ended=os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _die_with_parent() -> None:
    """Nothing outlives a test run that was ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def lines() -> Iterator[Orders]:
    """What comes in, taken byte by byte: the next life has to find what this one did not ask for."""
    with open(0, "rb", buffering=0, closefd=False) as file:
        while line := file.readline():
            yield json.loads(line)


def tell(**facts: Any) -> None:
    """One line, at once, whole."""
    os.write(1, json.dumps(facts).encode() + b"\n")
