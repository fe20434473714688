"""The clock that writers of recordings take, and time that no session records or replays.

The only module of the tests that imports the package's private clock.
"""

from __future__ import annotations

from reenact._system import Clock, monotonic, pause, start_clock

__all__ = ["Clock", "monotonic", "pause", "start_clock"]
