"""A recording of a few hundred bytes per file, and what reading it gives."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reenact import Draft, Redactor, open_recording, verify
from reenact.errors import RecordingError
from reenact.format.manifest import Manifest
from reenact.store.recording import make_seed
from reenact.store.sinks.base import Options
from reenact.store.sinks.directory import DirectorySink
from reenact.store.sinks.tape import TapeSink
from tests.clocks import start_clock

__all__ = ["Snapshot", "outcome", "read", "small_drafts", "start_small", "write_small"]

Snapshot = tuple[Manifest, list[tuple[Any, ...]]]


def small_drafts() -> list[Draft]:
    """A plain event, one with a blob, one that is stored as a delta, one in another lane."""
    chance = random.Random(5)
    text = "".join(chance.choices("abcdefgh", k=420))
    request = {"provider": "p", "model": "m", "inputHash": "h", "text": text, "note": "n" * 60}
    return [
        Draft(type="tool_call", data={"name": "f", "args": [1.5, "ü"], "callId": "c"}, ts=1),
        Draft(type="llm_request", data=request, ts=2, op="chat"),
        Draft(type="llm_request", data={**request, "more": True}, ts=3, op="chat"),
        Draft(
            type="tool_result",
            data={"callId": "c", "ok": True, "result": b"\0\1"},
            ts=4,
            lane="0.1",
            parent=1,
        ),
    ]


def start_small(path: Path, drafts: list[Draft] | None = None) -> DirectorySink | TapeSink:
    clock = start_clock()
    options = Options(redactor=Redactor("none"), durability="none", blob_threshold=400)
    tape = path.suffix == ".jsonl"
    sink = (TapeSink if tape else DirectorySink)(path, clock=clock, options=options)
    log = "tape" if tape else "events.jsonl"
    sink.start(make_seed(clock=clock, redactor=options.redactor, log=log))
    for draft in small_drafts() if drafts is None else drafts:
        sink.append(draft)
    return sink


def write_small(path: Path, drafts: list[Draft] | None = None) -> Manifest:
    return start_small(path, drafts).finalize()


def read(path: Path) -> Snapshot:
    """Everything a reader can see, after everything has been checked."""
    verify(path)
    with open_recording(path) as source:
        events = [(e.seq, e.ts, e.type, e.lane, e.parent, e.data) for e in source]
        return source.manifest(), events


def outcome(path: Path, original: Snapshot, look: Callable[[Path], Snapshot] = read) -> type:
    """The exact type of the error that reading gives; ``Snapshot`` when it is provably harmless.

    Any other exception goes through: the test fails.
    """
    try:
        found = look(path)
    except RecordingError as error:
        return type(error)
    assert found == original
    return tuple
