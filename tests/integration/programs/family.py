"""Several processes of one capture: PLACE SEED PIPE FORKED SPAWNED.

The first process records, and has FORKED children by ``os.fork`` and SPAWNED ones by
multiprocessing. All append in a tight loop and acknowledge each event, until stdin is closed; then
the first process waits for the others and finalises.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import select
import sys
from pathlib import Path
from typing import Any

from reenact import Redactor, start_recording
from reenact.format.event import Draft
from reenact.store.sinks.base import Options
from reenact.store.sinks.segments import join_directory
from tests.integration.programs.acknowledge import Acknowledge
from tests.integration.stories import long_story

OPTIONS = Options(redactor=Redactor("none"), durability="none")


def is_over(stop: int) -> bool:
    """Whether the other end of the pipe ``stop`` has been closed."""
    ready, _, _ = select.select([stop], [], [], 0)
    return bool(ready)


def append_until(stop: int, end: Any, name: str, lane: str, seed: str, pipe: str) -> None:
    """Every third event has the one before it as parent."""
    acknowledge = Acknowledge(pipe, name)
    seq = 0
    for index, draft in enumerate(long_story(f"{seed} {lane}", lane=lane)):
        if is_over(stop):
            return
        parent = seq if index % 3 == 2 else None
        seq = end.append(
            Draft(
                type=draft.type,
                data=draft.data,
                ts=draft.ts,
                lane=lane,
                parent=parent,
                op=draft.op,
            )
        )
        acknowledge(index)


def spawned(stop: Any, place: str, name: str, lane: str, seed: str, pipe: str) -> None:
    """The target of multiprocessing: a process that shares nothing but the folder."""
    writer = join_directory(Path(place), lane, OPTIONS)
    append_until(stop.fileno(), writer, name, lane, seed, pipe)
    writer.close()
    writer.release()


def main() -> None:
    place, seed, pipe, forked_count, spawned_count = sys.argv[1:]
    recording = start_recording(Path(place), redaction="none", seal=False, durability="none")
    lanes = (f"0.{number}" for number in itertools.count(1))
    stop_reader, stop_writer = os.pipe()
    method = multiprocessing.get_context("spawn")
    receiver, sender = method.Pipe(duplex=False)
    others: list[Any] = []
    for number, lane in zip(range(int(spawned_count)), lanes, strict=False):
        process = method.Process(
            target=spawned, args=(receiver, place, f"spawned{number}", lane, seed, pipe)
        )
        process.start()
        others.append(process)
    lanes = (f"0.{number}" for number in itertools.count(int(spawned_count) + 1))
    pids: list[int] = []
    for number, lane in zip(range(int(forked_count)), lanes, strict=False):
        pid = os.fork()
        if pid == 0:
            os.close(stop_writer)
            sender.close()
            append_until(stop_reader, recording.sink, f"forked{number}", lane, seed, pipe)
            recording.sink.leave()
            os._exit(0)
        pids.append(pid)
    append_until(sys.stdin.fileno(), recording.sink, "first", "0", seed, pipe)
    os.close(stop_writer)
    sender.close()
    for pid in pids:
        os.waitpid(pid, 0)
    for process in others:
        process.join()
    recording.finish()


if __name__ == "__main__":
    main()
