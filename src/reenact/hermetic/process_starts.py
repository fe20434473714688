"""Processes that a program starts: which of them are covered by the recording.

A Python process below ``reenact run`` is covered if nothing prevents Reenact from starting in it.
So are the small system queries of the standard library. If only the network is recorded, every
process runs live, and only processes that are known to use the network are refused.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from reenact.hermetic.call_origin import calling_module
from reenact.hermetic.endpoints import text
from reenact.policy.patterns import lazy_pattern

__all__ = [
    "START_EVENTS",
    "ProcessStart",
    "is_covered_process",
    "is_system_query",
    "stand_in_process",
    "uses_network",
]

RUN: Final = "REENACT_RUN"
_INJECT = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "runs", "inject"
)

_PYTHON = lazy_pattern(r"(python|pypy)[0-9.]*[dmtw]*(\.exe)?")
_NOT_OURS = frozenset("IES")
"""Options with which a Python does not look where it would find us."""

_THROUGH = frozenset("subprocess os asyncio.base_events asyncio.unix_events".split())
_ASKS = frozenset(
    "platform ctypes.util uuid sysconfig _osx_support _aix_support _bootsubprocess distro".split()
)
"""Modules whose processes only ask what kind of machine this is: uname, ldconfig, ifconfig …"""

_SHELLS = frozenset("sh bash dash zsh ksh fish".split())
_BEFORE = frozenset("sudo env exec time nohup command nice timeout xargs".split())
_TOOLS = frozenset(
    """
    aria2c apt apt-get aws az brew curl dig docker fetch ftp gcloud gh gsutil helm host http https
    kubectl lftp lynx mongosh mysql nc ncat netcat npm npx nslookup openssl ping pnpm podman psql
    rclone redis-cli rsync scp sftp socat ssh telnet terraform traceroute wget wscat yarn
    """.split()
)
_GIT = frozenset("clone fetch pull push ls-remote submodule remote archive svn".split())
_WORDS = lazy_pattern(r"[;|&\n(){}`]+|\$\(")


class ProcessStart(msgspec.Struct, frozen=True):
    """A process that is about to be started. ``environ`` None: with our own environment."""

    argv: tuple[str, ...]
    executable: str = ""
    environ: Mapping[Any, Any] | None = None

    @property
    def name(self) -> str:
        """The name of the program, which the rules of a policy are about."""
        return os.path.basename(self.argv[0] if self.argv else self.executable)

    def written(self) -> str:
        """The command, for people."""
        return " ".join(self.argv) or self.executable


def _made(executable: Any, argv: Any, environ: Any) -> ProcessStart:
    words = (argv,) if isinstance(argv, str | bytes | os.PathLike) else argv
    mapping = environ if isinstance(environ, Mapping) else None
    return ProcessStart(
        tuple(_word(word) for word in words or ()),
        "" if executable is None else _word(executable),
        mapping,
    )


def _word(word: Any) -> str:
    return text(os.fspath(word) if isinstance(word, os.PathLike) else word)


START_EVENTS: Final[dict[str, Callable[..., ProcessStart]]] = {
    "subprocess.Popen": lambda executable, argv, cwd, environ: _made(executable, argv, environ),
    "os.system": lambda command: _made("sh", ("sh", "-c", command), None),
    "os.exec": _made,
    "os.posix_spawn": _made,
    "os.spawn": lambda mode, path, argv, environ: _made(path, argv, environ),
    "os.startfile": lambda path, operation: _made(path, (path,), None),
    "pty.spawn": lambda argv: _made(None, argv, None),
}
"""Audit events that start a process, and what is started, out of their arguments."""


_standing = threading.local()
"""``in_``: this thread starts a process of our own."""


@contextmanager
def stand_in_process() -> Iterator[None]:
    """Mark processes that this thread starts in the block as stand-ins of recorded ones."""
    _standing.in_ = True
    try:
        yield
    finally:
        _standing.in_ = False


def is_system_query() -> bool:
    """Does the standard library start it, to learn something about this machine?"""
    return calling_module(_THROUGH) in _ASKS


def is_covered_process(start: ProcessStart) -> bool:
    """Return whether Reenact starts in the process with the same recording.

    True for a stand-in as well, which does nothing.
    """
    if getattr(_standing, "in_", False):
        return True
    environ = os.environ if start.environ is None else start.environ
    paths = _variable(environ, "PYTHONPATH").split(os.pathsep)
    if not _variable(environ, RUN) or _INJECT not in paths:
        return False
    options = _options(start, environ)
    return options is not None and not _keeps_us_out(options)


def _variable(environ: Mapping[Any, Any], name: str) -> str:
    found = environ.get(name)
    if found is None and not isinstance(environ, type(os.environ)):
        found = environ.get(name.encode())
    return "" if found is None else text(found)


def _options(start: ProcessStart, environ: Mapping[Any, Any]) -> Sequence[str] | None:
    """Return the options of a Python interpreter; None for any other program."""
    program = start.executable or start.argv[0]
    if _PYTHON.fullmatch(os.path.basename(program)):
        return start.argv[1:]
    from shutil import which  # few programs get here, and all would pay for it

    path = which(program, path=_variable(environ, "PATH") or None)
    words = [] if path is None else _first_line(path)
    while words and os.path.basename(words[0]) in ("env", "-S"):
        del words[0]
    return words[1:] if words and _PYTHON.fullmatch(os.path.basename(words[0])) else None


def _first_line(path: str) -> list[str]:
    """The interpreter of a script, and its options."""
    try:
        with open(path, "rb") as file:
            first = file.readline(512)
            if first.rstrip() == b"#!/bin/sh":  # a path too long for the first line stands below
                first = b"#!" + file.readline(512).replace(b"'''exec'", b"")
    except OSError:
        return []
    if not first.startswith(b"#!"):
        return []
    return [word.strip("\"'") for word in first[2:].decode("utf-8", "replace").split()]


def _keeps_us_out(options: Sequence[str]) -> bool:
    words = iter(options)
    for word in words:
        if not word.startswith("-") or word in ("-", "--"):
            return False
        if word.startswith("--"):
            continue
        for at, letter in enumerate(word[1:], 2):
            if letter in _NOT_OURS:
                return True
            if letter in "cm":
                return False
            if letter in "WX":
                if at == len(word):
                    next(words, None)
                break
    return False


def uses_network(start: ProcessStart) -> str:
    """The program known to use the network that ``start`` begins; empty when there is none."""
    return next(filter(None, map(_tool, _commands(start.argv))), "")


def _commands(argv: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the commands in ``argv``, which can be the command line of a shell."""
    name = os.path.basename(argv[0]) if argv else ""
    if name not in _SHELLS or "-c" not in argv:
        yield argv
        return
    script = argv[argv.index("-c") + 1 :]
    for part in _WORDS.split(script[0] if script else ""):
        yield [word.strip("\"'") for word in part.split()]


def _tool(argv: Sequence[str]) -> str:
    words = list(argv)
    while words and ("=" in words[0] or os.path.basename(words[0]) in _BEFORE):
        del words[0]
    name = os.path.basename(words[0]) if words else ""
    if name == "git":
        return name if _GIT.intersection(words[1:4]) else ""
    return name if name in _TOOLS else ""
