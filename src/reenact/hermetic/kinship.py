"""What Linux tells of the network: which process holds which socket, and where packets can go.

The run is the process in which Reenact began, everything below it, and, below ``reenact run``, what
was started with the same ``REENACT_RUN``.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from reenact.hermetic.addresses import text

__all__ = ["begin", "has_routes", "kin_listens", "kin_listens_on_path"]

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
