"""No room, no permission, no such place: refused before the start, or survived in the middle."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reenact import open_recording, start_recording, verify
from reenact.errors import RecordingExists, RecordingUnfinished, ReenactError, SinkUnwritable
from reenact.store.recover import recover
from reenact.store.seal import Seal, key_path, load_key, read_sealed, restore
from tests.clocks import start_clock
from tests.integration.processes import run_program
from tests.integration.scenes import PASSWORDS

NAMES = ["capture", "tape.jsonl"]

IN_CI = bool(os.environ.get("CI"))


class SmallDisk:
    """A file system with room for 128 KiB, or what :meth:`fill` leaves of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.filler = folder / "filler"

    def fill(self, *, leave: int) -> None:
        """Leave so many bytes, rounded down to whole pages."""
        room = os.statvfs(self.folder)
        self.filler.write_bytes(b"\0" * max(0, room.f_bavail * room.f_bsize - leave))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128k,mode=0777", "reenact-test", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        problem = done.stderr.strip() if done.returncode else ""
    except FileNotFoundError as error:
        problem = str(error)
    if problem:
        # In CI this must run; elsewhere it may be impossible, and then it says so.
        (pytest.fail if IN_CI else pytest.skip)(f"no tmpfs here: {problem}")
    yield SmallDisk(folder)
    subprocess.run(["umount", str(folder)], check=True)


def _record(
    place: Path,
    *,
    limit: int = 0,
    room: Path | str = "-",
    seal: bool = False,
    overwrite: bool = False,
) -> Any:
    how = ("sealed" if seal else "plain", "overwrite" if overwrite else "new")
    done = run_program("append_until_full", place, str(limit), room, *how)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _check_survived(place: Path, report: dict[str, Any], *, closed: bool) -> None:
    """The program went on, was warned once, and everything acknowledged can be read."""
    assert report["went on"]
    assert 0 < len(report["acknowledged"]) < 400
    assert report["acknowledged"] == list(range(len(report["acknowledged"])))
    assert len(report["warnings"]) == 1
    assert f"after event {len(report['acknowledged'])}" in report["warnings"][0]
    if closed:
        assert report["status"] == "error"
        assert "recording stopped after event" in str(verify(place).manifest.error)
    else:
        assert report["code"] == SinkUnwritable.code
        with pytest.raises(RecordingUnfinished):
            open_recording(place)
    assert _indices(place) == report["acknowledged"]


def _indices(place: Path) -> list[int]:
    if not (place if place.suffix else place / "manifest.json").exists():
        recover(place, start_clock())
    verify(place)
    with open_recording(place) as source:
        return [event.data["result"]["i"] for event in source]


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_is_refused_before_the_start(name: str, small_disk: SmallDisk) -> None:
    small_disk.fill(leave=0)
    report = _record(small_disk.folder / name)
    assert report["code"] == SinkUnwritable.code
    assert "went on" not in report
    assert report["warnings"] == []
    assert [path.name for path in small_disk.folder.iterdir()] == ["filler"]


@pytest.mark.parametrize("name", NAMES)
def test_a_disk_that_fills_up_ends_the_recording_and_not_the_program(
    name: str, small_disk: SmallDisk
) -> None:
    small_disk.fill(leave=60_000)
    place = small_disk.folder / name
    report = _record(place)
    small_disk.filler.unlink()
    _check_survived(place, report, closed=False)


@pytest.mark.parametrize("name", NAMES)
def test_room_made_before_the_end_lets_the_recording_close_with_an_error(
    name: str, small_disk: SmallDisk
) -> None:
    small_disk.fill(leave=60_000)
    place = small_disk.folder / name
    _check_survived(place, _record(place, room=small_disk.filler), closed=True)


@pytest.mark.parametrize("limit", [3_000, 10_000, 10_001, 20_007])
@pytest.mark.parametrize("name", NAMES)
def test_a_quota_hit_in_the_middle_ends_the_recording_and_not_the_program(
    name: str, limit: int, tmp_path: Path
) -> None:
    place = tmp_path / name
    report = _record(place, limit=limit)
    # The closing line of a tape is part of the file that may not grow.
    _check_survived(place, report, closed=name == "capture")


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_that_ran_out_of_room_does_not_replace_a_good_one(
    name: str, tmp_path: Path
) -> None:
    place = tmp_path / name
    with start_recording(place, redaction="none") as recording:
        recording.add("run_end", {"status": "ok"})
    before = verify(place).manifest
    report = _record(place, limit=10_000, overwrite=True)
    assert report["went on"]
    assert report["code"] == SinkUnwritable.code
    assert verify(place).manifest == before
    left = tmp_path / ("capture.new" if name == "capture" else "tape.jsonl.part")
    assert left.exists()


