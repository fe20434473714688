"""The patches for files, which are put in place when a session has declared roots, and not before."""

from __future__ import annotations

import threading

from reenact.engine.patches import Installable
from reenact.engine.session import Session

__all__ = ["Files"]


class Files:
    """Installed and removed with the other boundaries, and told of every session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._installed: list[Installable] = []

    def install(self) -> None:
        """Nobody has said yet whether they are needed."""

    def opened(self, session: Session) -> None:
        """A session has opened."""
        if not session.settings.files:
            return
        from reenact.boundaries.files.seams import seams  # few declare roots, and all would pay

        with self._lock:
            if not self._installed:
                self._installed = seams()
                for patch in self._installed:
                    patch.install()

    def remove(self) -> None:
        """Put the originals back."""
        with self._lock:
            for patch in reversed(self._installed):
                patch.remove()
            self._installed = []
