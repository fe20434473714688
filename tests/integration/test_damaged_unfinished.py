"""What a kill left behind was damaged on top of it: recovering says so, or ends before the damage.

An unfinished log has no hash yet, so a changed byte inside a text is not noticed here. What is
promised: no other exception than the known ones, and never a recording that does not verify.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact import open_recording, verify
from reenact.errors import (
    RecordingDamaged,
    RecordingError,
    RecordingOutdated,
    RecordingTooNew,
    RecordingUnfinished,
)
from reenact.store.recover import recover
from tests.clocks import start_clock
from tests.conftest import SOAK
from tests.integration.small import small_drafts, start_small

CHANGES: dict[str, Callable[[bytes, int], bytes]] = {
    "cut": lambda content, place: content[:place],
    "^0x01": lambda content, place: _with_byte(content, place, content[place] ^ 0x01),
    "^0x20": lambda content, place: _with_byte(content, place, content[place] ^ 0x20),
    "^0x80": lambda content, place: _with_byte(content, place, content[place] ^ 0x80),
    "newline": lambda content, place: _with_byte(content, place, 0x0A),
}
FILES = {
    "events.jsonl": "capture/events.jsonl",
    "open.json": "capture/open.json",
    "blob": "capture/blobs",
    "tape": "tape.jsonl.part",
}

# The first line of a tape says which version it is: a change may make it an older or a newer one.
EXPECTED: dict[str, tuple[type[RecordingError], ...]] = {
    "events.jsonl": (RecordingDamaged,),
    "open.json": (RecordingDamaged, RecordingOutdated, RecordingTooNew),
    "blob": (RecordingDamaged,),
    "tape": (RecordingDamaged, RecordingOutdated, RecordingTooNew, RecordingUnfinished),
}


def _with_byte(content: bytes, place: int, byte: int) -> bytes:
    return content[:place] + bytes([byte]) + content[place + 1 :]


class Abandoned:
    """An unfinished recording, as often as it is needed."""

    def __init__(self, folder: Path, file: str) -> None:
        self._template = folder / "template"
        name = "tape.jsonl" if file == "tape" else "capture"
        sink = start_small(self._template / name)
        self._keep = sink  # its lock is on the template; copies are nobody's
        self._trial = folder / "trial"
        self.path = self._trial / name
        found = self._template / FILES[file]
        if found.is_dir():
            [found] = [path for path in found.rglob("*") if path.is_file()]
        self.content = found.read_bytes()
        self._damaged = self._trial / found.relative_to(self._template)

    def with_file(self, content: bytes) -> None:
        shutil.rmtree(self._trial, ignore_errors=True)
        shutil.copytree(self._template, self._trial)
        with self._damaged.open("r+b") as file:
            file.write(content)
            file.truncate()


def _places(content: bytes, change: str, cut_damage: bool) -> range:
    """In ``make soak`` every byte; else each change begins at another one, so that together they
    come to every byte."""
    if SOAK:
        return range(len(content))
    return range(2 * list(CHANGES).index(change) + cut_damage, len(content), 2 * len(CHANGES))


@pytest.mark.soak
@pytest.mark.thinned(3)
@pytest.mark.parametrize("cut_damage", [False, True])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("file", FILES)
def test_recovering_after_any_change_gives_a_whole_recording_or_a_known_error(
    file: str, change: str, cut_damage: bool, memory_path: Path
) -> None:
    abandoned = Abandoned(memory_path, file)
    wrong: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for place in _places(abandoned.content, change, cut_damage):
        abandoned.with_file(CHANGES[change](abandoned.content, place))
        try:
            recover(abandoned.path, start_clock(), cut_damage=cut_damage)
        except EXPECTED[file] as error:
            seen[type(error).__name__] += 1
            continue
        except Exception as error:
            wrong[f"byte {place}: {type(error).__name__}: {error}"] += 1
            continue
        try:
            verify(abandoned.path)
            seen["recovered"] += 1
        except RecordingError as error:
            wrong[f"byte {place}: recovered, and then {error}"] += 1
    assert not wrong
    assert seen["recovered"] or not cut_damage, seen


@pytest.mark.parametrize("bad", [1, 2, 3, 4])
@pytest.mark.parametrize("file", ["events.jsonl", "tape"])
def test_cutting_the_damage_keeps_everything_before_it(
    file: str, bad: int, memory_path: Path
) -> None:
    abandoned = Abandoned(memory_path, file)
    lines = abandoned.content.splitlines(keepends=True)
    header = len(lines) - len(small_drafts())
    lines[header + bad - 1] = b"{broken}\n"
    abandoned.with_file(b"".join(lines))
    with pytest.raises(RecordingDamaged) as error:
        recover(abandoned.path, start_clock())
    assert f"line {header + bad}" in error.value.place
    report = recover(abandoned.path, start_clock(), cut_damage=True)
    assert report.cut
    verify(abandoned.path)
    with open_recording(abandoned.path) as source:
        assert [e.data for e in source] == [d.data for d in small_drafts()][: bad - 1]


def test_a_lost_blob_of_an_unfinished_capture_is_named(memory_path: Path) -> None:
    abandoned = Abandoned(memory_path, "blob")
    abandoned.with_file(b"")
    shutil.rmtree(abandoned.path / "blobs")
    with pytest.raises(RecordingDamaged) as error:
        recover(abandoned.path, start_clock())
    assert "blob sha256:" in error.value.place or "line 2" in error.value.place
    recover(abandoned.path, start_clock(), cut_damage=True)
    assert verify(abandoned.path).manifest.event_count == 1
