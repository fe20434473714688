"""Recorded process: a stand-in with the recorded output and exit."""

from __future__ import annotations

import os
import signal
import threading
from typing import Final

from reenact.boundaries.http.stored_body import as_text
from reenact.boundaries.processes.pipes import Ends, Given, write_all
from reenact.boundaries.processes.relay import Relay
from reenact.boundaries.processes.transcript import ENDED, Account, Turn
from reenact.engine.call import Entry
from reenact.engine.divergence.model import Divergence, Seen
from reenact.engine.execution.stream_chunks import chunk_name
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.scheduling.waiters import Waiter
from reenact.engine.session.session import Session
from reenact.errors import SessionClosed
from reenact.format.event import Data

__all__ = [
    "Replayed",
    "as_stand_in",
    "order_end",
]

_COMMAND: Final = ("/bin/sh", "-c", "ulimit -c 0; read how || exit 0; eval $how")
"""Command of the stand-in. It waits on its standard input and ends with the program."""


def as_stand_in(given: Given, control: int, nowhere: int) -> Given:
    """Return the arguments for a stand-in, which reads from ``control`` and prints nothing.

    Only properties that other processes can see stay unchanged: its session and its process group.
    """
    changed: Given = {
        "args": list(_COMMAND),
        "executable": None,
        "preexec_fn": None,
        "close_fds": True,
        "pass_fds": (),
        "cwd": None,
        "env": {},
        "shell": False,
        "p2cread": control,
        "p2cwrite": -1,
        "c2pread": -1,
        "c2pwrite": nowhere,
        "errread": -1,
        "errwrite": nowhere,
        "gid": None,
        "gids": None,
        "uid": None,
        "umask": -1,
    }
    return {name: changed.get(name, value) for name, value in given.items()}


def order_end(control: int, exit_code: int) -> None:
    """Make the stand-in at the other end of ``control`` end like the recorded process."""
    how = f"kill -{_name(-exit_code)} $$" if exit_code < 0 else f"exit {exit_code}"
    try:
        os.write(control, f"{how}\n".encode("ascii"))
    except BrokenPipeError:
        pass  # it was killed
    os.close(control)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:  # a real-time signal has none
        return str(number)


_MOST: Final = 65_536


