"""A command that runs, read by a thread of its own until it has ended."""

from __future__ import annotations

import os
import select
import subprocess
import threading
from _thread import start_new_thread
from typing import Final

from reenact._system import kill_group, monotonic, start_clock
from reenact.boundaries.processes.relay import Gate, relay_of
from reenact.boundaries.processes.replayed import Replayed
from reenact.engine.scheduling.cpu_usage import register_thread
from reenact.engine.session.context import context_outside_sessions, current
from reenact.format.event import Data
from reenact.tools.launching import Launched
from reenact.tools.outcome import outcome
from reenact.tools.output import Output

__all__ = ["Command"]

_END: Final = b"\x04"
"""Ctrl-D: what ends the input of a terminal."""

_UNTOLD: Final = "has no stdin that can be written to"
_LEAST: Final = 512
"""Bytes that can always be written to a pipe that is ready for some."""

_PIECE: Final = 65_536
_LOOK: Final = 0.01
"""Seconds between two looks whether a command that was killed has ended."""

TAKES: Final = 10.0
"""Seconds in which a command has to take what it is told."""


class Command:
    """``launched``, the command ``text`` that runs in ``cwd``.

    The time that it may take is said by :meth:`allow`, or :meth:`follow` says that it ends by
    itself; before that it has not ended. In a replay in which the tool is made again it is a
    stand-in, which ends as the recorded command did: nobody kills it.
    """

    def __init__(self, launched: Launched, text: str, cwd: str | None) -> None:
        self.text = text
        self.cwd = cwd
        self.pid = launched.process.pid
        self.started_at = start_clock()()
        """Milliseconds since the epoch."""
        self.ended = Gate()
        self.code: int | None = None
        """How it has ended, as ``subprocess`` says it."""
        self.failure: BaseException | None = None
        """Why nothing is known of its end: a replay that has diverged."""
        self.timed_out = False
        self.took_ms = 0
        self.lock = threading.Lock()
        """Covers ``output``."""
        self.output = Output()
        self._process = launched.process
        self._source = launched.source
        self._sink = launched.sink
        self._telling = threading.Lock()
        self._began = monotonic()
        self._seconds: float | None = None
        self._allowed = Gate()
        self._killed = False
        self._news: list[Gate] = []
        self._woken, self._waker = os.pipe()
        self._session = current()
        self._stands_in = isinstance(relay_of(self.pid), Replayed)
        start_new_thread(context_outside_sessions().run, (self._follow,))

    # What others do

    def allow(self, seconds: float) -> None:
        """It may take so long, from its beginning."""
        self._seconds = seconds
        self.follow()

    def follow(self) -> None:
        """All is known of it that there is to know."""
        self._allowed.open()
        self._wake()

    def kill(self) -> None:
        """End it, with all that it has started as far as that has not gone its own way. A stand-in
        ends by itself, as the recorded command did when it was killed."""
        with self.lock:
            if self.ended.is_open or self._process.returncode is not None:
                return
            self._killed = True
            if not self._stands_in:
                kill_group(self.pid)
        self.follow()

    def tell(self, data: bytes, *, last: bool, seconds: float = TAKES) -> str:
        """Write to its standard input, which it has to read in time; ``last`` closes it. Returns what
        went wrong, if anything."""
        until = monotonic() + seconds
        with self._telling:
            if self._sink is None:
                return _UNTOLD
            left = memoryview(data)
            try:
                while left:
                    if not _is_writable(self._sink, until):
                        return f"has taken only {len(data) - len(left):,} of {len(data):,} bytes"
                    left = left[os.write(self._sink, left[:_LEAST]) :]
                if last:
                    self._say_end()
            except OSError:
                return _UNTOLD
        return ""

    def wait_for_news(self, seconds: float) -> None:
        """Wait until it has said something new, or has ended; at most so long."""
        gate = Gate()
        with self.lock:
            if self.output.has_news or self.ended.is_open:
                return
            self._news.append(gate)
        gate.wait(seconds)

    @property
    def outcome(self) -> Data:
        """How it has ended."""
        return outcome(self.code or 0, self._seconds if self.timed_out else None)

    # What its thread does

    def _follow(self) -> None:
        with register_thread():
            try:
                self._listen()
                self._allowed.wait()
                self._wait()
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                self.failure = error
            finally:
                self._finish()

    def _listen(self) -> None:
        """Read what it says to the end; or until it has been killed and is gone, since somebody who
        left its group may hold the other end."""
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll(self._patience())}
            if self._woken in ready:
                os.read(self._woken, _PIECE)
            if self._source in ready:
                piece = _read(self._source)
                if not piece:
                    return
                self._add(piece)
            elif self._killed and self._process.poll() is not None:
                return
            self._look_at_clock()

    def _patience(self) -> int | None:
        """Milliseconds until something has to be done by ourselves."""
        if self._killed:
            return int(_LOOK * 1e3)
        left = self._left()
        return None if left is None else int(left * 1e3) + 1

    def _left(self) -> float | None:
        """Seconds until its time is up; None: it may go on."""
        if self._seconds is None or self._killed:
            return None
        return max(0.0, self._began + self._seconds - monotonic())

    def _look_at_clock(self) -> None:
        if self._left() == 0:
            self.timed_out = True
            self.kill()

    def _wait(self) -> None:
        """It has closed its output; perhaps it goes on."""
        while self._process.returncode is None:
            try:
                self._process.wait(self._left())
            except subprocess.TimeoutExpired:
                self._look_at_clock()
        if self._session is not None:
            self._session.scheduler.arrive(threading.get_ident())

    def _add(self, piece: bytes) -> None:
        with self.lock:
            self.output.add(piece)
            news, self._news = self._news, []
        for gate in news:
            gate.open()

    def _finish(self) -> None:
        self.took_ms = int((monotonic() - self._began) * 1e3)
        self.code = self._process.returncode
        with self._telling:
            self._close_sink()
        with self.lock:
            self.output.end()
            for fd in (self._source, self._woken, self._waker):
                os.close(fd)
            self.ended.open()
            news, self._news = self._news, []
        for gate in news:
            gate.open()

    def _say_end(self) -> None:
        if self._sink == self._source:
            os.write(self._source, _END)
        else:
            self._close_sink()

    def _close_sink(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None and sink != self._source:
            os.close(sink)

    def _wake(self) -> None:
        with self.lock:
            if not self.ended.is_open:
                os.write(self._waker, b"!")


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _PIECE)
    except OSError:  # the other end of a terminal was closed
        return b""


def _is_writable(fd: int, until: float) -> bool:
    """May something be written to ``fd``, at the latest then?"""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(max(0.0, until - monotonic()) * 1e3))
