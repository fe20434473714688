"""Relay between the program and a process, which forwards data in both directions, one piece at a
time.

A relay has its own threads, which are not part of a session. Data for the program is an ordinary
delivery: it happens when the program is quiescent, and in a replay in the recorded order.
"""

from __future__ import annotations

import os
import threading
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.scheduling.cpu_usage import register_thread
from reenact.engine.session.context import context_outside_sessions
from reenact.engine.session.session import Session

if TYPE_CHECKING:
    from reenact.boundaries.processes.transcript import Account
    from reenact.engine.scheduling.loop_scheduler import LoopScheduler

__all__ = ["NAMES", "SOON", "Gate", "Relay", "relay_of"]

NAMES: Final = {1: "stdout", 2: "stderr"}
"""Streams that a process writes, by descriptor."""

SOON: Final = 1.0
"""Maximum seconds for actions of the event loop, such as connecting pipes or reaping a process."""

_WAKING: Final = 0.2
"""Seconds within which a thread that reads gets the processor."""

_ident = threading.get_ident
_known: dict[int, Relay] = {}
"""By the id of their process. A process that has been waited for is forgotten."""

_all: WeakSet[Relay] = WeakSet()
_opening = threading.Lock()
_hooked = False


class Gate:
    """Opened once, for everybody. Not a condition: waiting here is nothing that the program does."""

    __slots__ = ("_lock", "is_open")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.is_open = False

    def open(self) -> None:
        with _opening:
            if not self.is_open:
                self.is_open = True
                self._lock.release()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait at most ``seconds``. Return whether the gate is open."""
        if not self.is_open and self._lock.acquire(timeout=-1 if seconds is None else seconds):
            self._lock.release()
        return self.is_open


class Relay:
    """Relay of one process.

    ``by_loop`` is set if an event loop started the process, reads it and waits for it.
    """

    def __init__(
        self, session: Session, opened: InFlightCall, account: Account, *, by_loop: bool
    ) -> None:
        self.session = session
        self.opened = opened
        self.account = account
        self.owner: int | LoopScheduler = session.runner()
        """Thread or loop that waited for the process last.

        It receives the end, and data without another reader.
        """
        self._readers: dict[int, int | LoopScheduler] = {}
        """Thread or loop that read last, by stream."""
        self._waiting: dict[int, Gate] = {}
        """Gates by stream, which open when the waiting thread continues."""
        self.by_loop = by_loop
        self.connected = Gate()
        """Opens when the reader of the output is ready."""
        if not by_loop:
            self.connected.open()
        self.reaped = Gate()
        """Opens when the process was reaped and ``code`` is set."""
        self.code: int | None = None
        self.ended = Gate()
        """Opens when the program is allowed to see the end of the process."""
        self.failure: BaseException | None = None
        self.signals = 0
        self.fds: set[int] = set()
        """Descriptors of the relay. A forked child must not keep them open."""
        self._ended_callbacks: list[Callable[[], None]] = []
        self._pid = 0

    # Starting

    def begin(self, pid: int, *work: Callable[[], None]) -> None:
        """Register the process and run each ``work`` in a separate thread."""
        self._pid = pid
        _remember(self, pid)
        for one in work:
            # Not by ``threading``: the program does not find them among its own.
            start_new_thread(context_outside_sessions().run, (self._watched, one))

    def _watched(self, work: Callable[[], None]) -> None:
        try:
            with register_thread():
                work()
        except BaseException as error:  # noqa: BLE001 - raised where the program waits
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Stop the relay. Waiting threads continue and get ``error``."""
        self.failure = self.failure or error
        self.end()

    def end(self) -> None:
        """Mark the process as ended for the program."""
        with self.session.lock:
            self.ended.open()
            callbacks, self._ended_callbacks = self._ended_callbacks, []
        for call in callbacks:
            call()

    def when_ended(self, call: Callable[[], None]) -> bool:
        """False if it has ended; else ``call`` is called then, in any thread."""
        with self.session.lock:
            if self.ended.is_open:
                return False
            self._ended_callbacks.append(call)
            return True

    # What others know

    def is_reaped(self, code: int) -> None:
        """Store that the process was reaped with the exit code ``code``."""
        self.code = code
        self.reaped.open()

    def wait_until_reaped(self) -> None:
        """Wait until the loop has reaped its process, because only then it can handle the end."""
        if self.by_loop:
            self.reaped.wait(SOON)

    def wait_until_connected(self) -> None:
        """Wait until the program can read the output."""
        self.connected.wait(SOON)

    # Operations of the program

    def was_signalled(self) -> bool:
        """Count a signal of the program. Return whether it must be sent."""
        self.signals += 1
        return True

    @contextmanager
    def reading(self, *streams: int) -> Iterator[None]:
        """Mark that the program waits for output in ``streams`` during the block."""
        session, gate = self.session, Gate()
        if session.tracks_order and self.fds:
            reader = session.runner()
            self._readers.update(dict.fromkeys(streams, reader))
            self._waiting.update(dict.fromkeys(streams, gate))
            if session.scheduler.quiescence.is_busy(_ident()):
                session.scheduler.arrive(reader)
        try:
            yield
        finally:
            gate.open()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end of the process for at most ``seconds``. Return whether it has ended."""
        session = self.session
        if session.tracks_order and not self.ended.is_open:
            self.owner = session.runner()
            with session.waiting_elsewhere():
                self.ended.wait(seconds)
            session.scheduler.awaken(self.owner)
        elif not self.ended.is_open:
            self.ended.wait(seconds)
        if self.failure is not None:
            session.check_open()
            raise self.failure
        return self.ended.is_open

    # Handing over

    def take_turn(self, note: Callable[[], None]) -> None:
        """Run ``note``, which records the next event, when the program is quiescent."""
        session = self.session
        self.wait_until_connected()
        if session.tracks_order:
            session.scheduler.hand_over(_ident(), note)  # which gives the lock up while it waits
        else:
            with session.lock:
                note()

    def pass_on(self, act: Callable[[], None], stream: int, *, seen: bool) -> None:
        """Run ``act``, which passes data to the program if it is ``seen``.

        This thread is busy during ``act``. Then the reader of ``stream`` is busy.
        """
        session, scheduler = self.session, self.session.scheduler
        owner = self._readers.get(stream, self.owner)
        if not session.tracks_order:
            act()
        elif not seen:
            with scheduler.thread_starts():
                act()
            scheduler.arrive(_ident())
        elif isinstance(owner, int):
            # First, because the reader can finish before this thread continues. This thread is busy
            # until the reader has woken up.
            with session.lock:
                scheduler.given(owner)
                scheduler.awaken(_ident())
            self._wake(act, self._waiting.pop(stream, None))
            scheduler.arrive(_ident())
        else:
            owner.put(act)

    def _wake(self, act: Callable[[], None], waiting: Gate | None) -> None:
        if waiting is None:
            act()
            return
        with self.session.scheduler.thread_starts():
            act()
            waiting.wait(_WAKING)

    def close(self, fd: int) -> None:
        """Close ``fd`` if it belongs to the relay."""
        if fd in self.fds:
            self.fds.discard(fd)
            os.close(fd)

    def forget(self) -> None:
        """Remove the process after the program got its exit code, because its id can be reused."""
        if _known.get(self._pid) is self:
            del _known[self._pid]

    def after_fork(self) -> None:
        for fd in self.fds:
            os.close(fd)
        self.fds.clear()


def relay_of(pid: int) -> Relay | None:
    """Return the relay of process ``pid``."""
    return _known.get(pid)


def _remember(relay: Relay, pid: int) -> None:
    global _hooked
    _known[pid] = relay
    _all.add(relay)
    if not _hooked:
        _hooked = True
        os.register_at_fork(after_in_child=_after_fork)


def _after_fork() -> None:
    global _opening
    _opening = threading.Lock()
    for relay in list(_all):
        relay.after_fork()
    _known.clear()
