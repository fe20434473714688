"""``open`` under a declared root returns what it always did, and refuses what it always did."""

from __future__ import annotations

import builtins
import io
import os
from pathlib import Path
from typing import Any

import pytest

import reenact

OPENED: dict[str, tuple[Any, ...]] = {
    "write": ("w",),
    "append": ("a",),
    "read and write": ("r+",),
    "write and read": ("w+",),
    "exclusive": ("x",),
    "bytes": ("wb",),
    "bytes both ways": ("r+b",),
    "unbuffered": ("wb", 0),
    "by lines": ("w", 1),
    "small buffer": ("wb", 100),
    "latin": ("w", -1, "latin-1", "replace", "\r\n"),
}
REFUSED: dict[str, tuple[Any, ...]] = {
    "no mode": ("q",),
    "two modes": ("rw",),
    "text and bytes": ("wbt",),
    "no buffer for text": ("w", 0),
    "encoded bytes": ("wb", -1, "utf-8"),
    "a number": (5,),
}


def _session(folder: Path, **more: Any) -> reenact.Session:
    return reenact.session(capture=folder / "c", mode="record", root=folder, files=["data"], **more)


@pytest.fixture(autouse=True)
def _data(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()


def _facts(file: Any) -> tuple[Any, ...]:
    asked = ("mode", "name", "encoding", "errors", "newlines", "line_buffering", "write_through")
    return (
        [getattr(file, name, None) for name in asked],
        isinstance(file, io.FileIO) or type(file),
        (file.readable(), file.writable(), file.seekable(), file.isatty(), file.tell()),
    )


def _use(place: Path, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    if not arguments[0].startswith("x"):
        place.write_bytes(b"before\n")
    with open(place, *arguments) as file:
        before = _facts(file)
        file.write(
            b"some\n" if "b" in arguments[0] else "so\u00e9me\n".encode("latin-1").decode("latin-1")
        )
    found = place.read_bytes()
    place.unlink()
    return before, file.closed, found


@pytest.mark.parametrize("way", OPENED)
def test_it_is_the_same_file(tmp_path: Path, way: str) -> None:
    place = tmp_path / "data" / "file"
    expected = _use(place, OPENED[way])
    with _session(tmp_path):
        assert _use(place, OPENED[way]) == expected
    with reenact.open_recording(tmp_path / "c") as source:
        kinds = [event.data["type"] for event in source if event.type == "state_mutation"]
    assert "file_write" in kinds


@pytest.mark.parametrize("way", REFUSED)
def test_it_refuses_the_same(tmp_path: Path, way: str) -> None:
    place = tmp_path / "data" / "file"
    with pytest.raises((TypeError, ValueError)) as plain, open(place, *REFUSED[way]):
        pass
    with (
        _session(tmp_path),
        pytest.raises((TypeError, ValueError)) as caught,
        open(place, *REFUSED[way]),
    ):
        pass
    assert (type(caught.value), str(caught.value)) == (type(plain.value), str(plain.value))


def test_without_roots_nothing_is_replaced(tmp_path: Path) -> None:
    before = (builtins.open, io.open, os.listdir)
    with reenact.session(capture=tmp_path / "c", mode="record", root=tmp_path):
        assert (builtins.open, io.open, os.listdir) == before
    with _session(tmp_path, overwrite=True):
        assert builtins.open is not before[0]
    assert (builtins.open, io.open, os.listdir) == before


def test_names_come_in_the_recorded_order(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    for name in "cab":
        (folder / name).touch()
    with _session(tmp_path):
        recorded = os.listdir(folder), [entry.name for entry in os.scandir(folder)]
    for name in "cab":
        (folder / name).unlink()
    for name in "bca":
        (folder / name).touch()
    with reenact.session(
        capture=tmp_path / "c", mode="replay", root=tmp_path, files=["data"], strict=True
    ):
        assert (os.listdir(folder), [entry.name for entry in os.scandir(folder)]) == recorded


def test_a_file_that_is_written_inside_a_live_call_is_not_noted(tmp_path: Path) -> None:
    def live() -> int:
        return (tmp_path / "data" / "file").write_text("x")

    with _session(tmp_path) as session:
        session.call("op", {}, live, capability="net.fetch")
    with reenact.open_recording(tmp_path / "c") as source:
        assert [event.type for event in source] == ["nondeterministic"]
