"""``reenact stats``."""

from __future__ import annotations

from pathlib import Path

from reenact.store.reader import open_recording
from tests.cli.conftest import Run
from tests.cli.samples import HOSTILE, everything_in, record, record_run
from tests.unit.store.samples import draft, start_sink


def test_numbers_are_those_of_the_recording(run: Run, tmp_path: Path) -> None:
    path = record_run(tmp_path / "run")
    ran = run("stats", path, "--json")
    assert (ran.code, ran.err) == (0, "")
    found = ran.json()
    with open_recording(path) as source:
        whole = sum(len(event.payload) for event in source)
        manifest = source.manifest()
    assert found["path"] == str(path)
    assert found["events"] == sum(found["types"].values()) == manifest.event_count == 11
    assert found["types"]["tool_result"] == 2
    assert found["lanes"] == {"0": 9, "0.1": 2}
    assert found["disk"]["total"] == len(everything_in(path))
    assert set(found["disk"]) == {"events.jsonl", "manifest.json", "blobs", "total"}
    payloads = found["payloads"]
    assert payloads["whole"] == whole
    assert payloads["saved"] == payloads["whole"] - payloads["stored"]
    assert payloads["deltas"]["count"] == 1
    assert payloads["deltas"]["saved"] > 0
    assert payloads["blobs"]["bytes"] == manifest.blobs.bytes == 70_000
    assert found["biggest"][0]["seq"] == 9
    assert len(found["biggest"]) == 5
    assert found["biggest"] == sorted(found["biggest"], key=lambda one: -one["size"])


def test_text_says_the_same_in_words(run: Run, tmp_path: Path) -> None:
    path = record_run(tmp_path / "run")
    ran = run("stats", path)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{path}: 11 events, 2 lanes, ")
    for part in ("1 delta saved ", "1 blob of 68.4 KiB", "status ok", "biggest events", "lanes"):
        assert part in ran.out


def test_several_recordings_and_tapes(run: Run, tmp_path: Path) -> None:
    one, two = record(tmp_path / "one"), record_run(tmp_path / "two.jsonl")
    found = run("stats", one, two, "--json").json_lines()
    assert [each["path"] for each in found] == [str(one), str(two)]
    assert found[1]["disk"]["tape"] == two.stat().st_size
    assert found[1]["disk"]["blobs"] == 70_000
    assert run("stats", one, two).out.count(" on disk\n") == 4


def test_empty_recording(run: Run, tmp_path: Path) -> None:
    path = record(tmp_path / "run", 0)
    assert run("stats", path, "--json").json()["spanMs"] == 0
    assert "0 events" in run("stats", path).out


def test_times_that_no_calendar_has(run: Run, tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "run", created_at=10**17)
    sink.append(draft(ts=-(10**15)))
    sink.append(draft(ts=10**15))
    sink.finalize()
    assert run("stats", tmp_path / "run").code == 0
    assert run("show", tmp_path / "run").code == 0


def test_recorded_escapes_never_reach_the_screen(run: Run, tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "run")
    sink.append(draft(f"x_{HOSTILE}"))
    sink.finalize()
    for name in ("stats", "show"):
        ran = run(name, tmp_path / "run")
        assert ran.code == 0
        assert not {"\x1b", "\u202e", "\x9b", "\x7f"} & set(ran.out)
        assert "\\u001b" in ran.out


def test_missing(run: Run, tmp_path: Path) -> None:
    ran = run("stats", tmp_path / "none", "--json")
    assert ran.code == 3
    assert ran.json()["error"]["code"] == "recording.missing"
    assert ran.hint == "check the path"
