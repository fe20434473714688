"""Secrets in processes: in their words, their environment, what they are told and what they say."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from reenact import DivergenceError
from tests.leak.planted import SHAPES, Plant, plant_name, plant_shape
from tests.leak.room import Room
from tests.leak.search import Planted

Play = Callable[[str], object]


def _words(secret: str) -> object:
    return subprocess.run(["true", secret, f"--token={secret}"])


def _shell(secret: str) -> object:
    return os.system(f"true '{secret}'")  # noqa: S605 - a shell is what is tried


def _environment(secret: str) -> object:
    return subprocess.run(["true"], env={**os.environ, "API_KEY": secret, "NOTE": secret})


def _told(secret: str) -> object:
    return subprocess.run(["sort"], input=f"a\n{secret}\nb\n".encode(), stdout=subprocess.DEVNULL)


def _said(secret: str) -> object:
    script = "read a; echo $a; echo $a >&2"
    words = ["sh", "-c", script]
    return subprocess.run(words, input=f"{secret}\n".encode(), capture_output=True)


def _file(secret: str) -> object:
    with TemporaryFile() as file:
        file.write(secret.encode())
        file.seek(0)
        return subprocess.run(["sort"], stdin=file, stdout=subprocess.DEVNULL)


def _nobody(secret: str) -> object:
    with pytest.raises(OSError, match=r"No such file|File name too long"):
        subprocess.run([secret])
    return None


PLAYS: dict[str, Play] = {
    play.__name__.removeprefix("_"): play
    for play in (_words, _shell, _environment, _told, _said, _file, _nobody)
}


@pytest.mark.parametrize("place", sorted(PLAYS))
def test_no_secret_of_a_process_is_kept(
    place: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plants = [plant_shape(kind, place) for kind in sorted(SHAPES) if _fits(kind, place)]
    room = Room(tmp_path)
    with room.session("record"):
        for plant in plants:
            PLAYS[place](plant.text)
    assert room.leaks(_planted(place, plants), capfd) == []


def _fits(kind: str, place: str) -> bool:
    """A name has no slashes, and no lines."""
    text = plant_shape(kind, place).text
    return "\n" not in text and not (place == "nobody" and "/" in text)


def test_no_secret_that_comes_in_pieces_is_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plants = [plant_shape(kind, "pieces") for kind in ("shape.openai", "shape.github")]
    room = Room(tmp_path)
    with room.session("record"):
        for plant in plants:
            script = "head -c 9 s; sleep 0.01; tail -c +10 s"
            (tmp_path.parent / "s").write_text(plant.text, encoding="utf-8")
            subprocess.run(["sh", "-c", script], cwd=tmp_path.parent, capture_output=True)
    assert room.leaks(_planted("pieces", plants), capfd) == []


def test_no_secret_is_shown_where_a_process_differs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plant = plant_name("password", "differs")
    room = Room(tmp_path)
    with room.session("record"):
        subprocess.run(["cat"], input=b"something", stdout=subprocess.DEVNULL)
    told = f"password={plant.text}".encode()
    with pytest.raises(DivergenceError) as caught, room.session("replay"):
        subprocess.run(["cat"], input=told, stdout=subprocess.DEVNULL)
    room.note(caught.value)
    assert room.leaks(_planted("differs", [plant]), capfd) == []


def test_a_secret_of_a_process_comes_again_where_it_was_sealed(tmp_path: Path) -> None:
    secret = plant_shape(sorted(SHAPES)[0], "sealed").text
    room = Room(tmp_path)
    with room.session("record"):
        first = _said(secret)
    with room.session("replay"):
        again = _said(secret)
    assert str(again) == str(first)


def _planted(place: str, plants: list[Plant]) -> list[Planted]:
    return [Planted(place, None, plants)]  # type: ignore[arg-type]
