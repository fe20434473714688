"""Checks of sends on open connections that lead out of the program.

The audit hook refuses new connections, but no event is raised for a send on a connection that was
opened before. So every way to send through Python is checked: methods of sockets, TLS sockets and
asyncio transports, writes to the descriptor of a socket, and files made from a socket or its
descriptor. Writes to pipes pass here as well.

Transports are checked in addition to their sockets, because asyncio closes a connection whose
socket raises, and other parts of the program can be using it. Files are checked when they are
written to, not only when they are flushed: otherwise the contents of their buffer would leave
after the replay.
"""

from __future__ import annotations

import _io
import _socket
import os
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from types import ModuleType
from typing import Any, Final, NamedTuple

from reenact.engine.patches.patch import (
    DeferredPatch,
    DeferredPatches,
    Installable,
    Patch,
    TypePatch,
)
from reenact.engine.session.session import Session
from reenact.hermetic.endpoints import (
    format_address,
    ip_of,
    is_kernel,
    is_loopback,
    run_listens,
    stays_inside,
)

__all__ = [
    "Descriptor",
    "SendChecks",
    "allow_descriptor",
    "descriptors",
    "listens_in_c",
    "note_sent",
    "peer_outside",
    "was_noted",
    "watchers",
]

_INTERNET = (socket.AF_INET, socket.AF_INET6)
_LINUX = sys.platform.startswith("linux")
_FOLDER: Final = "/proc/self/fd" if _LINUX else "/dev/fd"
_MOST: Final = 10_000

_verdicts: dict[int, str | None] = {}
"""By the inode of a connected socket: the peer outside the program, None if the peer is inside."""

_allowed: set[int] = set()
"""Inodes of sockets that Reenact or an allowed library has connected."""

_noted: set[int] = set()
"""Inodes of sockets on which bytes were seen to leave legitimately while ``watchers`` looked on."""

watchers: set[object] = set()
"""Open replays that compare byte counters at their end, see :mod:`reenact.hermetic.sent_byte_counters`."""


def _inode(fd: int) -> int:
    """Return the inode of the socket ``fd``, or 0 on systems where sockets have no unique one."""
    return os.fstat(fd).st_ino if _LINUX else 0


def allow_descriptor(fd: int) -> None:
    """Let the program send on the socket ``fd`` from now on."""
    try:
        found = _inode(fd)
    except OSError:
        return  # closed: nothing can be sent
    if found:
        if len(_allowed) >= _MOST:
            _allowed.clear()
        _allowed.add(found)


def note_sent(fd: int) -> None:
    """Remember that bytes leave through ``fd`` with permission, or outside every session."""
    if not watchers:
        _noted.clear()
        return
    try:
        _noted.add(_inode(fd))
    except (OSError, TypeError, OverflowError):
        return  # closed


def was_noted(inode: int) -> bool:
    """Were bytes sent legitimately through the socket with this inode?"""
    return inode in _noted or inode in _allowed


def peer_outside(sock: Any) -> str | None:
    """Return the peer of the connected socket ``sock`` if it is outside the program."""
    try:
        fd = sock.fileno()
        found = _inode(fd)
        if found and found in _allowed:
            return None
        if found and found in _verdicts:
            return _verdicts[found]
        peer = sock.getpeername()
    except OSError:
        return None  # closed or not connected: sending fails
    verdict = None if _is_inside(sock, peer) else format_address(sock.family, peer)
    if found and sock.type == socket.SOCK_STREAM:  # others can be connected to another peer
        if len(_verdicts) >= _MOST:
            _verdicts.clear()
        _verdicts[found] = verdict
    return verdict


def _is_inside(sock: Any, peer: Any) -> bool:
    if sock.family == socket.AF_UNIX:
        # One end of a pair, or a connection that this side has accepted.
        return not peer or stays_inside(sock, peer)
    if sock.family not in _INTERNET:
        return is_kernel(sock.family)
    if stays_inside(sock, peer):
        return True
    if sock.type != socket.SOCK_STREAM:
        return False
    local = sock.getsockname()
    listening, names = _own_sockets()
    if local[1] in listening:  # accepted by a listener of this process
        return True
    if peer[1] in listening and (is_loopback(peer[0]) or ip_of(peer[0]) == ip_of(local[0])):
        return True
    return tuple(peer[:2]) in names or run_listens(local[1])


