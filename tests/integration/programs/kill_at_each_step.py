"""Do something to recordings again and again, killed EVERY steps later each time.

Arguments: SCENARIO FOLDER EVERY.

A step is a call into the operating system that changes something (or is about to). For step N a
forked child prepares ``FOLDER/N``, then acts and is killed with SIGKILL before its N-th step. The
last child reaches the end.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from reenact import Draft, Redactor
from reenact.store.log import Durability
from reenact.store.recording import make_seed
from reenact.store.recover import recover
from reenact.store.seal import Seal
from reenact.store.sinks.base import Options
from reenact.store.sinks.directory import DirectorySink
from reenact.store.sinks.segments import join_directory
from reenact.store.sinks.tape import TapeSink
from tests.clocks import start_clock
from tests.integration.scenes import (
    KEY,
    OLD,
    PARTS,
    SECRET_ANSWER,
    TAPE_STORY,
)
from tests.integration.stories import brief_story

CHANGES = frozenset(
    """
    open write pwrite rename replace unlink remove rmdir mkdir ftruncate truncate fsync fdatasync
    link flock close fork
    """.split()
)
Act = Callable[[], object]


redactor = Redactor("default")
redactor.suspects(b"{}")  # compiled once, not in every child


def options(durability: Durability = "interval", *, seal: bool = False) -> Options:
    return Options(
        redactor=redactor if seal else Redactor("none"),
        seal=Seal(KEY) if seal else None,
        durability=durability,
        blob_threshold=700,
    )


def new_sink(kind: type[Any], path: Path, chosen: Options, *, replace: bool = False) -> Any:
    clock = start_clock()
    sink = kind(path, clock=clock, options=chosen, replace=replace)
    log = "tape" if kind is TapeSink else "events.jsonl"
    sink.start(make_seed(clock=clock, redactor=chosen.redactor, log=log))
    return sink


def append_all(sink: Any, drafts: list[Draft]) -> None:
    for draft in drafts:
        sink.append(draft)


def several_processes(place: Path) -> Any:
    """A capture of three writers, each with a sealed value."""
    chosen = options(seal=True)
    sink = new_sink(DirectorySink, place / "capture", chosen)
    ends = [sink, *(join_directory(place / "capture", part, chosen) for part in PARTS[1:])]
    for part, end in zip(PARTS, ends, strict=True):
        append_all(end, brief_story(part, lane=part))
        end.append(Draft(type="tool_result", data=SECRET_ANSWER, ts=9, lane=part))
    for writer in ends[1:]:
        writer.close()
        writer.release()
    return sink


def tear(log: Path) -> None:
    with log.open("ab") as file:
        file.write(b'{"version":1,"captureId":"torn')


def abandoned(make: Callable[[Path], Any], place: Path, *logs: str) -> None:
    """What a kill leaves of the recording that ``make`` starts: no lock, a torn tail, an orphan."""
    child = os.fork()
    if child == 0:
        make(place)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    for log in logs:
        tear(place / log)


def half_a_blob(folder: Path) -> None:
    (folder / "ab").mkdir(parents=True)
    (folder / "ab" / f"ab{'0' * 62}.1-1.tmp").write_bytes(b"half")


def written(kind: type[Any], name: str, seed: str) -> Callable[[Path], Any]:
    def make(place: Path) -> Any:
        sink = new_sink(kind, place / name, options())
        append_all(sink, brief_story(seed))
        return sink

    return make


directory = written(DirectorySink, "capture", "0")
tape = written(TapeSink, "tape.jsonl", TAPE_STORY)


def start_directory(place: Path) -> Act:
    return lambda: new_sink(DirectorySink, place / "capture", options())


def start_tape(place: Path) -> Act:
    return lambda: new_sink(TapeSink, place / "tape.jsonl", options())


def append_to(sink: Any, place: Path, drafts: list[Draft]) -> Act:
    fd = os.open(place / "acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def act() -> None:
        for draft in drafts:
            sink.append(draft)
            os.write(fd, b".")

    return act


def append_directory(place: Path) -> Act:
    sink = new_sink(DirectorySink, place / "capture", options("event"))
    return append_to(sink, place, brief_story("0"))


def append_tape(place: Path) -> Act:
    sink = new_sink(TapeSink, place / "tape.jsonl", options("event"))
    return append_to(sink, place, brief_story(TAPE_STORY))


def join_and_append(place: Path) -> Act:
    chosen = options("event")
    sink = new_sink(DirectorySink, place / "capture", chosen)
    keep.append(sink)

    def act() -> None:
        writer = join_directory(place / "capture", "0.1", chosen)
        append_to(writer, place, brief_story("0"))()

    return act


def finalize_directory(place: Path) -> Act:
    return directory(place).finalize


def finalize_tape(place: Path) -> Act:
    return tape(place).finalize


def finalize_several(place: Path) -> Act:
    return several_processes(place).finalize


def replace_directory(place: Path) -> Act:
    old = new_sink(DirectorySink, place / "capture", options())
    append_all(old, brief_story(OLD, count=5))
    old.finalize()
    new = new_sink(DirectorySink, place / "capture", options(), replace=True)
    append_all(new, brief_story("0"))
    return new.finalize


def replace_tape(place: Path) -> Act:
    old = new_sink(TapeSink, place / "tape.jsonl", options())
    append_all(old, brief_story(OLD, count=5))
    old.finalize()
    new = new_sink(TapeSink, place / "tape.jsonl", options(), replace=True)
    append_all(new, brief_story(TAPE_STORY))
    return new.finalize


def recover_directory(place: Path) -> Act:
    abandoned(directory, place, "capture/events.jsonl")
    half_a_blob(place / "capture" / "blobs")
    return lambda: recover(place / "capture", start_clock())


def recover_tape(place: Path) -> Act:
    abandoned(tape, place, "tape.jsonl.part")
    half_a_blob(place / "tape.jsonl.blobs")
    return lambda: recover(place / "tape.jsonl", start_clock())


def recover_several(place: Path) -> Act:
    logs = ("events.jsonl", *(f"segments/{part}.jsonl" for part in PARTS[1:]))
    abandoned(several_processes, place, *(f"capture/{log}" for log in logs))
    half_a_blob(place / "capture" / "blobs")
    return lambda: recover(place / "capture", start_clock())


SCENARIOS: dict[str, Callable[[Path], Act]] = {
    made.__name__: made
    for made in (
        start_directory,
        start_tape,
        append_directory,
        append_tape,
        join_and_append,
        finalize_directory,
        finalize_tape,
        finalize_several,
        replace_directory,
        replace_tape,
        recover_directory,
        recover_tape,
        recover_several,
    )
}

keep: list[Any] = []


class KillAt:
    """A profiler that kills its own process before the N-th change to the world."""

    def __init__(self, step: int) -> None:
        self._left = step

    def __call__(self, _frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and self._is_change(called):
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def _is_change(self, called: Any) -> bool:
        if getattr(called, "__name__", "") not in CHANGES:
            return False
        module = getattr(called, "__module__", None)
        owner = getattr(called, "__self__", None)
        return module in ("posix", "fcntl", "io", "_io") or isinstance(owner, io.IOBase)


def killed_at(step: int, scenario: Callable[[Path], Act], place: Path) -> bool:
    place.mkdir()
    child = os.fork()
    if child == 0:
        act = scenario(place)
        sys.setprofile(KillAt(step))
        act()
        sys.setprofile(None)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise SystemExit(f"step {step} failed by itself")
    return os.WIFSIGNALED(status)


def main() -> None:
    scenario, folder, every = SCENARIOS[sys.argv[1]], Path(sys.argv[2]), int(sys.argv[3])
    step = 1
    while killed_at(step, scenario, folder / str(step)):
        step += every


if __name__ == "__main__":
    main()
