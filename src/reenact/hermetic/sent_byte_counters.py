"""Bytes that left through sockets during a replay past every check, found by the kernel's counters.

This is the last line of defence. It detects and does not prevent: when a replay opens, the number
of bytes written to each TCP connection of the process is noted, and compared at the end. It sees
code in C and writes to descriptors. Linux only, and not for unix sockets or UDP, which have no
such counter.

Other parts of the program can use their connections meanwhile. Connections on which a send
outside the session was seen are left out, and nothing is compared if another thread was sending
when the replay opened. Libraries that send in C from threads of their own are never seen doing
it, so the counters are not compared while one of them is loaded.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final, NamedTuple

from reenact._system import thread_frames
from reenact.engine.session.session import Session
from reenact.hermetic import connections, driver_statements
from reenact.hermetic.connections import Descriptor, descriptors, peer_outside, was_noted, watchers

__all__ = ["SentByteCounters"]

_AUTONOMOUS: Final = (
    "confluent_kafka",
    "couchbase",
    "grpc",
    "pulsar",
    "ray",
    "uvloop",
    "winloop",
    "zmq",
)
"""Modules of libraries that send in C from threads or loops of their own."""

_SIZE: Final = 232
_SENT, _RETRANSMITTED, _UNSENT = 200, 208, 144
"""Offsets in ``struct tcp_info``: bytes sent, bytes sent again (Linux 4.19), bytes still waiting."""


_SENDING: Final = frozenset(
    "send sendall sendto sendmsg sendfile write writelines execute executemany callproc commit "
    "rollback copy_from copy_to copy_expert exec_ exec_params exec_prepared send_query "
    "send_query_params send_query_prepared put_copy_data query".split()
)
"""Names of methods that send."""


def _others_are_sending() -> bool:
    """Is another thread perhaps inside a call that sends, begun before anybody could note it?

    Only the innermost Python frame of a thread is known, not the function in C that it calls. Idle
    threads wait in ``threading``, ``selectors`` or ``queue``, whose code has none of these names.
    """
    own = threading.get_ident()
    return any(_sends(frame) for ident, frame in thread_frames().items() if ident != own)


def _sends(frame: FrameType) -> bool:
    code = frame.f_code
    if not _SENDING.isdisjoint(code.co_names):
        return True
    if code.co_filename in (connections.__file__, driver_statements.__file__):
        return True
    # psycopg first queues a statement, and sends it while it waits for the result.
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "psycopg"


class _Count(NamedTuple):
    peer: str
    written: int


class SentByteCounters:
    """Counters of the process at the start of a session. At its end, ``found(peer, count)`` is called
    for each connection with unaccounted bytes."""

    def __init__(self, session: Session, found: Callable[[str, int], None]) -> None:
        self._found = found
        self._pid = os.getpid()
        self._new_count = session.settings.whole_process and not session.settings.allowed_drivers
        watchers.add(self)
        # From here on, sends outside the session are noted, except for sends in progress.
        self._is_certain = session.settings.whole_process or not _others_are_sending()
        self._before = _counts() if self._is_certain else {}

    def compare(self) -> None:
        """Report bytes that have left since the start."""
        try:
            # A forked child shares the connections of its parent.
            if self._is_certain and os.getpid() == self._pid:
                self._compare()
        finally:
            watchers.discard(self)  # last: without a watcher the notes are deleted

    def _compare(self) -> None:
        # A send is noted before its bytes leave, so the counters are read before the notes.
        for inode, (peer, written) in _counts().items():
            before = self._before.get(inode)
            if was_noted(inode) or (before is None and not self._new_count):
                continue  # used, or opened, by another part of the program
            count = written - (0 if before is None else before.written)
            if count > 0:
                self._found(peer, count)


def _counts() -> dict[int, _Count]:
    """Return the bytes written to each TCP connection to a peer outside the program, by inode."""
    if not sys.platform.startswith("linux") or any(name in sys.modules for name in _AUTONOMOUS):
        return {}
    found: dict[int, _Count] = {}
    for one in descriptors():
        count = _count(one)
        if count is not None:
            found[one.inode] = count
    return found


def _count(one: Descriptor) -> _Count | None:
    sock = one.sock
    if sock.family not in (socket.AF_INET, socket.AF_INET6) or sock.type != socket.SOCK_STREAM:
        return None
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SIZE)
    except OSError:
        return None
    if len(info) < _RETRANSMITTED + 8:
        return None  # an older kernel
    peer = peer_outside(sock)
    if peer is None:
        return None
    sent, again = struct.unpack_from("=QQ", info, _SENT)
    [unsent] = struct.unpack_from("=I", info, _UNSENT)
    return _Count(peer, sent - again + unsent)
