"""Secrets in files: in their content, where that is kept, and in their names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact import DivergenceError
from reenact.policy.model import Files, Policy
from reenact.policy.redaction.redactor import Profile
from tests.leak.planted import SHAPES, Plant, plant_name, plant_shape
from tests.leak.room import Room
from tests.leak.search import Planted

Play = Callable[[Path, str], object]


def _content(folder: Path, secret: str) -> object:
    place = folder / "notes.txt"
    place.write_bytes(f"it is {secret}\n".encode())
    with open(place, "ab") as file:
        file.write(secret.encode())
    return place.read_text()


def _binary(folder: Path, secret: str) -> object:
    place = folder / f"blob {len(os.listdir(folder))}"
    place.write_bytes(b"\xff\x00 " + secret.encode() + b" \x00")
    return place.read_bytes()


def _names(folder: Path, secret: str) -> object:
    place = folder / f"of {secret} it"
    place.write_text("harmless")
    found = place.read_text(), os.listdir(folder)
    os.rename(place, folder / f"for {secret} too")
    os.remove(folder / f"for {secret} too")
    with pytest.raises(FileNotFoundError):
        place.read_text()
    return found


PLAYS: dict[str, Play] = {
    play.__name__.removeprefix("_"): play for play in (_content, _binary, _names)
}


def _fits(kind: str, place: str) -> bool:
    """A name has no slashes, and is not long."""
    text = plant_shape(kind, place).text
    return place != "names" or ("/" not in text and "\n" not in text and len(text) < 200)


def _room(folder: Path, profile: Profile) -> tuple[Room, Policy, Path]:
    """Recordings are in one folder, files in another, which is not looked through."""
    files, recordings = folder / "data", folder / "recordings"
    files.mkdir()
    recordings.mkdir()
    return (
        Room(recordings, profile),
        Policy(id="p", files=Files((str(files),), content=True)),
        files,
    )


@pytest.mark.parametrize("profile", ["default", "strict"])
@pytest.mark.parametrize("place", sorted(PLAYS))
def test_no_secret_of_a_file_is_kept(
    place: str, profile: Profile, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plants = [plant_shape(kind, place) for kind in sorted(SHAPES) if _fits(kind, place)]
    assert len(plants) > 30
    room, policy, files = _room(tmp_path, profile)
    with room.session("record", policy=policy):
        for plant in plants:
            PLAYS[place](files, plant.text)
    assert "fs" in (tmp_path / "recordings" / "recording" / "events.jsonl").read_text()
    assert room.leaks(_planted(place, plants), capfd) == []


def test_no_secret_is_shown_where_a_file_differs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plant = plant_name("password", "differs")
    room, policy, files = _room(tmp_path, "default")
    place = files / "settings"
    place.write_text("password=nothing")
    with room.session("record", policy=policy):
        place.read_text()
    place.write_text(f"password={plant.text}")
    with (
        pytest.raises(DivergenceError) as caught,
        room.session("replay", policy=policy, strict=True),
    ):
        place.read_text()
    room.note(caught.value)
    assert room.leaks(_planted("differs", [plant]), capfd) == []


def test_a_secret_of_a_file_comes_again_where_it_was_sealed(tmp_path: Path) -> None:
    room, policy, files = _room(tmp_path, "default")
    place = files / "settings"
    place.write_text(f"password={plant_name('password', 'sealed').text}")
    with room.session("record", policy=policy):
        recorded = place.read_text()
    place.unlink()
    with room.session("replay", policy=policy, strict=True):
        assert place.read_text() == recorded


def _planted(place: str, plants: list[Plant]) -> list[Planted]:
    return [Planted(place, None, plants)]  # type: ignore[arg-type]
