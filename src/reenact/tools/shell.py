"""``reenact.tools.exec``: a shell command as a tool."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from typing import Annotated, Final

from reenact._system import monotonic
from reenact.errors import CommandFailed
from reenact.format.event import Data
from reenact.tools.output import Tail
from reenact.tools.wrapping import tool

__all__ = ["exec"]

TIMEOUT: Final = 1_800
"""Seconds that a command may take unless the call says it."""

MOST: Final = 200_000
"""Characters of output that are given; of a failure fewer, since it is an exception."""

MOST_FAILED: Final = 8_000

_PIECE = 65_536
_REFUSED_NAMES: Final = frozenset(
    """
    PATH ENV BASH_ENV IFS SHELLOPTS BASHOPTS PS4 GCONV_PATH SSLKEYLOGFILE NODE_OPTIONS NODE_PATH
    PYTHONPATH PYTHONHOME PYTHONSTARTUP PERL5LIB PERL5OPT RUBYLIB RUBYOPT JAVA_TOOL_OPTIONS
    """.split()
)
_REFUSED_PREFIXES: Final = ("LD_", "DYLD_", "BASH_FUNC_")
_REASONS: Final = {
    126: "Command not executable (permission denied)",
    127: "Command not found",
}


@tool(name="exec", volatile=("durationMs",))
def exec(
    command: Annotated[str, "the command line, for the shell"],
    workdir: Annotated[str | None, "the folder to run it in; else that of the program"] = None,
    env: Annotated[dict[str, str] | None, "more variables of its environment"] = None,
    timeout: Annotated[float, "seconds after which it is ended"] = TIMEOUT,
) -> Data:
    """Run a shell command and give its output.

    ``aggregated`` is what it wrote to its standard output and error, in one text. An exit code other
    than 0 is a result like any: it is said at the end of the text. Time-outs, signals and commands
    that are not there raise :class:`CommandFailed`.
    """
    began = monotonic()
    process = _start(command, workdir, env or {})
    tail = Tail(MOST)
    with process:
        try:
            in_time = _hear(process, tail, began + timeout)
        except BaseException:
            _end(process)
            raise
        if not in_time:
            _end(process)
            _rest(process, tail)
    return _told(process, tail, _Asked(workdir, timeout, began, timed_out=not in_time))


def _start(command: str, workdir: str | None, env: dict[str, str]) -> subprocess.Popen[bytes]:
    _check_names(env)
    try:
        return subprocess.Popen(  # noqa: S602 - a shell is what is asked for
            command,
            shell=True,
            cwd=workdir,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # no such folder, or a null character
        raise CommandFailed(
            f"the command could not be started: {error}", details={"status": "failed"}
        ) from error


def _check_names(env: dict[str, str]) -> None:
    for name in env:
        if name.upper() in _REFUSED_NAMES or name.upper().startswith(_REFUSED_PREFIXES):
            raise CommandFailed(
                f"the environment variable {name[:64]!r} may not be set: it changes what is run",
                hint="leave it out, or set it in the command itself",
                details={"status": "failed"},
            )


def _hear(process: subprocess.Popen[bytes], tail: Tail, until: float) -> bool:
    """Read what it says until it has ended; False if it had not ended by ``until``."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while (left := until - monotonic()) > 0:
            if not selector.select(left):
                continue
            piece = os.read(process.stdout.fileno(), _PIECE)
            if not piece:
                break
            tail.add(piece)
        else:
            return False
    try:
        process.wait(max(0.0, until - monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """All that it has started, too, as far as that has not gone its own way."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()


def _rest(process: subprocess.Popen[bytes], tail: Tail) -> None:
    """What was in the pipe already."""
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    while piece := _there(process.stdout.fileno()):
        tail.add(piece)


def _there(fd: int) -> bytes:
    try:
        return os.read(fd, _PIECE)
    except BlockingIOError:  # somebody who left the group holds the other end
        return b""


class _Asked:
    def __init__(
        self, workdir: str | None, timeout: float, began: float, *, timed_out: bool
    ) -> None:
        self.cwd = workdir
        self.timeout = timeout
        self.took = int((monotonic() - began) * 1e3)
        self.timed_out = timed_out


def _told(process: subprocess.Popen[bytes], tail: Tail, asked: _Asked) -> Data:
    code = process.returncode
    reason = _reason(code, asked)
    details: Data = {
        "status": "completed" if reason is None else "failed",
        "exitCode": code if code >= 0 else None,
        "exitSignal": _signal(code),
        "durationMs": asked.took,
        "timedOut": asked.timed_out,
        "truncated": tail.is_longer_than(MOST if reason is None else MOST_FAILED),
    }
    if asked.cwd is not None:
        details["cwd"] = asked.cwd
    if reason is None:
        return {**details, "aggregated": _with_code(tail.text(), code)}
    text = tail.text(MOST_FAILED)
    details |= {"aggregated": text, "reason": reason}
    raise CommandFailed(f"{text}\n\n{reason}" if text else reason, details=details)


def _reason(code: int, asked: _Asked) -> str | None:
    """Why it has failed, if it has."""
    if asked.timed_out:
        return f"Command timed out after {asked.timeout:g} seconds"
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


def _with_code(text: str, code: int) -> str:
    said = text.rstrip("\n") if code else text
    return f"{said}\n\n(Command exited with code {code})".lstrip("\n") if code else said
