"""Telling people once, and not again until it has been well in between."""

from __future__ import annotations

import threading

from reenact.store.warning import Warn

__all__ = ["Notices"]


class Notices:
    """Thread-safe. ``last`` is the last thing that is not well."""

    def __init__(self, warn: Warn) -> None:
        self._warn = warn
        self._lock = threading.Lock()
        self._open: dict[str, str] = {}

    @property
    def last(self) -> str:
        with self._lock:
            return next(reversed(self._open.values()), "")

    def note(self, topic: str, text: str) -> None:
        """Remember it for whoever asks, and say nothing."""
        with self._lock:
            self._open.pop(topic, None)
            self._open[topic] = text

    def warn(self, topic: str, text: str) -> None:
        """Say it, unless something of that topic has been said and is still so."""
        with self._lock:
            known = topic in self._open
            self._open.pop(topic, None)
            self._open[topic] = text
        if not known:
            self._warn(text)

    def well(self, topic: str) -> None:
        """It is well again."""
        with self._lock:
            self._open.pop(topic, None)
