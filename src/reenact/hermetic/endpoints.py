"""Network endpoints: which addresses, sockets and pipes lead out of the program.

A connection to a port that the program, or another process of the same run, has opened stays
inside. Lookups that the machine resolves itself (numbers, ``localhost``, its own name, its hosts
file) send nothing. Linux (``/proc`` and netlink) provides the owner of a socket or pipe, and
whether packets can leave the machine.

A run consists of the process in which Reenact started, its descendants, and, below ``reenact
run``, the processes that were started with the same ``REENACT_RUN``.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from reenact.hermetic.call_origin import calling_module

__all__ = [
    "descendants",
    "format_address",
    "has_routes",
    "ip_of",
    "is_answered_here",
    "is_isolated",
    "is_kernel",
    "is_loopback",
    "is_reverse_answered_here",
    "listens_here",
    "listens_on_path",
    "mark_run_start",
    "needs_lookup",
    "program_of",
    "receivers",
    "remember_bound",
    "run_listens",
    "run_listens_on_path",
    "running_processes",
    "stays_inside",
    "text",
]

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

    _Ip = IPv4Address | IPv6Address

_KERNEL = frozenset(
    number
    for name in ("AF_NETLINK", "AF_ALG", "AF_ROUTE", "AF_SYSTEM", "AF_KEY")
    if (number := getattr(socket, name, None)) is not None
)
_LOCAL_NAMES = frozenset({"", "localhost"})
_HOSTS = "/etc/hosts"

_bound: dict[int, ref[socket.socket]] = {}
"""Sockets that the program has bound. Freed sockets remove themselves."""

_paths: set[str] = set()
"""Paths of bound unix sockets. The program can pass them to a child and close its own end."""


def text(value: Any) -> str:
    """A host or a path, which programs give as text or as bytes."""
    return os.fsdecode(bytes(value)) if isinstance(value, bytes | bytearray) else str(value)


def format_address(family: int, address: Any) -> str:
    """``address`` for people and for the rules of a policy: ``host:port``, or the path."""
    if family in (socket.AF_INET, socket.AF_INET6) and isinstance(address, tuple):
        host, port = text(address[0]), address[1] if len(address) > 1 else 0
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if isinstance(address, bytes | str):
        return text(address).replace("\0", "@", 1)
    return repr(address)


def is_kernel(family: int) -> bool:
    """Do sockets of this family only talk to the kernel?"""
    return family in _KERNEL


def ip_of(host: Any) -> _Ip | None:
    """The address that ``host`` is written as; None for a name. ``localhost`` is 127.0.0.1."""
    # Deferred: most programs never connect to anything.
    from ipaddress import IPv4Address, IPv6Address, ip_address

    name = text(host).strip("[]").partition("%")[0].lower()
    if name in _LOCAL_NAMES:
        return IPv4Address("127.0.0.1")
    try:
        found: _Ip = ip_address(name)
    except ValueError:
        return None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found


def is_loopback(host: Any) -> bool:
    """Does a connection to ``host`` stay on this machine? To no address at all is to oneself."""
    found = ip_of(host)
    return found is not None and (found.is_loopback or found.is_unspecified)


# Ports and paths that the program listens on


def remember_bound(sock: socket.socket, address: Any) -> None:
    """Remember that the program binds ``sock``. Its port is looked up when it is needed."""
    if sock.family == socket.AF_UNIX:
        _paths.add(_absolute(address))
        return
    key = id(sock)
    try:
        _bound[key] = ref(sock, lambda _: _bound.pop(key, None))
    except TypeError:
        pass  # a bare socket of the C module cannot be tracked


def listens_here(host: Any, port: int, kind: int = socket.SOCK_STREAM) -> bool:
    """Does this process itself listen on ``port`` of ``host``, on a socket that it has bound while
    a session was in force? Then a call to it does not cross the edge of the program."""
    wanted = ip_of(host)
    return wanted is not None and any(
        _listens(sock, wanted, text(host), port, kind) for sock in _alive()
    )


def _alive() -> list[socket.socket]:
    return [sock for one in list(_bound.values()) if (sock := one()) is not None]


def _listens(sock: socket.socket, wanted: _Ip, host: str, port: int, kind: int) -> bool:
    if sock.family not in (socket.AF_INET, socket.AF_INET6) or sock.type != kind:
        return False
    try:
        name = sock.getsockname()
        if name[1] != port or not _takes_connections(sock):
            return False
    except OSError:  # closed
        return False
    bound = ip_of(name[0])
    here = wanted.is_loopback or wanted.is_unspecified
    if bound is None or bound.is_unspecified:
        return here
    by_name = here and bound.is_loopback and (host.lower() in _LOCAL_NAMES or wanted.is_unspecified)
    return bound == wanted or by_name


def _takes_connections(sock: socket.socket) -> bool:
    if sock.type != socket.SOCK_STREAM:
        return True
    asked = getattr(socket, "SO_ACCEPTCONN", None)
    return asked is None or bool(sock.getsockopt(socket.SOL_SOCKET, asked))


def listens_on_path(path: Any) -> bool:
    """Has the program bound a unix socket to ``path``?"""
    return _absolute(path) in _paths


def _absolute(path: Any) -> str:
    name = text(path)
    return name if name.startswith("\0") else os.path.abspath(name)


# Look-ups


def is_answered_here(host: Any, family: int = 0) -> bool:
    """Does this machine know the answer to a look-up of ``host`` without asking anybody?"""
    if host is None:
        return True
    name = text(host).rstrip(".").lower()
    if ip_of(name) is not None or name == socket.gethostname().lower():
        return True
    known = _hosts().get(name, frozenset())
    return bool(known) if family == 0 else family in known


def is_reverse_answered_here(host: Any) -> bool:
    """Variant for turning an address into a name."""
    found = ip_of(host)
    if found is None:
        return is_answered_here(host)
    return found.is_loopback or found.is_unspecified or str(found) in _hosts()


def _hosts() -> dict[str, frozenset[int]]:
    try:
        stamp = os.stat(_HOSTS).st_mtime_ns
    except OSError:
        return {}
    return _read_hosts(stamp)


@lru_cache(maxsize=1)
def _read_hosts(stamp: int) -> dict[str, frozenset[int]]:
    """The names and addresses of the hosts file, each with the families that it answers for."""
    found: dict[str, frozenset[int]] = {}
    with open(_HOSTS, encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.partition("#")[0].lower().split()
            address = ip_of(words[0]) if words else None
            if address is None:
                continue
            family = socket.AF_INET if address.version == 4 else socket.AF_INET6
            for word in (str(address), *words[1:]):
                found[word] = found.get(word, frozenset()) | {family}
    return found


_RUN = "REENACT_RUN"
_LISTEN = "0A"
_TABLES: dict[int, tuple[str, ...]] = {
    socket.SOCK_STREAM: ("tcp", "tcp6"),
    socket.SOCK_DGRAM: ("udp", "udp6"),
}
_first = 0


def mark_run_start() -> None:
    """Mark this process as the start of the run, unless a parent did so before it forked."""
    global _first
    _first = _first or os.getpid()


def run_listens(port: int, kind: int = socket.SOCK_STREAM) -> bool:
    """Does another process of the run listen on this port of the machine?"""
    return _is_open({inode for name in _TABLES.get(kind, ()) for inode in _bound_to(name, port)})


def run_listens_on_path(path: Any) -> bool:
    """Variant of :func:`run_listens_on` for a unix socket."""
    name = text(path).replace("\0", "@", 1)
    wanted = name if name.startswith("@") else os.path.abspath(name)
    inodes = {
        words[6]
        for line in _lines("/proc/net/unix")
        if len(words := line.split(maxsplit=7)) == 8 and words[7] in (name, wanted)
    }
    return _is_open(inodes)


def has_routes() -> bool:
    """Return whether a packet can leave the machine; True where that is unknown."""
    if not os.path.exists("/proc/net/route"):
        return True
    ways = [line.split()[0] for line in _lines("/proc/net/route")]
    with_six = [line.split()[-1] for line in _lines("/proc/net/ipv6_route", header=0)]
    return any(device != "lo" for device in (*ways, *with_six))


def running_processes() -> set[int]:
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
    """Yield the targets of the descriptors that stay open meanwhile."""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return  # it has ended, or belongs to a different user
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


ISOLATED: Final = "REENACT_ISOLATED"
"""Set to 1 by the launcher of ``--isolate``."""

_INTERNET = (socket.AF_INET, socket.AF_INET6)


def is_isolated() -> bool:
    """Does this process have no network but its own loopback?"""
    return os.environ.get(ISOLATED) == "1" and not has_routes()


def needs_lookup(sock: socket.socket, address: Any) -> bool:
    """Does ``address`` name a host, which has to be looked up, and not an address?"""
    return (
        sock.family in _INTERNET
        and isinstance(address, tuple)
        and len(address) > 1
        and isinstance(address[0], str | bytes | bytearray)
        and ip_of(address[0]) is None
    )


def stays_inside(sock: socket.socket, address: Any) -> bool:
    """Does it stay inside the program, or go to the kernel only?"""
    if sock.family == socket.AF_UNIX:
        if listens_on_path(address) or run_listens_on_path(address):
            return True
        # A child can query a manager of its parent that has ended, and handles the failure.
        gone = not os.path.exists(address)
        return gone and calling_module(frozenset()).startswith("multiprocessing.")
    if sock.family not in _INTERNET:
        return is_kernel(sock.family)
    host, port = address[:2]
    if listens_here(host, port, sock.type):
        return True
    return is_loopback(host) and run_listens(port, sock.type)
