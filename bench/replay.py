"""Reading a whole verified capture, against hashing its log."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from time import process_time

from bench.measure import Row, Setting, at_most, interleave, ratio
from bench.recordings import make
from reenact import open_recording

TITLE = "verified full replay"


def run(setting: Setting) -> Iterator[Row]:
    path = setting.folder / "capture"
    make(path, setting.scaled(100_000))
    times = interleave(
        {
            "sha256": lambda: _hash(path / "events.jsonl"),
            "envelopes": lambda: _replay(path, data=False),
            "data": lambda: _replay(path, data=True),
        },
        setting.rounds,
    )
    yield ratio(
        "replay, 1 KB events: / sha256 of the log", times["envelopes"], times["sha256"], at_most(3)
    )
    yield ratio("replay, 1 KB events, all data decoded", times["data"], times["sha256"])
    shutil.rmtree(path)


def _hash(log: Path) -> float:
    start = process_time()
    with log.open("rb") as file:
        hashlib.file_digest(file, "sha256").hexdigest()
    return process_time() - start


def _replay(path: Path, *, data: bool) -> float:
    start = process_time()
    with open_recording(path) as source:
        while event := source.next():
            if data:
                event.data  # noqa: B018 - looking is what costs
    return process_time() - start
