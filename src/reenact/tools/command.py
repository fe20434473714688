"""Running shell command: its start, its output and its end.

A command starts with pipes or in a pseudo-terminal. A thread reads its output until it ends and
keeps the last part of a long output, with a note about the removed part.
"""

from __future__ import annotations

import codecs
import os
import select
import signal
import subprocess
import threading
from _thread import start_new_thread
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from reenact._system import kill_group, monotonic, start_clock
from reenact.boundaries.processes.relay import Gate, relay_of
from reenact.boundaries.processes.replayed_process import Replayed
from reenact.engine.scheduling.cpu_usage import register_thread
from reenact.engine.session.context import context_outside_sessions
from reenact.engine.session.current import current
from reenact.errors import CommandFailed
from reenact.format.event import Data

__all__ = [
    "MOST",
    "PENDING",
    "TAIL",
    "Command",
    "Launched",
    "Output",
    "Tail",
    "launch",
    "outcome",
    "with_code",
]

_REASONS: Final = {
    126: "Command not executable (permission denied)",
    127: "Command not found",
}


def outcome(code: int, timed_out: float | None) -> Data:
    """End of a command: its exit ``code``, or a time-out in seconds.

    With a ``reason`` it has failed.
    """
    reason = _reason(code, timed_out)
    found: Data = {
        "status": "completed" if reason is None else "failed",
        "exitCode": code if code >= 0 else None,
        "exitSignal": _signal(code),
        "timedOut": timed_out is not None,
    }
    return found if reason is None else {**found, "reason": reason}


def _reason(code: int, timed_out: float | None) -> str | None:
    """Return why the command failed, or None."""
    if timed_out is not None:
        return f"Command timed out after {timed_out:g} seconds"
    if code < 0:
        return f"Command aborted by signal {_signal(code)}"
    return _REASONS.get(code)


def _signal(code: int) -> str | None:
    if code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return str(-code)


def with_code(text: str, code: int) -> str:
    """Return ``text`` with a non-zero exit code appended."""
    said = text.rstrip("\n") if code else text
    return f"{said}\n\n(Command exited with code {code})".lstrip("\n") if code else said


TAIL: Final = 2_000
"""Characters of output that are returned while a command is running."""

MOST: Final = 200_000
"""Characters of output that are kept."""

PENDING: Final = 30_000
"""Characters that wait to be polled."""


class Tail:
    """Keeps the last ``most`` characters of what is added, and little more in memory."""

    def __init__(self, most: int, left_out: int = 0) -> None:
        self.left_out = left_out
        """Characters that are not kept any more."""
        self._most = most
        self._pieces: deque[str] = deque()
        self._size = 0

    def add(self, text: str) -> None:
        """Add text."""
        self._pieces.append(text)
        self._size += len(text)
        while self._size - len(self._pieces[0]) >= self._most:
            gone = len(self._pieces.popleft())
            self._size -= gone
            self.left_out += gone
        over = self._size - self._most
        if over > 0:
            self._pieces[0] = self._pieces[0][over:]
            self._size -= over
            self.left_out += over

    def is_longer_than(self, most: int) -> bool:
        """Return whether output was dropped."""
        return self.left_out + self._size > most

    def kept(self) -> str:
        """Return the kept text."""
        return "".join(self._pieces)

    def text(self, most: int | None = None) -> str:
        """Return the kept output, or its last ``most`` characters, and the number of missing
        characters.
        """
        text, left_out = self.kept(), self.left_out
        if most is not None and len(text) > most:
            left_out += len(text) - most
            text = text[-most:]
        return f"[{left_out:,} characters left out]\n{text}" if left_out else text


class Output:
    """Decoded output of a command so far, and the part that was not read yet.

    One thread adds to it and others read it, under a lock of the caller.
    """

    def __init__(self) -> None:
        self.all = Tail(MOST)
        self._new = Tail(PENDING)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, data: bytes) -> None:
        """Add bytes, which can end in the middle of a character."""
        self._append(self._decoder.decode(data))

    def end(self) -> None:
        """End the text. An incomplete character is replaced."""
        self._append(self._decoder.decode(b"", final=True))

    def _append(self, text: str) -> None:
        if text:
            self.all.add(text)
            self._new.add(text)

    @property
    def has_news(self) -> bool:
        """Return whether there is output that was not read yet."""
        return self._new.is_longer_than(0)

    def take_new(self) -> str:
        """Return the output since the last call."""
        found, self._new = self._new.text(), Tail(PENDING)
        return found

    def tail(self, most: int) -> str:
        """Return the last ``most`` characters."""
        return self.all.kept()[-most:]


_REFUSED_NAMES: Final = frozenset(
    """
    PATH ENV BASH_ENV IFS SHELLOPTS BASHOPTS PS4 GCONV_PATH SSLKEYLOGFILE NODE_OPTIONS NODE_PATH
    PYTHONPATH PYTHONHOME PYTHONSTARTUP PERL5LIB PERL5OPT RUBYLIB RUBYOPT JAVA_TOOL_OPTIONS
    """.split()
)
_REFUSED_PREFIXES: Final = ("LD_", "DYLD_", "BASH_FUNC_")

_SIZE: Final = (30, 120)
"""Lines and columns of a terminal."""

_TERM: Final = "xterm-256color"

