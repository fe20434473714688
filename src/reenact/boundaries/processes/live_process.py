"""Live process that is recorded while it runs."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Mapping
from typing import Final

from reenact.boundaries.processes.pipes import write_all
from reenact.boundaries.processes.relay import SOON, Relay
from reenact.boundaries.processes.transcript import ENDED, Account, GrowingAccount, Turn
from reenact.engine.codecs import PLAIN_CODEC, error_fields
from reenact.engine.execution.stream_chunks import chunk_name
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.session.context import OUTSIDE, enter_session, leave_session
from reenact.engine.session.session import Session
from reenact.format.event import Data

__all__ = ["Recorded"]

_MOST: Final = 65_536
_READY: Final = select.POLLIN | select.POLLHUP | select.POLLERR
_LOOK: Final = 20
"""Milliseconds between two looks whether it has ended, where the system does not tell."""


class Recorded(Relay):
    """Relay of a live process that is recorded.

    ``outputs`` are the descriptors to read from the process, by stream. ``targets`` are the
    descriptors that its output is forwarded to. ``seen`` are the streams that the program reads
    itself. ``source`` is read for ``sink``, the standard input of the process.
    """

    def __init__(
        self,
        session: Session,
        opened: InFlightCall,
        *,
        outputs: Mapping[int, int],
        targets: Mapping[int, int],
        seen: frozenset[int],
        source: int | None,
        sink: int | None,
        by_loop: bool,
    ) -> None:
        super().__init__(session, opened, Account(), by_loop=by_loop)
        self._outputs = dict(outputs)
        self._targets = dict(targets)
        self._seen = seen
        self._source = source
        self._sink = sink
        self._told = 0
        self._growing = GrowingAccount(session.recorder.screen)
        self.fds = {*outputs.values(), *targets.values()}
        self.fds.update(fd for fd in (source, sink) if fd is not None)

    def start(self, pid: int) -> None:
        """Start the relay of the process ``pid``."""
        self.session.in_flight.begin(self.opened, self._abandoned)
        with self.session.lock:
            self.session.recorder.note(self.opened)
        work = [self._drain] if self._source is None else [self._feed, self._drain]
        self.begin(pid, *work)

    # Input of the process

    def _feed(self) -> None:
        assert self._source is not None
        assert self._sink is not None
        while data := _read(self._source):
            self.account.told += data
            if not write_all(self._sink, data):
                break
            self._told += len(data)
        else:
            self._told += 1  # the end of it counts, too
        self.close(self._sink)
        self.close(self._source)

    # What it says

    def _drain(self) -> None:
        poll = select.poll()
        for fd in self._outputs.values():
            poll.register(fd, _READY)
        process = _pidfd(self._pid)
        if process is not None:
            self.fds.add(process)
            poll.register(process, _READY)
        runs = True
        while runs or self._outputs:
            ready = {fd for fd, _ in poll.poll(_LOOK if runs and process is None else None)}
            for stream, fd in list(self._outputs.items()):
                if fd in ready and not self._pass_on(stream, fd):
                    poll.unregister(fd)
                    self.close(self._outputs.pop(stream))
            if runs and (process in ready or (process is None and self._look() is not None)):
                runs = False
                if process is not None:
                    poll.unregister(process)
                    self.close(process)
                self._end_process(poll)
        self._complete("done")

    def _pass_on(self, stream: int, fd: int) -> bool:
        """False at the end of the stream."""
        data = _read(fd)
        self.take_turn(lambda: self._note(stream, data))
        self.pass_on(lambda: self._write(stream, data), stream, seen=stream in self._seen)
        return bool(data) and stream in self._targets

    def _write(self, stream: int, data: bytes) -> None:
        target = self._targets[stream]
        if not data or not write_all(target, data):
            del self._targets[stream]  # without a reader, the process gets a broken pipe
            self.close(target)

    def _note(self, stream: int, data: bytes) -> None:
        if not self.session.in_flight.is_open(self.opened):
            return
        self._check_size(len(data))
        turn = Turn(stream, len(data), self._told, self.signals)
        position, number = self.opened.position, len(self.account.turns)
        self.session.recorder.grow(self.opened, {"response": self._growing.add(turn, data)})
        self.session.in_flight.record_delivery(self.opened.lane.name, chunk_name(position, number))
        self.account.add(turn, data)

    def _check_size(self, more: int) -> None:
        """Raise the refusal of the policy if the output exceeds the budget for one result."""
        room = self.session.recorder.budget
        if room.measures:
            size = more + len(self.account.told) + sum(map(len, self.account.said.values()))
            refusal = room.over_answer(size)
            if refusal is not None:
                raise refusal

    def _look(self) -> int | None:
        """Return the exit code if the process has ended.

        It is not reaped, so the program can still wait for it.
        """
        try:
            found = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # already reaped; the code is stored soon
            self.reaped.wait(SOON)
            return self.code or 0
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def _end_process(self, poll: select.poll) -> None:
        """Forward the remaining output of an ended process, then record its end."""
        more = True
        while more:
            ready = {fd for fd, _ in poll.poll(0)}
            more = False
            for stream, fd in list(self._outputs.items()):
                if fd not in ready:
                    continue
                if self._pass_on(stream, fd):
                    more = True
                else:
                    poll.unregister(fd)
                    self.close(self._outputs.pop(stream))
        self.wait_until_reaped()
        self.account.exit_code = self._look()
        self.take_turn(lambda: self._note(ENDED, b""))
        self.pass_on(self.end, ENDED, seen=True)

    # The end

    def fail(self, error: BaseException) -> None:
        """Kill a process that cannot be recorded further. The program gets ``error``."""
        if self.session.in_flight.is_open(self.opened):
            _kill(self._pid)
            found = PLAIN_CODEC.dump_error(self.opened.call, error)
            self._complete("failed", error_fields(self.opened.call, found))
        for fd in list(self.fds):
            self.close(fd)
        super().fail(error)

    def _complete(self, ended: str, more: Data | None = None) -> None:
        fields: Data = {"response": self.account.dump(), "ended": ended, "instant": True}
        if self.opened.inner is not None:
            fields["inner"] = self.opened.inner
        with self.session.lock:
            data = self.session.recorder.completing(self.opened, fields | (more or {}))
            self.session.in_flight.complete(self.opened, data)

    def _abandoned(self) -> None:
        """Handle the end of the session before the end of the process.

        Its further output is not recorded.
        """
        if self.account.exit_code is None:
            self.account.exit_code = self._look()
            if self.account.exit_code is not None:
                self._note(ENDED, b"")
        self._complete("abandoned")
        for stream, fd in list(self._outputs.items()):
            if stream in self._targets and stream not in self._seen:
                _go_on(fd, self._targets[stream])


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has already ended


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _MOST)
    except OSError:
        return b""


def _pidfd(pid: int) -> int | None:
    """Return a descriptor that becomes readable when ``pid`` has ended, or None if the system has
    no pidfd."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _go_on(source: int, target: int) -> None:
    """Forward further output by a separate process, which can outlive this one."""
    actions = [(os.POSIX_SPAWN_DUP2, source, 0), (os.POSIX_SPAWN_DUP2, target, 1)]
    token = enter_session(OUTSIDE)
    try:
        os.posix_spawn("/bin/cat", ["cat"], {}, file_actions=actions)
    except OSError:
        pass  # then its output ends here
    finally:
        leave_session(token)
