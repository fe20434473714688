"""Captures to read back."""

from __future__ import annotations

from pathlib import Path

from bench.traffic import chat_requests
from reenact import Draft, Redactor, start_recording
from reenact.engine.call import Call
from reenact.engine.decision.machine import call_identity
from reenact.policy.matching import Comparer, Rules

__all__ = ["COMPARER", "REDACTOR", "call", "make", "make_calls"]

REDACTOR = Redactor("default")
COMPARER = Comparer(Rules(), REDACTOR)
"""What the built-in policy compares calls with."""


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


def call(number: int) -> Call:
    """The call that event ``number`` of :func:`make_calls`, from 0, was recorded of."""
    return Call(
        type="nondeterministic",
        capability="net.fetch",
        operation="forecast",
        request={"city": "Bern", "day": number},
        source="network",
    )


def make_calls(path: Path, count: int) -> None:
    """A capture of ``count`` calls in one lane, as the boundary of a function writes them."""
    recording = start_recording(path, redaction=Redactor("none"), durability="none", seal=False)
    append = recording.sink.append
    for number in range(count):
        asked = call(number)
        data = {
            "source": asked.source,
            "op": asked.operation,
            "key": COMPARER.key(call_identity(asked)),
            "request": asked.request,
            "response": {"celsius": number % 30, "sky": "clear"},
            "valueHash": f"sha256:{number:064x}",
        }
        append(Draft(type="nondeterministic", data=data, ts=number))
    recording.finish()
