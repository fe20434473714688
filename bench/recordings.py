"""Captures to read back."""

from __future__ import annotations

from pathlib import Path

from bench.traffic import chat_requests
from reenact import Draft, Redactor, start_recording

__all__ = ["make"]


def make(path: Path, count: int) -> None:
    """A capture of ``count`` events with lines of about 1 KB, none of which repeats the last."""
    bodies = chat_requests(750, min(count, 2_000))
    recording = start_recording(path, redaction=Redactor("none"), durability="none", seal=False)
    append = recording.sink.append
    for number in range(count):
        data = {
            "key": f"sha256:{number:064x}",
            "name": "chat",
            "callId": f"call_{number}",
            "args": bodies[number % len(bodies)],
        }
        append(Draft(type="tool_call", data=data, ts=number))
    recording.finish()