class Replayed(Relay):
    """Relay of a replayed process.

    ``control`` is the pipe that makes the stand-in end. ``error`` is the error that ended its
    recording early.
    """

    def __init__(
        self,
        session: Session,
        opened: InFlightCall,
        entry: Entry,
        account: Account,
        *,
        ends: Ends,
        control: int,
        by_loop: bool,
        error: BaseException | None = None,
    ) -> None:
        super().__init__(session, opened, account, by_loop=by_loop)
        self._entry = entry
        self._targets = dict(ends.targets)
        self._seen = ends.seen
        self._source = ends.source
        self._control = control
        self._error = error
        self._got = bytearray()
        self._same = 0
        """So much of it has been compared."""
        self._hears_on = ends.source is not None
        self._compares = "redacted" not in entry.opening.data
        self._changed = threading.Condition()
        self.fds = {control, *ends.targets.values()}
        if ends.source is not None:
            self.fds.add(ends.source)

    def start(self, pid: int) -> None:
        """Start the relay of the stand-in process ``pid``."""
        self.session.in_flight.begin(self.opened, self._abandoned)
        self.session.scheduler.helper_comes()  # before the program can wait for it
        self.begin(pid, self._emit, *([] if self._source is None else [self._listen]))

    def fail(self, error: BaseException) -> None:
        self.failure = self.failure or error
        for fd in list(self.fds):
            self.close(fd)
        super().fail(error)

    def was_signalled(self) -> bool:
        """Count a signal of the program.

        It is not sent, because the replay repeats the recorded reaction.
        """
        with self._changed:
            self.signals += 1
            self._changed.notify_all()
        return False

    # Input of the process

    def _listen(self) -> None:
        assert self._source is not None
        while data := os.read(self._source, _MOST):
            with self._changed:
                self._got += data
                self._changed.notify_all()
        with self._changed:
            self._hears_on = False
            self._changed.notify_all()
        self.close(self._source)

    def _wait_for_causes(self, turn: Turn) -> None:
        """Wait until the stand-in got the same input and signals as the recorded process before
        ``turn``."""
        scheduler = self.session.scheduler
        before = scheduler.progress()
        with self._changed:
            while not self._has_causes(turn):
                self.session.check_open()
                if not self._changed.wait(scheduler.patience) and scheduler.is_quiet_since(before):
                    break
                before = scheduler.progress()
            causes = self._has_causes(turn)
        self._compare(turn)
        if not causes:
            self._diverge(self._silent(turn))

    def _has_causes(self, turn: Turn) -> bool:
        heard = not self._hears_on or len(self._got) >= turn.told
        return heard and self.signals >= turn.signals

    def _compare(self, turn: Turn) -> None:
        """Compare the input with the recorded one. Redacted input is not compared."""
        end = turn.told if turn.told <= len(self.account.told) else None  # more input can follow
        then, now = self.account.told[self._same : end], self._got[self._same : end]
        if not self._compares or then == now:
            self._same += len(now)
            return
        self._compares = False
        before, lane = self._got[: self._same], self.opened.lane.name
        with self.session.lock:
            found = self.session.machine.goes_on(
                self._entry, self.opened.call, lane, _told(before + then), _told(before + now)
            )
        if found is not None:
            self._diverge(found)

    def _diverge(self, divergence: Divergence) -> None:
        """Raise the divergence in a strict replay. A lenient one has already stored it."""
        if self.session.machine.strict:
            raise self.session.reporter.diverged(divergence)

    # What it says

    def _emit(self) -> None:
        try:
            for number, (turn, data) in enumerate(self.account.pieces()):
                self._wait_for_causes(turn)
                self._wait_for_turn(number)
                self._act(turn, data)
            if self._error is not None:
                raise self._error
            if self.account.exit_code is not None:
                self._complete()
        except SessionClosed:
            self._abandoned()
        finally:
            self.session.scheduler.helper_goes()

    def _complete(self) -> None:
        """Complete the call. A recording that is being extended keeps the recorded result."""
        self.session.in_flight.complete(self.opened, self.opened.answer or {})

    def _abandoned(self) -> None:
        """Close everything when the session ends before the process."""
        self._complete()
        for fd in list(self.fds):
            self.close(fd)
        self.end()

    def _wait_for_turn(self, number: int) -> None:
        session, opened = self.session, self.opened
        session.check_open()
        if session.writes and not opened.past:  # a new call has its own order
            self._note_turn(number)
            return
        self.wait_until_connected()
        if not session.tracks_order or session.scheduler.order is None or self._entry.passed:
            return
        token = (self._entry.lane, chunk_name(self._entry.position, number))
        waiter = Waiter(
            token,
            opened.lane.name,
            threading.get_ident(),
            describe=lambda: session.machine.describe(opened.call, opened.key, opened.lane.name),
        )
        session.scheduler.wait(waiter)
        if waiter.live:  # the run was forked while it waited
            self._note_turn(number)

    def _note_turn(self, number: int) -> None:
        """Wait for the turn of this relay and record it."""
        session, opened = self.session, self.opened
        token = (opened.lane.name, chunk_name(opened.position, number))
        self.take_turn(lambda: session.in_flight.record_delivery(*token))

    def _act(self, turn: Turn, data: bytes) -> None:
        if turn.stream == ENDED:
            self._end_stand_in()
            self.pass_on(self.end, ENDED, seen=True)
            return
        stream = turn.stream
        self.pass_on(lambda: self._write(stream, data), stream, seen=stream in self._seen)

    def _write(self, stream: int, data: bytes) -> None:
        target = self._targets.get(stream)
        if target is not None and not (data and write_all(target, data)):
            del self._targets[stream]
            self.close(target)

    def _end_stand_in(self) -> None:
        """End the stand-in.

        This thread counts as busy until then, so that the program does not seem to be quiescent.
        """
        self.fds.discard(self._control)
        with self.session.scheduler.thread_starts():
            order_end(self._control, self.account.exit_code or 0)
            try:
                os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:
                pass  # already reaped
            self.wait_until_reaped()

    def _silent(self, turn: Turn) -> Divergence:
        session, opened = self.session, self.opened
        name, missing = opened.call.operation, turn.signals - self.signals
        what = f"sent {missing} more signals" if missing > 0 else "sent more input"
        found = Divergence(
            code="event_missing",
            detail=f"The process {name} of event {self._entry.seq} was {what} before it "
            "continued, but not in this replay.",
            lane=opened.lane.name,
            observed=Seen(type=opened.call.type, operation=name, lane=opened.lane.name),
            hint=f"`reenact show CAPTURE {self._entry.seq}` prints what was sent, and when. If the "
            "change is intended, record again.",
        )
        with session.lock:
            return session.machine.note(found)


def _told(data: bytes | bytearray) -> Data:
    return {"stdin": as_text(bytes(data))}
