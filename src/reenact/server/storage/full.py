"""No room left on the disk: told in one way, wherever it shows."""

from __future__ import annotations

import errno
import sqlite3
from typing import Final

from reenact.server.problems import Problem

__all__ = ["is_full", "storage_full"]

_ERRNO: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SQLITE: Final = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE}
)
_POSTGRES: Final = "53100"
_RETRY: Final = 5
"""Seconds: somebody has to make room first."""


def is_full(error: BaseException | None) -> bool:
    """Does ``error``, of a file or of a database's driver, say that there is no room?"""
    if isinstance(error, OSError):
        return error.errno in _ERRNO
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", None) in _SQLITE
    return getattr(error, "sqlstate", None) == _POSTGRES


def storage_full() -> Problem:
    """What is answered then. Nothing of the request was kept."""
    return Problem(
        "storage_full",
        "the server has no room left to store anything",
        hint="make room on its disk; agents keep what they have, and send it then",
        retry_after=_RETRY,
    )