class Descriptor(NamedTuple):
    """A socket of this process, also one opened in C. ``sock`` is a duplicate of it."""

    fd: int
    inode: int
    sock: socket.socket


def descriptors() -> Iterator[Descriptor]:
    """Yield the sockets of this process, including those opened in C."""
    try:
        numbers = [int(name) for name in os.listdir(_FOLDER) if name.isdecimal()]
    except OSError:
        return
    for fd in numbers:
        try:
            status = os.fstat(fd)
            number = os.dup(fd) if stat.S_ISSOCK(status.st_mode) else -1
        except OSError:
            continue  # closed since it was listed
        if number < 0:
            continue
        try:
            copy = socket.socket(fileno=number)
        except OSError:
            os.close(number)
            continue
        with copy:
            yield Descriptor(fd, status.st_ino, copy)


def listens_in_c(port: int) -> bool:
    """Does this process listen on ``port``, on a socket that Python may not know?"""
    return port in _own_sockets()[0]


def _own_sockets() -> tuple[set[int], set[tuple[Any, ...]]]:
    """Return the ports on which this process listens, and the local ends of its connections."""
    listening: set[int] = set()
    names: set[tuple[Any, ...]] = set()
    for one in descriptors():
        if one.sock.family not in _INTERNET or one.sock.type != socket.SOCK_STREAM:
            continue
        try:
            name = one.sock.getsockname()
            if one.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                listening.add(name[1])
            else:
                names.add(tuple(name[:2]))
        except OSError:
            continue
    return listening, names


