"""Calls of a recording in their lanes, with decoded message bodies."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import msgspec

from reenact.boundaries.http.encoding import look
from reenact.engine.call import DRAWS, Entry
from reenact.engine.decision.recorded_calls import RecordedCalls
from reenact.engine.request import kind_of, operation_of
from reenact.errors import ValueRefused
from reenact.format.canonical import decode
from reenact.format.event import Data, Event
from reenact.store.source import SeekableSource

__all__ = [
    "MARKS",
    "RecordedCall",
    "RunCalls",
    "decode_content",
    "read_run",
    "readable_body",
    "recorded_duration",
]

MARKS: Final = ("run_start", "run_end")
"""Kinds of steps that are not calls: start and end of the run."""


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call, or the beginning or the end of the run. ``closing`` is the event that completed it
    (often ``opening`` itself); None when nothing did."""

    opening: Event
    closing: Event | None
    kind: str
    """``llm``, ``tool``, ``network``, ``run_start`` …"""
    name: str
    """Operation in a word: ``openai/gpt-5``, ``search``, ``GET``."""

    @property
    def seq(self) -> int:
        return self.opening.seq

    @property
    def lane(self) -> str:
        return self.opening.lane

    @property
    def asked(self) -> Data:
        """Data of the event that started the call."""
        return self.opening.data

    @property
    def answered(self) -> Data:
        """Data of the event that completed the call, or an empty dict."""
        return {} if self.closing is None else self.closing.data

    @property
    def began(self) -> int:
        """Start in milliseconds.

        A call with a single event is written at its end, so its recorded duration is
        subtracted if there is one.
        """
        if self.closing is not self.opening:
            return self.opening.ts
        return self.opening.ts - recorded_duration(self.asked.get("timing"))

    @property
    def ended(self) -> int:
        """Time of the end, or of the start if the call was not completed."""
        return (self.closing or self.opening).ts

    def let_go(self) -> None:
        """Release the decoded data of both events."""
        self.opening.let_go()
        if self.closing is not None:
            self.closing.let_go()


class RunCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a recording, by lane, each lane in program order."""

    lanes: dict[str, list[RecordedCall]]
    left_out: Counter[str]
    """Draws, by their source: how many values."""


def read_run(source: SeekableSource, *, draws: bool = False) -> RunCalls:
    """Read all of ``source``, which must stay open while the steps are used.

    With ``draws``, draws are steps, too.
    """
    script = RecordedCalls(source)
    entries = script.keep_all()
    script.read_all()
    lanes: dict[str, list[RecordedCall]] = {}
    left_out: Counter[str] = Counter()
    for entry in entries:
        if entry.kind in DRAWS and not draws:
            left_out[entry.kind] += entry.count
        else:
            lanes.setdefault(entry.lane, []).append(_step(entry))
    for event in source:
        if event.type in MARKS:
            lane = lanes.setdefault(event.lane, [])
            lane.insert(0 if event.type == "run_start" else len(lane), _mark(event))
    return RunCalls(lanes=lanes, left_out=left_out)


def recorded_duration(timing: Any) -> int:
    """Return the milliseconds of a call from its ``timing`` field, or 0 if it has none."""
    found = timing.get("offsets") if isinstance(timing, dict) else None
    last = found[-1] if isinstance(found, list) and found else 0
    return last if type(last) is int and last > 0 else 0


def _mark(event: Event) -> RecordedCall:
    return RecordedCall(opening=event, closing=event, kind=event.type, name="")


def _step(entry: Entry) -> RecordedCall:
    event = entry.opening
    return RecordedCall(
        opening=event,
        closing=entry.closing,
        kind=entry.kind or kind_of(event.type, event.data),
        name=entry.operation or operation_of(event.type, event.data),
    )


def readable_body(body: Any, headers: Any) -> Any:
    """Decode a body: JSON as a value, text as text."""
    if isinstance(body, bytes):
        coding = _coding(headers)
        body = (decode_content(body, coding) if coding else None) or body
        try:
            body = body.decode("utf-8")
        except UnicodeDecodeError:
            return body
    if not isinstance(body, str) or body.lstrip()[:1] not in ("{", "["):
        return body
    try:
        return decode(body.encode("utf-8", "surrogatepass"))
    except ValueRefused:
        return body


def decode_content(body: bytes, coding: str) -> bytes | None:
    """Return the decoded body, or None if it cannot be decoded completely."""
    seen = look(body, coding)
    return seen.text if seen is not None and seen.end == "whole" else None


def _coding(headers: Any) -> str:
    for pair in headers if isinstance(headers, list) else ():
        if isinstance(pair, list) and len(pair) == 2 and str(pair[0]).lower() == "content-encoding":
            return str(pair[1])
    return ""
