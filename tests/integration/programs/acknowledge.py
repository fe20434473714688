"""The writing end of the pipe on which a program says what it has done."""

from __future__ import annotations

import os


class Acknowledge:
    """One write per line, so that lines of several processes never mix."""

    def __init__(self, path: str, name: str) -> None:
        self._fd = os.open(path, os.O_WRONLY)
        self._name = name
        os.write(self._fd, f"pid {name} {os.getpid()}\n".encode("ascii"))

    def __call__(self, number: int) -> None:
        os.write(self._fd, f"{self._name} {number}\n".encode("ascii"))