@pytest.mark.parametrize("limit", [5_000, 9_000, 20_000, 20_013, 20_100])
def test_a_quota_on_sealed_values_leaves_nothing_half_sealed(limit: int, tmp_path: Path) -> None:
    place = tmp_path / "capture"
    report = _record(place, limit=limit, seal=True)
    _check_survived(place, report, closed=True)
    key = load_key(key_path(dict(os.environ)))
    assert key is not None
    boxes = {box.seq: box for box in read_sealed(place / "sealed")}
    with open_recording(place) as source:
        for event in source:
            whole = restore(event, [boxes[event.seq]], Seal(key))
            assert whole.data["result"]["password"] == PASSWORDS % (event.seq - 1) * 60


def test_as_another_user_every_unwritable_place_is_refused(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("needs the right to be another user")
    _open_to_all(tmp_path)
    (tmp_path / "read only").mkdir(mode=0o755)
    (tmp_path / "empty").mkdir(mode=0o755)
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "blind").mkdir(mode=0o333)
    (tmp_path / "blind").chmod(0o333)
    (tmp_path / "file").write_text("", encoding="utf-8")
    places = [
        *(tmp_path / "read only" / name for name in NAMES),
        tmp_path / "empty",
        *(tmp_path / "closed" / name for name in NAMES),
        tmp_path / "closed",
        *(tmp_path / "file" / name for name in NAMES),
        *(tmp_path / "read only" / "deeper" / "still" / name for name in NAMES),
    ]
    done = run_program("start_there", "nobody", *places)
    assert done.returncode == 0, done.stderr
    answers = dict(zip(map(str, places), done.stdout.splitlines(), strict=True))
    assert answers == dict.fromkeys(answers, "SinkUnwritable True")
    left = [path for path in tmp_path.rglob("*") if path.name in (*NAMES, "open.json")]
    assert left == []


def test_as_another_user_an_unreadable_recording_has_a_known_error(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("needs the right to be another user")
    _open_to_all(tmp_path)
    for name in NAMES:
        for folder in ("closed", "unreadable", "unfinished"):
            recording = start_recording(tmp_path / folder / name, redaction="none", seal=False)
            if folder != "unfinished":
                recording.finish()
    for path in (tmp_path / "unreadable").rglob("*"):
        path.chmod(0o711 if path.is_dir() else 0o600)
    for path in (tmp_path / "unfinished").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o600)
    (tmp_path / "closed").chmod(0o700)
    places = [
        tmp_path / folder / name
        for folder in ("closed", "unreadable", "unfinished")
        for name in NAMES
    ]
    done = run_program("open_there", "nobody", *places)
    assert done.returncode == 0, done.stderr
    answers = dict(zip(map(str, places), done.stdout.splitlines(), strict=True))
    assert not {place: answer for place, answer in answers.items() if "unexpected" in answer}
    assert not {place: answer for place, answer in answers.items() if "ok" in answer.split()}


def _open_to_all(folder: Path) -> None:
    """Folders of pytest are private: let another user come as far as ``folder``."""
    for parent in (folder, *folder.parents):
        if parent.owner() == "root" and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "x" * 250 + ".jsonl"])
def test_a_name_that_no_file_can_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ReenactError) as error:
        start_recording(tmp_path / name, redaction="none", seal=False)
    assert isinstance(error.value, SinkUnwritable)


@pytest.mark.parametrize("name", NAMES)
def test_a_refused_start_leaves_the_place_as_it_was(name: str, tmp_path: Path) -> None:
    (tmp_path / "capture").mkdir()
    (tmp_path / "capture" / "homework.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "tape.jsonl").write_text("mine\n", encoding="utf-8")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with pytest.raises(RecordingExists):
        start_recording(tmp_path / name, redaction="none", seal=False)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_other_files_are_never_replaced_by_a_capture(tmp_path: Path) -> None:
    (tmp_path / "capture").mkdir()
    (tmp_path / "capture" / "homework.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(RecordingExists):
        start_recording(tmp_path / "capture", redaction="none", seal=False, overwrite=True)
    assert (tmp_path / "capture" / "homework.txt").read_text(encoding="utf-8") == "mine"
