"""Facts about sockets and pipes from Linux: which process holds them, and where packets can go.

The run is the process in which Reenact began, everything below it, and, below ``reenact run``, what
was started with the same ``REENACT_RUN``.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any, Final

from reenact.hermetic.addresses import ip_of, is_loopback, text

__all__ = [
    "begin",
    "descendants",
    "has_routes",
    "kin_listens",
    "kin_listens_on_path",
    "program_of",
    "receivers",
    "running",
]

_RUN = "REENACT_RUN"
_LISTEN = "0A"
_TABLES: dict[int, tuple[str, ...]] = {
    socket.SOCK_STREAM: ("tcp", "tcp6"),
    socket.SOCK_DGRAM: ("udp", "udp6"),
}
_first = 0


def begin() -> None:
    """This process is where the run begins, unless a parent of it said so before it forked."""
    global _first
    _first = _first or os.getpid()


def kin_listens(port: int, kind: int = socket.SOCK_STREAM) -> bool:
    """Does another process of the run listen on this port of the machine?"""
    return _is_open({inode for name in _TABLES.get(kind, ()) for inode in _bound_to(name, port)})


def kin_listens_on_path(path: Any) -> bool:
    """The same for a unix socket."""
    name = text(path).replace("\0", "@", 1)
    wanted = name if name.startswith("@") else os.path.abspath(name)
    inodes = {
        words[6]
        for line in _lines("/proc/net/unix")
        if len(words := line.split(maxsplit=7)) == 8 and words[7] in (name, wanted)
    }
    return _is_open(inodes)


def has_routes() -> bool:
    """Is there a way for a packet to leave? True where nobody tells."""
    if not os.path.exists("/proc/net/route"):
        return True
    ways = [line.split()[0] for line in _lines("/proc/net/route")]
    with_six = [line.split()[-1] for line in _lines("/proc/net/ipv6_route", header=0)]
    return any(device != "lo" for device in (*ways, *with_six))


def running() -> set[int]:
    """Return the running processes, an empty set on systems without /proc."""
    return set(_pids())


def descendants(pid: int, among: Collection[int]) -> set[int]:
    """Return the processes of ``among`` that ``pid`` or a descendant of it has started."""
    parents: dict[int, int] = {}
    for one in among:
        while one not in parents and (parent := _parent(one)) is not None:
            parents[one] = parent
            one = parent
    return {one for one in among if pid in _line(one, parents)}


def program_of(pid: int) -> str:
    """Return the name of the program that runs as ``pid``, cut after 15 characters by Linux. Empty if
    it has ended."""
    return "".join(_lines(f"/proc/{pid}/comm", header=0))


def receivers(fd: int, among: Collection[int]) -> set[int] | None:
    """Return the processes of ``among`` that can receive what is sent through the pipe or connected
    socket ``fd``, or None if the system does not provide that."""
    if not os.path.isdir("/proc/self/fd"):
        return None
    status = os.fstat(fd)
    if stat.S_ISFIFO(status.st_mode):
        return _holders({f"pipe:[{status.st_ino}]"}, among)
    if not stat.S_ISSOCK(status.st_mode):
        return set()
    with socket.socket(fileno=os.dup(fd)) as sock:
        if sock.family == socket.AF_UNIX:
            return _unix_receivers(sock, status.st_ino, among)
        if sock.family in (socket.AF_INET, socket.AF_INET6) and sock.type == socket.SOCK_STREAM:
            return _holders({f"socket:[{one}]" for one in _tcp_peers(sock)}, among)
    return None


def _holders(links: set[str], among: Collection[int]) -> set[int]:
    return {pid for pid in among if any(_can_read(pid, link) for link in links)}


def _can_read(pid: int, link: str) -> bool:
    """Does ``pid`` have a descriptor of ``link`` that it can read from?"""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return False  # it has ended, or belongs to another user
    for name in names:
        with suppress(OSError):  # closed since it was listed
            path = f"{folder}/{name}"
            if os.readlink(path) == link and os.lstat(path).st_mode & stat.S_IRUSR:
                return True
    return False


def _unix_receivers(sock: socket.socket, inode: int, among: Collection[int]) -> set[int] | None:
    peer = _peer_of(inode)
    if peer is None:
        return None
    found = _holders({f"socket:[{peer}]"}, among) if peer else set()
    if not found and sock.getpeername():
        # Not accepted yet: the process that listens.
        answers = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        found = {_CREDENTIALS.unpack(answers)[0]} & set(among)
    return found


# Relied on (Linux 3.3): ``unix_diag`` of netlink reports the inode of a socket's peer, which no file of
# /proc contains. tests/unit/hermetic/test_kinship.py notices when this changes.

_CREDENTIALS: Final = struct.Struct("=iII")
_DIAGNOSTICS: Final = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY: Final = 20  # SOCK_DIAG_BY_FAMILY
_HEADER: Final = struct.Struct("=IHHII")
_QUERY: Final = struct.Struct("=BBHIIIII")
_FOUND: Final = 16
"""Bytes of ``struct unix_diag_msg``."""
_ALL, _SHOW_PEER, _PEER = 0xFFFF_FFFF, 4, 2


def _peer_of(inode: int) -> int | None:
    """Return the inode of the peer of the unix socket ``inode``, 0 if it has none, None if the kernel
    does not report it."""
    query = _QUERY.pack(socket.AF_UNIX, 0, 0, _ALL, inode, _SHOW_PEER, _ALL, _ALL)
    header = _HEADER.pack(_HEADER.size + len(query), _BY_FAMILY, 1, 1, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _DIAGNOSTICS) as kernel:
            kernel.sendto(header + query, (0, 0))
            reply = kernel.recv(65_536)
    except OSError:
        return None
    length, kind = _HEADER.unpack_from(reply)[:2]
    if kind != _BY_FAMILY:
        return None
    at = _HEADER.size + _FOUND
    while at + 4 <= min(length, len(reply)):
        size, attribute = struct.unpack_from("=HH", reply, at)
        if attribute == _PEER:
            return int(struct.unpack_from("=I", reply, at + 4)[0])
        at += max(4, (size + 3) & ~3)
    return 0


def _tcp_peers(sock: socket.socket) -> set[str]:
    """Return the inodes of the other end of ``sock`` on this machine. Before the connection is accepted
    these are the inodes of the listening sockets."""
    try:
        own, peer = sock.getsockname(), sock.getpeername()
    except OSError:
        return set()  # closed
    if ip_of(own[0]) != ip_of(peer[0]) and not is_loopback(peer[0]):
        return set()  # another machine
    ends = f":{peer[1]:04X}", f":{own[1]:04X}"
    tables = _TABLES[socket.SOCK_STREAM]
    rows = [line.split() for table in tables for line in _lines(f"/proc/net/{table}")]
    found = {row[9] for row in rows if (row[1][-5:], row[2][-5:]) == ends} - {"0"}
    return found or {row[9] for row in rows if row[1][-5:] == ends[0] and row[3] == _LISTEN}


def _bound_to(table: str, port: int) -> Iterator[str]:
    for line in _lines(f"/proc/net/{table}"):
        words = line.split()
        if words[1].endswith(f":{port:04X}") and (table[:3] == "udp" or words[3] == _LISTEN):
            yield words[9]


def _lines(path: str, header: int = 1) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()[header:]
    except OSError:  # not Linux, or hidden
        return []


def _is_open(inodes: set[str]) -> bool:
    """Does another process of the run hold one of these sockets?"""
    links = {f"socket:[{inode}]" for inode in inodes}
    return bool(links) and any(not links.isdisjoint(_links(pid)) for pid in _kin())


def _links(pid: int) -> Iterator[str]:
    """What its descriptors are, of those that stay open meanwhile."""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return  # it has ended, or belongs to somebody else
    for name in names:
        with suppress(OSError):  # closed since it was listed
            yield os.readlink(f"{folder}/{name}")


def _kin() -> set[int]:
    """The other processes of the run."""
    own = os.getpid()
    parents = {pid: parent for pid in _pids() if (parent := _parent(pid)) is not None}
    above = set(_line(own, parents))
    roots = {own, *({_first} & above), *_upwards(own, parents)}
    found = {pid for pid in parents if roots & {pid, *_line(pid, parents)}}
    return found - {own}


def _pids() -> Iterator[int]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    yield from (int(name) for name in names if name.isdecimal())


def _parent(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None  # it has just ended


def _line(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """The parent of ``pid``, its parent, and so on."""
    while (parent := parents.get(pid)) is not None and parent > 0:
        yield parent
        pid = parent


def _upwards(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """The ancestors of ``pid`` that were started in the same run."""
    run = os.environ.get(_RUN)
    for parent in _line(pid, parents) if run else ():
        if not _has_variable(parent, f"{_RUN}={run}"):
            return
        yield parent


def _has_variable(pid: int, assignment: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return os.fsencode(assignment) in file.read().split(b"\0")
    except OSError:
        return False  # somebody else's
