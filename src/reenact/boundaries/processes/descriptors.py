"""Writing to file descriptors and closing them, where others may have been quicker."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable

__all__ = ["close_quietly", "is_readable", "write_all"]


def write_all(fd: int, data: bytes) -> bool:
    """Write all of ``data``; False when nobody reads any more. Other failures to write are the
    reader's business as well: a full disk must not end the process that we relay."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            _wait_writable(fd)
        except OSError:
            return False
    return True


def _wait_writable(fd: int) -> None:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    poll.poll()


def is_readable(fd: int) -> bool:
    """Would reading ``fd`` return at once?"""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def close_quietly(fds: Iterable[int]) -> None:
    """Close what may be closed already."""
    for fd in fds:
        try:
            os.close(fd)
        except OSError:
            pass  # it is
