"""Slots: one folder for each process of an app, under a shared folder.

A slot is claimed with a file lock, which the kernel releases when the process ends. The slot stores
the agent's id, so a restarted app is the same agent and reports the replays that it had begun.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reenact._system import entropy
from reenact.exchange.model import MAX_ID
from reenact.store.files import make_private_folder, replace_file, try_lock

__all__ = ["Slot", "claim_slot", "orphans"]

_LOCK = "lock"
_IDENTITY = "agent"
_ID = re.compile(rf"[A-Za-z0-9._~:@-]{{1,{MAX_ID}}}")
_MOST = 10_000


class Slot:
    """Claimed folder with the id of its agent."""

    def __init__(self, folder: Path, fd: int, agent_id: str) -> None:
        self.folder = folder
        self.agent_id = agent_id
        self._fd = fd

    def release(self) -> None:
        """Release the slot. In a forked child, the parent keeps the lock."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def claim_slot(parent: Path) -> Slot:
    """Claim the first free slot. Raises OSError."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in range(1, _MOST):
        folder = parent / str(number)
        make_private_folder(folder)
        fd = _try(folder)
        if fd is not None:
            try:
                return Slot(folder, fd, _identity(folder))
            except BaseException:
                os.close(fd)
                raise
    raise FileExistsError(f"{parent} has {_MOST} slots, and all are taken")


def orphans(parent: Path) -> Iterator[Path]:
    """Yield the unclaimed slots. Each is claimed until the next one is requested."""
    for folder in sorted(path for path in parent.iterdir() if (path / _LOCK).exists()):
        with _claimed(folder) as free:
            if free:
                yield folder


@contextmanager
def _claimed(folder: Path) -> Iterator[bool]:
    fd = _try(folder)
    try:
        yield fd is not None
    finally:
        if fd is not None:
            os.close(fd)


def _try(folder: Path) -> int | None:
    fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if try_lock(fd):
            return fd
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _identity(folder: Path) -> str:
    path = folder / _IDENTITY
    try:
        known = path.read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        known = ""
    if _ID.fullmatch(known):
        return known
    fresh = f"agt_{entropy(12).hex()}"
    replace_file(path, fresh.encode())
    return fresh
