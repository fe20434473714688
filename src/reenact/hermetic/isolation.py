"""Isolation of a command in a network namespace with a loopback interface only (``--isolate``).

``python -I isolation.py -- CMD…`` enters the namespace and then becomes CMD. No packet of CMD or
its children, sent in C or in Python, reaches another machine or process outside. Unix sockets in
the file system, and connections that were open before, are not covered.

CMD runs in a user namespace of its own, even as root, without any capability, and with
no_new_privs: it can neither rejoin the network of the machine nor gain rights by running a
set-user-ID program.

Standard library only: this module is also run as a file.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Final

__all__ = [
    "HINT",
    "ISOLATED",
    "IsolationUnavailable",
    "isolate",
    "isolation_available",
    "isolation_obstacle",
    "main",
]

ISOLATED: Final = "REENACT_ISOLATED"
"""Set to 1 in the environment of CMD."""

_NEW_USER, _NEW_NET = 0x1000_0000, 0x4000_0000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1
_SET_NO_NEW_PRIVS, _BOUNDING_DROP, _AMBIENT, _AMBIENT_CLEAR = 38, 24, 47, 4
"""Of prctl(2), see linux/prctl.h."""
_CAPABILITY_VERSION = 0x2008_0522
_EINVAL = 22
HINT = (
    "run it where user namespaces are allowed (sysctl user.max_user_namespaces; in a container: "
    "with CAP_SYS_ADMIN), or without --isolate, where the other two rings hold"
)


class IsolationUnavailable(Exception):
    """Isolation is not available on this machine. ``str(error)`` is the reason."""

    def __init__(self, message: str, hint: str = HINT) -> None:
        super().__init__(message)
        self.hint = hint


def isolate() -> None:
    """Leave the network for good. Raises :class:`Impossible`; the process is then good for nothing
    but to say so."""
    if not sys.platform.startswith("linux"):
        raise IsolationUnavailable(
            f"isolation needs Linux, and this is {sys.platform}",
            "leave --isolate out, where the other two rings hold, or use a container",
        )
    try:
        _leave()
        _bring_up("lo")
        _drop_rights()
    except OSError as error:
        raise IsolationUnavailable(f"no network namespace can be made here: {error}") from error


def _leave() -> None:
    user, group = os.geteuid(), os.getegid()
    # Root does this too: in a namespace of the machine's own user namespace, root could return to
    # its network.
    _unshare(_NEW_USER | _NEW_NET)
    # In the new user namespace everybody keeps the number that they have.
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")


def _drop_rights() -> None:
    """Give up all capabilities for good. Interfaces are configured before: that needs one.

    The bounding set comes first. Otherwise a program that root executes would get them all again.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    capability = 0
    while libc.prctl(_BOUNDING_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    if ctypes.get_errno() != _EINVAL or not capability:  # EINVAL: there is no such capability
        raise _failure()
    _prctl(libc, _AMBIENT, _AMBIENT_CLEAR)
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    if libc.capset(header, bytes(24)) != 0:
        raise _failure()
    _prctl(libc, _SET_NO_NEW_PRIVS, 1)


def _prctl(libc: ctypes.CDLL, option: int, value: int) -> None:
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise _failure()


def _failure() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def _unshare(flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        raise _failure()


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _bring_up(interface: str) -> None:
    """A server and a client in one program find each other, as they do without isolation."""
    from fcntl import ioctl  # there is none where isolation is refused

    name = interface.encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        answer = ioctl(sock, _GET_FLAGS, struct.pack("16sh14x", name, 0))
        _, flags = struct.unpack("16sh14x", answer)
        ioctl(sock, _SET_FLAGS, struct.pack("16sh14x", name, flags | _UP))


def isolation_obstacle() -> str:
    """Why a command cannot be isolated here; empty when it can. Tried in a process of its own."""
    if not hasattr(os, "fork"):
        return f"isolation needs Linux, and this is {sys.platform}"
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, _attempt().encode("utf-8", "replace"))
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


def _attempt() -> str:
    try:
        isolate()
    except IsolationUnavailable as error:
        return str(error)
    return ""


def isolation_available() -> bool:
    """Can a command be isolated here?"""
    return not isolation_obstacle()


def main(argv: Sequence[str]) -> int:
    """Become the command after ``--``. Returns only when that fails: 2, or 126 and 127 as shells do
    for a command that cannot be run or is not there."""
    command = list(argv[1:] if argv[:1] == ["--"] else argv)
    if not command:
        return _fail("no command", "python isolation.py -- CMD…", 2)
    try:
        isolate()
    except IsolationUnavailable as error:
        return _fail(str(error), error.hint, 2)
    try:
        os.execvpe(command[0], command, {**os.environ, ISOLATED: "1"})
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        return _fail(
            f"{command[0]}: {error.strerror}", "is it on the PATH?", 127 if missing else 126
        )


def _fail(message: str, hint: str, code: int) -> int:
    sys.stderr.write(f"reenact: error: {message}\nhint: {hint}\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
