"""The patches for files, which are put in place when a session needs them, and not before."""

from __future__ import annotations

import threading

from reenact.engine.patches.patch import Installable
from reenact.engine.session.session import Session
from reenact.hermetic.guard import add_checks

__all__ = ["Files"]


class Files:
    """File boundary, which is installed and removed with the others and notified of every session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._installed: list[Installable] = []
        self._watches = False
        self._guards = False

    def install(self) -> None:
        """Do nothing: the first session that needs the file boundary installs it."""

    def opened(self, session: Session) -> None:
        """Install the patches that ``session`` needs."""
        if session.settings.scratch is not None:
            self._guard()
        if session.settings.files:
            self._watch()

    def _watch(self) -> None:
        """Install the patches for a session with file roots."""
        from reenact.boundaries.files.patches import file_patches

        with self._lock:
            if not self._watches:
                self._watches = True
                self._put(file_patches())

    def _guard(self) -> None:
        """Install the patches for a session with scratch folders."""
        from reenact.boundaries.files.write_guard import (
            CHECKS,
            patches,  # as above
        )

        with self._lock:
            if not self._guards:
                self._guards = True
                self._put(patches())
                add_checks(CHECKS)

    def _put(self, patches: list[Installable]) -> None:
        for patch in patches:
            patch.install()
            self._installed.append(patch)

    def remove(self) -> None:
        """Put the originals back. The guard, which is removed next, forgets the checks."""
        with self._lock:
            for patch in reversed(self._installed):
                patch.remove()
            self._installed = []
            self._watches = self._guards = False