class SendChecks:
    """The patches that check each send.

    ``holding`` returns the session that decides here. ``refuse`` is called for a send to a peer
    outside the program and raises unless that is allowed. ``connects`` does the same for a new
    connection to a host and port that raises no audit event, ``pipes`` for a write to a pipe.
    """

    def __init__(
        self,
        holding: Callable[[], Session | None],
        refuse: Callable[[Session, str], None],
        connects: Callable[[Any, Any], None],
        pipes: Callable[[int], None],
    ) -> None:
        self._holding = holding
        self._refuse = refuse
        self._connects = connects
        self._pipes = pipes
        self._uvloop: list[Installable] = []
        self.patches: list[Installable] = [
            *(TypePatch(_socket.socket, name, self._socket_method) for name in _METHODS),
            Patch(socket.socket, "sendfile", self._socket_method),
            *(Patch(os, name, self._descriptor_function) for name in _FUNCTIONS),
            *(TypePatch(getattr(_io, name), "write", self._file_method) for name in _FILES),
            *(
                DeferredPatch("ssl", lambda module: module.SSLSocket, name, self._socket_method)
                for name in ("send", "sendall", "write", "sendfile", "do_handshake", "unwrap")
            ),
            # It has bound ``os.write``.
            DeferredPatch(
                "multiprocessing.connection",
                lambda module: module.Connection,
                "_send_bytes",
                self._connection_method,
            ),
            DeferredPatches("asyncio.selector_events", self._selector_patches),
            DeferredPatches("asyncio.sslproto", self._tls_patches),
            DeferredPatches("uvloop.loop", self._uvloop_patches),
        ]

    def check(self, sock: Any) -> None:
        """Raise if a replay is in force here and ``sock`` leads out of the program."""
        session = self._holding()
        if session is not None and (session.mode == "replay" or session.settings.refuses_drivers):
            peer = peer_outside(sock)
            if peer is not None:
                self._refuse(session, peer)
        note_sent(sock.fileno())

    def _socket_method(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def method(sock: Any, /, *args: Any, **kwargs: Any) -> Any:
            self.check(sock)
            return original(sock, *args, **kwargs)

        return method

    def _descriptor_function(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """``os.write`` and the like, whose first argument is a descriptor; the second of ``splice``."""
        position = 1 if original.__name__ == "splice" else 0

        @wraps(original)
        def function(*args: Any, **kwargs: Any) -> Any:
            self._check_descriptor(args[position] if len(args) > position else kwargs.get("dst"))
            return original(*args, **kwargs)

        return function

    def _check_descriptor(self, fd: Any) -> None:
        try:
            mode = os.fstat(fd).st_mode
        except (OSError, TypeError, ValueError):
            return  # the original raises what is wrong
        if stat.S_ISSOCK(mode):
            with socket.socket(fileno=os.dup(fd)) as sock:
                self.check(sock)
        elif stat.S_ISFIFO(mode):
            self._pipes(fd)

    def _connection_method(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A connection of multiprocessing, which may be a socket to another program."""

        @wraps(original)
        def method(connection: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not connection.closed:  # else the original raises
                self._check_descriptor(connection.fileno())
            return original(connection, *args, **kwargs)

        return method

    def _file_method(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """``write`` of a file, which may have been made of a socket or its descriptor."""

        @wraps(original)
        def write(file: Any, /, *args: Any, **kwargs: Any) -> Any:
            raw = _raw_of(file)
            if isinstance(raw, socket.SocketIO):
                sock = raw._sock  # type: ignore[attr-defined]
                if sock is not None:  # else it is closed
                    self.check(sock)
            elif isinstance(raw, _io.FileIO) and not raw.closed:
                self._check_descriptor(raw.fileno())
            return original(file, *args, **kwargs)

        return write

    def _transport_method(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def method(transport: Any, /, *args: Any, **kwargs: Any) -> Any:
            sock = transport.get_extra_info("socket")
            if sock is not None:
                self.check(sock)
            return original(transport, *args, **kwargs)

        return method

    def _selector_patches(self, module: ModuleType) -> list[Installable]:
        stream, datagrams = module._SelectorSocketTransport, module._SelectorDatagramTransport
        return [
            *self._own_methods(stream, ("write", "writelines")),
            *self._own_methods(datagrams, ("sendto",)),
        ]

    def _tls_patches(self, module: ModuleType) -> list[Installable]:
        return self._own_methods(module._SSLProtocolTransport, ("write", "writelines"))

    def _own_methods(self, owner: type, names: tuple[str, ...]) -> list[Installable]:
        there = [name for name in names if name in vars(owner)]
        return [Patch(owner, name, self._transport_method) for name in there]

    def _uvloop_patches(self, module: ModuleType) -> list[Installable]:
        """uvloop's transports are written in C and send there. Made once: see :class:`TypePatch`."""
        for name, methods in _UVLOOP.items() if not self._uvloop else ():
            owner: Any = getattr(module, name, type(None))
            wrap = self._loop_method if name == "Loop" else self._transport_method
            there = [method for method in methods if method in vars(owner)]
            self._uvloop += [TypePatch(owner, method, wrap) for method in there]
        return self._uvloop

    def _loop_method(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """``create_connection(factory, host, port, …)`` and the like connect in C."""

        @wraps(original)
        def method(loop: Any, factory: Any, *args: Any, **kwargs: Any) -> Any:
            if original.__name__ == "create_datagram_endpoint":
                host, port = kwargs.get("remote_addr") or (args[1:2] or (None,))[0] or (None, None)
            elif original.__name__ == "create_unix_connection":
                host, port = kwargs.get("path", args[0] if args else None), None
            else:
                host = kwargs.get("host", args[0] if args else None)
                port = kwargs.get("port", args[1] if len(args) > 1 else None)
            if host is not None:
                self._connects(host, port)
            return original(loop, factory, *args, **kwargs)

        return method


_METHODS = [
    name for name in ("send", "sendall", "sendto", "sendmsg") if hasattr(_socket.socket, name)
]
_FUNCTIONS = [name for name in ("write", "writev", "sendfile", "splice") if hasattr(os, name)]
_FILES = ("FileIO", "BufferedWriter", "BufferedRandom", "TextIOWrapper")
_UVLOOP = {
    "UVStream": ("write", "writelines"),
    "_SSLProtocolTransport": ("write", "writelines"),
    "UDPTransport": ("sendto",),
    "Loop": ("create_connection", "create_unix_connection", "create_datagram_endpoint"),
}


def _raw_of(file: Any) -> Any:
    """Return the file in the innermost layer of ``file``: without a buffer, without an encoding."""
    try:
        if isinstance(file, _io.TextIOWrapper):
            file = file.buffer
        return getattr(file, "raw", file)
    except ValueError:  # detached
        return None
