"""FIFOs and devices in the place of the files of a recording: refused at once, never opened."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reenact import open_recording, verify
from reenact.errors import RecordingDamaged
from reenact.store.pack import pack
from reenact.store.recover import recover
from tests.clocks import start_clock
from tests.integration.small import start_small, write_small

FILES = ("manifest.json", "events.jsonl", "blobs")


def capture(folder: Path) -> Path:
    path = folder / "run"
    write_small(path)
    return path


def replace_with_fifo(path: Path, name: str) -> Path:
    file = path / name
    if name == "blobs":
        file = next(one for one in file.rglob("*") if one.is_file())
    file.unlink()
    os.mkfifo(file)
    return file


@pytest.mark.parametrize("command", ["verify", "show", "stats", "pack", "view"])
@pytest.mark.parametrize("name", FILES)
def test_fifo_in_a_recording_does_not_hang_a_command(
    tmp_path: Path, name: str, command: str
) -> None:
    path = capture(tmp_path)
    replace_with_fifo(path, name)
    more = {"pack": ["packed"], "view": ["-o", "page.html"], "show": ["--json"]}
    done = subprocess.run(
        [sys.executable, "-m", "reenact", command, str(path), *more.get(command, [])],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3, done.stderr.decode()
    assert b"is a FIFO, expected a regular file" in done.stderr


@pytest.mark.parametrize("name", FILES)
def test_fifo_in_a_recording_is_damage_for_every_reader(tmp_path: Path, name: str) -> None:
    path = capture(tmp_path)
    replace_with_fifo(path, name)
    for read in (verify, lambda place: pack(place, tmp_path / "packed")):
        with pytest.raises(RecordingDamaged, match="is a FIFO"):
            read(path)


def test_fifo_in_the_place_of_a_tape_is_refused(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    os.mkfifo(tape)
    with pytest.raises(RecordingDamaged, match="is a FIFO"):
        open_recording(tape)


def test_fifo_beside_a_tape_is_refused(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    write_small(tape)
    shutil.rmtree(f"{tape}.blobs")
    fifo = tmp_path / "other.jsonl.part"
    os.mkfifo(fifo)
    with pytest.raises(RecordingDamaged, match="is a FIFO"):
        open_recording(tmp_path / "other.jsonl")


def test_fifo_or_device_that_is_imported_is_refused_without_being_read(tmp_path: Path) -> None:
    fifo, device = tmp_path / "one.har", tmp_path / "two.har"
    os.mkfifo(fifo)
    device.symlink_to("/dev/zero")
    for source, kind in ((fifo, "a FIFO"), (device, "a device")):
        done = subprocess.run(
            [sys.executable, "-m", "reenact", "import", str(source)],
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert done.returncode == 3, done.stderr
        assert f"is {kind}, expected a regular file" in done.stdout + done.stderr


def test_device_in_a_recording_is_refused(tmp_path: Path) -> None:
    path = capture(tmp_path)
    (path / "events.jsonl").unlink()
    (path / "events.jsonl").symlink_to("/dev/zero")
    with pytest.raises(RecordingDamaged, match="is a device, expected a regular file"):
        open_recording(path)


@pytest.mark.parametrize("name", ["open.json", "events.jsonl", "segments/1.jsonl", "sealed"])
def test_fifo_in_an_unfinished_recording_does_not_hang_recovery(tmp_path: Path, name: str) -> None:
    path = tmp_path / "run"
    sink = start_small(tmp_path / "written")
    shutil.copytree(tmp_path / "written", path)
    sink.discard()
    file = path / name
    file.unlink(missing_ok=True)
    file.parent.mkdir(exist_ok=True)
    os.mkfifo(file)
    if name == "sealed":
        (path / "segments").mkdir()
        shutil.copyfile(path / "events.jsonl", path / "segments" / "1.jsonl")
    with pytest.raises(RecordingDamaged, match="is a FIFO"):
        recover(path, start_clock())


def test_symbolic_link_to_a_regular_file_is_still_followed(tmp_path: Path) -> None:
    path = capture(tmp_path)
    (path / "events.jsonl").rename(tmp_path / "elsewhere.jsonl")
    (path / "events.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    with open_recording(path) as source:
        assert len(list(source)) == 4
