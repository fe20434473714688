"""Give recordings up, killed EVERY steps later each time.

Arguments: SCENARIO FOLDER EVERY. See kill_at_each_step.
"""

from __future__ import annotations

from pathlib import Path

from reenact.store.sinks.directory import DirectorySink
from reenact.store.sinks.tape import TapeSink
from tests.integration.programs import kill_at_each_step as killing
from tests.integration.scenes import OLD, TAPE_STORY
from tests.integration.stories import brief_story


def discard_directory(place: Path) -> killing.Act:
    return killing.directory(place).discard


def discard_tape(place: Path) -> killing.Act:
    return killing.tape(place).discard


def discard_several(place: Path) -> killing.Act:
    return killing.several_processes(place).discard


def discard_new_directory(place: Path) -> killing.Act:
    return _replacing(DirectorySink, place / "capture", "0")


def discard_new_tape(place: Path) -> killing.Act:
    return _replacing(TapeSink, place / "tape.jsonl", TAPE_STORY)


def _replacing(kind: type, path: Path, seed: str) -> killing.Act:
    old = killing.new_sink(kind, path, killing.options())
    killing.append_all(old, brief_story(OLD, count=5))
    old.finalize()
    new = killing.new_sink(kind, path, killing.options(), replace=True)
    killing.append_all(new, brief_story(seed))
    return new.discard


killing.SCENARIOS.update(
    (made.__name__, made)
    for made in (
        discard_directory,
        discard_tape,
        discard_several,
        discard_new_directory,
        discard_new_tape,
    )
)

if __name__ == "__main__":
    killing.main()