_TAKES_TERMINAL: Final = 't=$(tty 2>/dev/null) && exec 0<>"$t" 1>&0 2>&0\n'
"""The first process of a session that opens a terminal is controlled by it from then on: it can ask
for passwords, and Ctrl-C reaches it."""


class Launched(msgspec.Struct, frozen=True, kw_only=True):
    """Started command. ``source`` is its output; ``sink`` is its input, or None.

    In a terminal both are the same file. The caller closes them.
    """

    process: subprocess.Popen[bytes]
    source: int
    sink: int | None


def launch(
    command: str, workdir: str | None, env: Mapping[str, str], *, listens: bool, pty: bool
) -> Launched:
    """Start ``command`` in a shell and a process session of its own.

    With ``listens`` it accepts input; otherwise its standard input is empty. Raises
    :class:`CommandFailed`.
    """
    _check_names(env)
    try:
        if pty:
            return _in_terminal(command, workdir, env)
        return _with_pipes(command, workdir, env, listens=listens)
    except (OSError, ValueError) as error:  # no such folder, or a null character
        raise CommandFailed(
            f"the command could not be started: {error}", details={"status": "failed"}
        ) from error


def _check_names(env: Mapping[str, str]) -> None:
    for name in env:
        if name.upper() in _REFUSED_NAMES or name.upper().startswith(_REFUSED_PREFIXES):
            raise CommandFailed(
                f"the environment variable {name[:64]!r} cannot be set, because it changes which program runs",
                hint="leave it out, or set it in the command itself",
                details={"status": "failed"},
            )


def _with_pipes(
    command: str, workdir: str | None, env: Mapping[str, str], *, listens: bool
) -> Launched:
    process = _start(
        command,
        workdir,
        env,
        stdin=subprocess.PIPE if listens else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    source = os.dup(process.stdout.fileno())
    process.stdout.close()
    sink = None
    if process.stdin is not None:
        sink = os.dup(process.stdin.fileno())
        process.stdin.close()
    return Launched(process=process, source=source, sink=sink)


def _in_terminal(command: str, workdir: str | None, env: Mapping[str, str]) -> Launched:
    import termios  # not on every system

    ours, theirs = os.openpty()
    try:
        termios.tcsetwinsize(theirs, _SIZE)
        given = {"TERM": _TERM, **env}
        process = _start(
            _TAKES_TERMINAL + command, workdir, given, stdin=theirs, stdout=theirs, stderr=theirs
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return Launched(process=process, source=ours, sink=ours)


def _start(
    command: str, workdir: str | None, env: Mapping[str, str], **files: Any
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S602 - a shell is what is asked for
        command,
        shell=True,
        cwd=workdir,
        env={**os.environ, **env},
        bufsize=0,
        start_new_session=True,
        **files,
    )


_END: Final = b"\x04"
"""Ctrl-D: what ends the input of a terminal."""

_UNTOLD: Final = "has no stdin that can be written to"
_LEAST: Final = 512
"""Bytes that can always be written to a pipe that is ready for some."""

_PIECE: Final = 65_536
_LOOK: Final = 0.01
"""Seconds between two looks whether a command that was killed has ended."""

TAKES: Final = 10.0
"""Seconds within which a command has to read its input."""


class Command:
    """Running command ``text`` in the folder ``cwd``.

    :meth:`allow` sets its time limit, or :meth:`follow` waits for its end without one; before that
    it does not end. In a replay that re-executes the tool it is a stand-in, which ends as the
    recorded command did and is never killed.
    """

    def __init__(self, launched: Launched, text: str, cwd: str | None) -> None:
        self.text = text
        self.cwd = cwd
        self.pid = launched.process.pid
        self.started_at = start_clock()()
        """Milliseconds since the epoch."""
        self.ended = Gate()
        self.code: int | None = None
        """Return code, as in ``subprocess``."""
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

    # Methods for other threads

    def allow(self, seconds: float) -> None:
        """Set the time limit of the command in seconds, counted from its start."""
        self._seconds = seconds
        self.follow()

    def follow(self) -> None:
        """Open the gate that the thread of the command waits for, and wake it up."""
        self._allowed.open()
        self._wake()

    def kill(self) -> None:
        """End the command and the processes that it started in its group.

        A stand-in ends without a signal, as the recorded command did when it was killed.
        """
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
        """Wait at most ``seconds`` for new output or the end of the command."""
        gate = Gate()
        with self.lock:
            if self.output.has_news or self.ended.is_open:
                return
            self._news.append(gate)
        gate.wait(seconds)

    @property
    def outcome(self) -> Data:
        """End of the command."""
        return outcome(self.code or 0, self._seconds if self.timed_out else None)

    # Thread of the command

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
        """Read the output to its end, or until the command was killed and has ended.

        A process that left its group can keep the pipe open.
        """
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
        """Return the milliseconds until the thread has to act without an event, or None."""
        if self._killed:
            return int(_LOOK * 1e3)
        left = self._left()
        return None if left is None else int(left * 1e3) + 1

    def _left(self) -> float | None:
        """Return the remaining seconds, or None without a time limit."""
        if self._seconds is None or self._killed:
            return None
        return max(0.0, self._began + self._seconds - monotonic())

    def _look_at_clock(self) -> None:
        if self._left() == 0:
            self.timed_out = True
            self.kill()

    def _wait(self) -> None:
        """Handle the end of the output. The command can still be running."""
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
    """Return whether ``fd`` becomes writable before ``until``."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(max(0.0, until - monotonic()) * 1e3))
