"""Does it leave the program? Where the edge runs for sockets."""

from __future__ import annotations

import os
import socket
from typing import Any, Final

from reenact.hermetic.addresses import (
    ip_of,
    is_kernel,
    is_loopback,
    listens_here,
    listens_on_path,
)
from reenact.hermetic.kinship import has_routes, kin_listens, kin_listens_on_path
from reenact.hermetic.origin import caller

__all__ = ["has_name", "is_isolated", "stays"]

ISOLATED: Final = "REENACT_ISOLATED"
"""Set to 1 by the launcher of ``--isolate``."""

_INTERNET = (socket.AF_INET, socket.AF_INET6)


def is_isolated() -> bool:
    """Does this process have no network but its own loopback?"""
    return os.environ.get(ISOLATED) == "1" and not has_routes()


def has_name(sock: socket.socket, address: Any) -> bool:
    """Does ``address`` name a host, which has to be looked up, and not an address?"""
    return (
        sock.family in _INTERNET
        and isinstance(address, tuple)
        and len(address) > 1
        and isinstance(address[0], str | bytes | bytearray)
        and ip_of(address[0]) is None
    )


def stays(sock: socket.socket, address: Any) -> bool:
    """Does it stay inside the program, or go to the kernel only?"""
    if sock.family == socket.AF_UNIX:
        if listens_on_path(address) or kin_listens_on_path(address):
            return True
        # A child asks after a manager of its parent's that has ended, and takes no for an answer.
        gone = not os.path.exists(address)
        return gone and caller(frozenset()).startswith("multiprocessing.")
    if sock.family not in _INTERNET:
        return is_kernel(sock.family)
    host, port = address[:2]
    if listens_here(host, port, sock.type):
        return True
    return is_loopback(host) and kin_listens(port, sock.type)
