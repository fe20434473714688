"""Every byte cut, flipped or replaced, every line moved, every file lost: noticed, or harmless."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reenact import open_recording, verify
from reenact.errors import (
    RecordingDamaged,
    RecordingError,
    RecordingMissing,
    RecordingOutdated,
    RecordingTooNew,
    RecordingUnfinished,
)
from reenact.format.canonical import digest, digest_bytes
from tests.integration.small import Snapshot, outcome, read, small_drafts, write_small

HARMLESS = tuple
PATTERNS: dict[str, Callable[[int], int]] = {
    "^0x01": lambda byte: byte ^ 0x01,
    "^0x20": lambda byte: byte ^ 0x20,
    "^0x80": lambda byte: byte ^ 0x80,
    "newline": lambda _: 0x0A,
}
FILES = ["manifest.json", "events.jsonl", "blob", "tape", "tape blob"]


class Recording:
    """One finished recording and the file of it that is to be damaged."""

    def __init__(self, folder: Path, file: str) -> None:
        self.path = folder / ("tape.jsonl" if "tape" in file else "capture")
        write_small(self.path)
        blobs = folder / "tape.jsonl.blobs" if "tape" in file else self.path / "blobs"
        if file.endswith("blob"):
            [self.file] = [path for path in blobs.rglob("*") if path.is_file()]
        else:
            self.file = self.path if file == "tape" else self.path / file
        self.content = self.file.read_bytes()
        self.original = read(self.path)

    def with_file(self, content: bytes) -> type:
        _overwrite(self.file, content)
        found = outcome(self.path, self.original)
        if "blobs" in str(self.file):  # all else is checked by opening, which is part of verifying
            assert outcome(self.path, self.original, _read_unverified) is found
        return found

    def format_field(self) -> range:
        """The bytes that say which version this is: a change may make it an older or newer one."""
        found = re.search(rb'"format": ?\{[^}]*\}', self.content)
        return range(*found.span()) if found else range(0)

    def blanks(self) -> set[int]:
        """Where white space stands between the tokens of JSON."""
        inside = [match.span() for match in re.finditer(rb'"(?:[^"\\]|\\.)*"', self.content)]
        strings = {place for start, end in inside for place in range(start, end)}
        return {
            place
            for place, byte in enumerate(self.content)
            if byte in b" \n" and place not in strings
        }


def _overwrite(file: Path, content: bytes) -> None:
    """In place: some file systems flush a file that was emptied first, which takes milliseconds."""
    with file.open("r+b") as opened:
        opened.write(content)
        opened.truncate()


def _read_unverified(path: Path) -> Snapshot:
    """What a replay reads: opening checks the log, each blob is checked when it is needed."""
    with open_recording(path) as source:
        events = [(e.seq, e.ts, e.type, e.lane, e.parent, e.data) for e in source]
        return source.manifest(), events


@pytest.fixture(params=FILES)
def recording(request: pytest.FixtureRequest, memory_path: Path) -> Recording:
    return Recording(memory_path, request.param)


def test_the_small_recording_has_all_that_can_be_damaged(memory_path: Path) -> None:
    manifest = write_small(memory_path / "capture")
    assert manifest.blobs.count == 1
    assert b'"$delta"' in (memory_path / "capture" / "events.jsonl").read_bytes()
    assert [draft.data for draft in small_drafts()] == [
        e[5] for e in read(memory_path / "capture")[1]
    ]


def test_truncated_at_every_byte_is_damaged(recording: Recording) -> None:
    found = {size: recording.with_file(recording.content[:size]) for size in _sizes(recording)}
    # Only the line break behind the closing brace of the manifest tells nothing.
    whole = {len(recording.content) - 1} if recording.file.name == "manifest.json" else set()
    assert {size for size, kind in found.items() if kind is HARMLESS} == whole
    assert set(found.values()) <= {RecordingDamaged, HARMLESS}


def _sizes(recording: Recording) -> range:
    return range(len(recording.content))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_byte_changed_in_turn_is_noticed(pattern: str, recording: Recording) -> None:
    change = PATTERNS[pattern]
    says_version = recording.format_field()
    blanks = recording.blanks() if recording.file.name == "manifest.json" else set()
    wrong: Counter[str] = Counter()
    for place, byte in enumerate(recording.content):
        changed = bytearray(recording.content)
        changed[place] = change(byte)
        kind = recording.with_file(bytes(changed))
        expected: set[type] = {RecordingDamaged}
        if place in says_version:
            expected |= {RecordingOutdated, RecordingTooNew}
        if changed[place] == byte or (place in blanks and changed[place] in b" \n"):
            expected = {HARMLESS}
        if kind not in expected:
            wrong[f"byte {place}: {kind.__name__}"] += 1
    assert not wrong


def _edited_lines(lines: list[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    for place in range(len(lines)):
        yield f"line {place + 1} deleted", lines[:place] + lines[place + 1 :]
        yield f"line {place + 1} doubled", lines[: place + 1] + lines[place:]
        yield f"line {place + 1} joined", [b"".join(lines).replace(lines[place], lines[place][:-1])]
        yield f"blank before line {place + 1}", [*lines[:place], b"\n", *lines[place:]]
    for place in range(len(lines) - 1):
        swapped = [*lines[:place], lines[place + 1], lines[place], *lines[place + 2 :]]
        yield f"lines {place + 1} and {place + 2} swapped", swapped


@pytest.mark.parametrize("file", ["events.jsonl", "tape"])
def test_every_line_deleted_doubled_or_swapped_is_damage(file: str, memory_path: Path) -> None:
    recording = Recording(memory_path, file)
    lines = recording.content.splitlines(keepends=True)
    found = {what: recording.with_file(b"".join(new)) for what, new in _edited_lines(lines)}
    assert found == dict.fromkeys(found, RecordingDamaged)


LOST: dict[str, type[RecordingError]] = {
    "everything": RecordingMissing,
    "manifest.json": RecordingUnfinished,
    "events.jsonl": RecordingDamaged,
    "blob": RecordingDamaged,
    "blobs": RecordingDamaged,
    "tape": RecordingMissing,
    "tape blob": RecordingDamaged,
}


@pytest.mark.parametrize("file", LOST)
def test_a_lost_file_has_its_own_error(file: str, memory_path: Path) -> None:
    one = Recording(memory_path, file if file in FILES else "manifest.json")
    target = {"everything": one.path, "blobs": one.path / "blobs"}.get(file, one.file)
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    with pytest.raises(LOST[file]) as error:
        verify(one.path)
    assert type(error.value) is LOST[file]
    assert error.value.hint


@pytest.mark.parametrize("file", ["manifest.json", "events.jsonl", "blob", "tape"])
def test_a_folder_where_a_file_should_be_is_damage(file: str, memory_path: Path) -> None:
    one = Recording(memory_path, file)
    one.file.unlink()
    one.file.mkdir()
    expected = RecordingMissing if file == "tape" else RecordingDamaged
    with pytest.raises(expected):
        verify(one.path)


@pytest.mark.parametrize("content", [b"", b"\n", b"{}", b"[]", b"null", b'{"a":', b"\xff\xfe"])
@pytest.mark.parametrize("file", ["manifest.json", "tape"])
def test_something_else_in_its_place_is_damage(
    file: str, content: bytes, memory_path: Path
) -> None:
    assert Recording(memory_path, file).with_file(content) is RecordingDamaged


EXTRA = [
    "notes.txt",
    "events.jsonl~",
    ".hidden",
    "segments/0.jsonl",
    "merged.jsonl",
    "blobs/notes.txt",
    "blobs/ab/" + "ab" + "0" * 62,
    "blobs/ab/" + "ab" + "0" * 62 + ".7-7.tmp",
]


@pytest.mark.parametrize("name", EXTRA)
def test_an_extra_file_is_named(name: str, memory_path: Path) -> None:
    one = Recording(memory_path, "manifest.json")
    (one.path / name).parent.mkdir(exist_ok=True)
    (one.path / name).write_bytes(b"x")
    with pytest.raises(RecordingDamaged) as error:
        verify(one.path)
    assert error.value.place.endswith(name if name.startswith("blobs/") else name.split("/")[0])


def test_an_extra_blob_beside_a_tape_is_named(memory_path: Path) -> None:
    one = Recording(memory_path, "tape")
    (memory_path / "tape.jsonl.blobs" / "notes.txt").write_bytes(b"x")
    with pytest.raises(RecordingDamaged, match=r"tape\.jsonl\.blobs/notes\.txt"):
        verify(one.path)


@pytest.mark.parametrize("name", ["capture", "tape.jsonl"])
def test_swapped_blobs_are_damage(name: str, memory_path: Path) -> None:
    drafts = small_drafts()
    turned = drafts[1].data["text"][::-1]
    other = {**drafts[1].data, "text": turned}
    drafts.append(type(drafts[1])(type="llm_request", data=other, ts=5, op="another"))
    path = memory_path / name
    write_small(path, drafts)
    original = read(path)
    folder = path / "blobs" if path.is_dir() else memory_path / f"{name}.blobs"
    first, second = (file for file in sorted(folder.rglob("*")) if file.is_file())
    assert first.stat().st_size == second.stat().st_size
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b)
    second.write_bytes(a)
    assert outcome(path, original) is RecordingDamaged


def _manifest(one: Recording, **integrity: Any) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((one.path / "manifest.json").read_bytes())
    manifest["integrity"].update(integrity)
    return manifest


def _close(manifest: dict[str, Any]) -> bytes:
    """With a correct hash of its own, as an editor who knows the format would leave it."""
    without = {k: v for k, v in manifest["integrity"].items() if k != "manifestHash"}
    manifest["integrity"]["manifestHash"] = digest({**manifest, "integrity": without})
    return json.dumps(manifest).encode()


def test_an_edit_that_recomputes_only_the_hash_of_the_events_is_damage(memory_path: Path) -> None:
    one = Recording(memory_path, "events.jsonl")
    edited = one.content.replace(b'"callId":"c"', b'"callId":"d"', 1)
    one.file.write_bytes(edited)
    manifest = _manifest(one, eventsHash=digest_bytes(edited))
    (one.path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(RecordingDamaged, match="its own hash"):
        verify(one.path)


def test_an_edit_that_forgets_only_the_content_hash_is_damage(memory_path: Path) -> None:
    one = Recording(memory_path, "events.jsonl")
    edited = one.content.replace(b'"callId":"c"', b'"callId":"d"', 1)
    one.file.write_bytes(edited)
    manifest = _manifest(one, eventsHash=digest_bytes(edited))
    (one.path / "manifest.json").write_bytes(_close(manifest))
    with pytest.raises(RecordingDamaged, match="content hash"):
        verify(one.path)


HOSTILE_MANIFESTS: dict[str, tuple[dict[str, Any], type]] = {
    "a later major": ({"format": {"name": "reenact", "version": "2.0"}}, RecordingTooNew),
    "an earlier major": ({"format": {"name": "reenact", "version": "0.9"}}, RecordingOutdated),
    "an endless major": (
        {"format": {"name": "reenact", "version": "9" * 5_000 + ".0"}},
        RecordingDamaged,
    ),
    "no number": ({"format": {"name": "reenact", "version": "one.two"}}, RecordingDamaged),
    "another format": ({"format": {"name": "zip", "version": "1.0"}}, RecordingDamaged),
    "no format": ({"format": None}, RecordingOutdated),
    "an unknown behaviour": ({"flags": [1, 999]}, RecordingTooNew),
    "another log": ({"eventLogPath": "../elsewhere"}, RecordingDamaged),
    "a negative count": ({"eventCount": -1}, RecordingDamaged),
    "an endless count": ({"eventCount": 10**30}, RecordingDamaged),
    "a wrong number of lanes": ({"lanes": 7}, RecordingDamaged),
    "checkpoints of nothing": (
        {"integrity": {"checkpoints": {"every": 0, "hashes": "00000000"}}},
        RecordingDamaged,
    ),
}


@pytest.mark.parametrize("what", HOSTILE_MANIFESTS)
def test_a_manifest_that_hashes_well_and_lies_is_refused(what: str, memory_path: Path) -> None:
    changes, expected = HOSTILE_MANIFESTS[what]
    one = Recording(memory_path, "manifest.json")
    manifest = _manifest(one, **changes.get("integrity", {}))
    manifest.update({name: item for name, item in changes.items() if name != "integrity"})
    one.file.write_bytes(_close(manifest))
    if what == "checkpoints of nothing":  # they are looked at when a hash differs
        (one.path / "events.jsonl").write_bytes(b"{}\n")
    with pytest.raises(expected) as error:
        verify(one.path)
    assert type(error.value) is expected
