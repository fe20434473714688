"""Recordings of every released format, kept for ever: what people have must stay readable.

The files beside this one are never made anew. When one of these tests fails, the reader is wrong.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reenact.errors import RecordingOutdated
from reenact.store.pack import unpack
from reenact.store.reader import open_recording
from reenact.store.rewrite import migrate
from reenact.store.seal import Seal
from reenact.store.sign import check_signature
from reenact.store.sinks.directory import DirectorySink
from reenact.store.verify import verify
from tests.golden import make

HERE = Path(__file__).resolve().parent
V1 = HERE / "v1.0"
V0 = HERE / "v0"
FORMATS = pytest.mark.parametrize("folder", [V0, V1], ids=["v0", "v1.0"])
CONTAINERS = pytest.mark.parametrize("name", ["capture", "tape.jsonl"])
CLOCK = make.FixedClock(make.START * 1_000_000, 0)


def expected(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "expected.json").read_bytes())
    return found


@FORMATS
def test_the_files_are_those_that_were_released(folder: Path) -> None:
    assert make.sums(folder) == (folder / "SHA256SUMS").read_text(encoding="utf-8")


def test_they_are_small() -> None:
    """All that is kept here; bytecode is not."""
    kept = [file for file in HERE.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    assert sum(file.stat().st_size for file in kept) < 150_000


@CONTAINERS
def test_format_1_0_verifies(name: str) -> None:
    report = verify(V1 / name)
    assert report.manifest.format.version == "1.0"
    assert report.notes == ("1 payload(s) withheld, because secret-like text survived redaction",)


@CONTAINERS
def test_format_1_0_decodes_to_what_was_recorded(name: str) -> None:
    with open_recording(V1 / name) as source:
        manifest = source.manifest()
        events = [event.to_json() for event in source]
    told = expected(V1)
    assert json.dumps(events) == json.dumps(told.pop("events"))  # 1 and 1.0 differ here
    assert told == {
        "contentHash": manifest.integrity.content_hash,
        "eventCount": manifest.event_count,
        "lanes": manifest.lanes,
        "model": {"provider": manifest.model.provider, "model": manifest.model.model},
    }


@CONTAINERS
def test_format_1_0_gives_back_the_values_of_the_story(name: str) -> None:
    """Straight from the events that were told: nothing lies between but the format."""
    withheld, redacted = 14, 12
    with open_recording(V1 / name) as source:
        for seq, draft in enumerate(make.story(), 1):
            event = source.at(seq)
            place = (event.type, event.ts, event.lane, event.parent)
            assert place == (draft.type, draft.ts, draft.lane, draft.parent)
            if seq not in (withheld, redacted):
                assert event.data == draft.data
        assert set(source.at(withheld).data) == {"withheld"}
        assert source.at(redacted).data["result"] == {"password": "***REDACTED***"}


def test_format_1_0_uses_every_way_to_store() -> None:
    """So that the tests above mean something."""
    log = (V1 / "capture" / "events.jsonl").read_bytes()
    for mark in (
        b'"$delta":{',
        b'"of":[2,3]',
        b'"kind":"text"',
        b'"kind":"bytes"',
        b'"kind":"json"',
    ):
        assert mark in log
    for mark in (b'{"$bytes":', b'"$$blob":', b'"lane":"0.1.2"', b'"parent":10', b'"withheld":'):
        assert mark in log


def test_format_1_0_unseals_with_its_key() -> None:
    with open_recording(V1 / "capture") as source:
        event = source.at(12)
        restored = source.restored(event, Seal(make.SEAL_KEY))
        assert restored.absent == ()
        assert restored.data["result"] == {"password": make.SECRET}
        assert source.restored(event, None).absent == ("$.result.password",)


def test_format_1_0_has_a_signature_that_holds() -> None:
    with open_recording(V1 / "capture") as source:
        check_signature(V1 / "capture", source.manifest(), V1 / "key.pub")
        assert source.manifest().capture_id == "cap_golden"


def test_format_1_0_unpacks(tmp_path: Path) -> None:
    report = unpack(V1 / "packed.tar.xz", tmp_path / "capture")
    for name in ("manifest.json", "events.jsonl", "manifest.sig"):
        assert (tmp_path / "capture" / name).read_bytes() == (V1 / "capture" / name).read_bytes()
    assert report.manifest.event_count == expected(V1)["eventCount"]


def test_the_same_story_told_today_has_the_same_content_hash(tmp_path: Path) -> None:
    """Two runs are compared by one string, also when a release lies between them."""
    make.write(DirectorySink(tmp_path / "c", clock=CLOCK, options=make.options()), "events.jsonl")
    today = verify(tmp_path / "c").manifest
    assert today.integrity.content_hash == expected(V1)["contentHash"]


def test_format_0_is_outdated_and_says_what_to_do() -> None:
    with pytest.raises(RecordingOutdated) as caught:
        open_recording(V0 / "capture")
    assert caught.value.hint == "reenact migrate OLD NEW"


def test_format_0_migrates_to_what_was_recorded(tmp_path: Path) -> None:
    told = expected(V0)
    manifest = migrate(V0 / "capture", tmp_path / "new", CLOCK)
    verify(tmp_path / "new")
    assert (manifest.capture_id, manifest.run_id) == (told["captureId"], told["runId"])
    assert (manifest.created_at, manifest.status) == (told["createdAt"], "ok")
    with open_recording(tmp_path / "new") as source:
        events = [[event.seq, event.ts, event.type, event.data] for event in source]
    assert json.dumps(events, sort_keys=True) == json.dumps(told["events"], sort_keys=True)
