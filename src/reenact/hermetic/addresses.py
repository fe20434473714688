"""Addresses that a program names: how they are written, and which of them lead nowhere else.

A connection to a port that the program itself has opened does not cross its edge. Look-ups that
this machine answers by itself (numbers, ``localhost``, its own name, its hosts file) send nothing.
"""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any
from weakref import ref

__all__ = [
    "ip_of",
    "is_answered_here",
    "is_kernel",
    "is_loopback",
    "is_reverse_answered_here",
    "listens_here",
    "listens_on_path",
    "remember",
    "text",
    "written",
]

_Ip = IPv4Address | IPv6Address

_KERNEL = frozenset(
    number
    for name in ("AF_NETLINK", "AF_ALG", "AF_ROUTE", "AF_SYSTEM", "AF_KEY")
    if (number := getattr(socket, name, None)) is not None
)
_LOCAL_NAMES = frozenset({"", "localhost"})
_HOSTS = "/etc/hosts"

_bound: dict[int, ref[socket.socket]] = {}
"""The sockets that the program has bound. Those that are gone take themselves out."""

_paths: set[str] = set()
"""Where it has bound unix sockets: it may hand them to a child and close its own end."""


def text(value: Any) -> str:
    """A host or a path, which programs give as text or as bytes."""
    return os.fsdecode(bytes(value)) if isinstance(value, bytes | bytearray) else str(value)


def written(family: int, address: Any) -> str:
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


# What the program listens on


def remember(sock: socket.socket, address: Any) -> None:
    """The program binds ``sock``. Which port that gave is asked when it matters."""
    if sock.family == socket.AF_UNIX:
        _paths.add(_absolute(address))
        return
    key = id(sock)
    try:
        _bound[key] = ref(sock, lambda _: _bound.pop(key, None))
    except TypeError:
        pass  # a bare socket of the C module, which nobody can follow: its port is not known


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
    """The same where an address is turned into a name."""
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
