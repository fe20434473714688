"""Starting a command for ``reenact.tools.exec``: with pipes, or in a terminal of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from reenact.errors import CommandFailed

__all__ = ["Launched", "launch"]

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
    """A command that runs. ``source`` is where it is read from, ``sink`` where it is told something
    (None: nowhere); in a terminal that is the same file. Both are the caller's to close."""

    process: subprocess.Popen[bytes]
    source: int
    sink: int | None


def launch(
    command: str, workdir: str | None, env: Mapping[str, str], *, listens: bool, pty: bool
) -> Launched:
    """Start ``command`` in a shell, in a session of its own. With ``listens`` it can be told
    something; otherwise there is nothing on its standard input. Raises :class:`CommandFailed`."""
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
                f"the environment variable {name[:64]!r} may not be set: it changes what is run",
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
