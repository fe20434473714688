"""Secrets in variables, files and arguments: none of them is in what is written or said."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import reenact
from reenact import DivergenceError
from reenact.engine.session.settings import resolve_settings
from reenact.format.draw_runs import load_aside
from reenact.policy.model import Files, Policy
from reenact.runs.replay_checks import compare_arguments
from tests.leak.planted import SHAPES, Plant, plant_shape

pytestmark = pytest.mark.thinned(2)

KINDS = list(SHAPES)[::4]
POLICY = Policy(id="p", files=Files(("data",), content=True))


def _written(folder: Path) -> Iterator[bytes]:
    return (place.read_bytes() for place in folder.rglob("*") if place.is_file())


def _check(folder: Path, plant: Plant) -> None:
    for text in _written(folder):
        for needle in plant.needles():
            assert needle not in text


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    plant = plant_shape(kind, "in a variable")
    monkeypatch.setenv("HARMLESS", f"a {plant.text} b")
    monkeypatch.setenv("DEPLOY_TOKEN", plant.text)
    with reenact.session(capture=tmp_path / "c", mode="record", root=tmp_path):
        assert plant.text in os.environ["HARMLESS"]
        assert os.environ["DEPLOY_TOKEN"] == plant.text
        assert plant.text in dict(os.environ).values()
    assert "HARMLESS" in (tmp_path / "c" / "events.jsonl").read_text()
    _check(tmp_path / "c", plant)


@pytest.mark.parametrize("kind", KINDS)
def test_in_an_argument(tmp_path: Path, kind: str) -> None:
    then, now = plant_shape(kind, "in an argument"), plant_shape(kind, "in another argument")
    with reenact.start_recording(tmp_path / "c") as recording:
        recording.add(reenact.RunStart(argv=["python", "p.py", f"--as={then.text}", "a"]))
    settings = resolve_settings(capture=tmp_path / "c", mode="replay", root=tmp_path)
    other = compare_arguments(settings, ["python", "p.py", f"--as={now.text}", "b"])
    assert other is not None
    said = f"{other.line()} {json.dumps(other.to_json())}"
    assert '"b"' in said
    for plant in (then, now):
        _check(tmp_path / "c", plant)
        for needle in plant.needles():
            assert needle.decode() not in said


@pytest.mark.parametrize("name", ["DEPLOY_TOKEN", "MY_API_KEY", "DB_PASSWORD"])
def test_a_variable_with_a_secret_name_leaves_not_even_a_placeholder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "short")
    with reenact.session(capture=tmp_path / "c", mode="record", root=tmp_path):
        assert os.environ[name] == os.environ.get(name) == dict(os.environ)[name] == "short"
        assert f"{name!r}: 'short'" in repr(os.environ)
    with reenact.open_recording(tmp_path / "c") as source:
        drawn = [name for event in source for name in load_aside(event.data).names]
    assert f"env {name}" not in drawn
    assert "env os.environ" in drawn
    assert b"short" not in b"".join(_written(tmp_path / "c"))


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_file_and_in_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    plant = plant_shape(kind, "in a file")
    place = tmp_path / "data" / "notes.txt"
    place.parent.mkdir()
    place.write_text(f"it is {plant.text} today")
    settings = {"capture": tmp_path / "c", "root": tmp_path, "policy": POLICY}
    with reenact.session(mode="record", **settings):  # type: ignore[arg-type]
        assert plant.text in place.read_text()
        place.write_text(f"again {plant.text}")
    _check(tmp_path / "c", plant)
    with (
        pytest.raises(DivergenceError) as caught,
        reenact.session(mode="replay", strict=True, **settings),  # type: ignore[arg-type]
    ):
        place.read_text()
    for needle in plant.needles():
        assert needle.decode() not in str(caught.value)
        assert needle.decode() not in capsys.readouterr().err
