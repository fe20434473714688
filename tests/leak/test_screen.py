"""What the commands print about a recording full of secrets: none of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from reenact import start_recording
from reenact.policy.redaction.redactor import Redactor
from reenact.store.seal import key_path, make_key
from tests.integration.processes import PATIENCE, environment
from tests.leak.places import BY_NAME, FREE
from tests.leak.planted import Plant, known_value, plant_name, plant_shape

KINDS = ("shape.openai", "shape.bearer", "shape.jwt", "shape.pem", "shape.github")
COMMANDS = {
    "show": ["show", "PATH"],
    "show wide": ["show", "PATH", "--width", "0"],
    "show one": ["show", "PATH", "5"],
    "show json": ["show", "PATH", "--json"],
    "show grep": ["show", "PATH", "--grep", "REDACTED"],
    "stats": ["stats", "PATH"],
    "stats json": ["stats", "PATH", "--json"],
    "verify": ["verify", "PATH"],
    "verify json": ["verify", "PATH", "--json"],
    "redact": ["redact", "PATH", "AGAIN", "--profile", "strict"],
    "pack": ["pack", "PATH", "PACKED"],
}


def _plants() -> Iterator[tuple[Plant, object]]:
    for place, make in FREE.items():
        for kind in KINDS:
            plant = plant_shape(kind, place)
            yield plant, make(plant.text)
        plant = known_value("declared", place)
        yield plant, make(plant.text)
    for place, make_named in BY_NAME.items():
        for name in ("password", "api_key", "Authorization"):
            plant = plant_name(name, place)
            yield plant, make_named(name, plant.text)


PLANTS = list(_plants())


@pytest.fixture(scope="module")
def make_recording(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Each is made once, in whatever order the tests of this module come."""

    @cache
    def make(name: str) -> Path:
        path = tmp_path_factory.mktemp("screen") / name
        declared = [known_value("declared", place).text for place in FREE]
        redactor = Redactor("default", declared=declared)
        with start_recording(path, redaction=redactor, seal=True) as started:
            for _, value in PLANTS:
                started.add("tool_result", {"callId": "c", "ok": True, "result": value})
        return path

    return make


@pytest.fixture(params=["capture", "tape.jsonl"])
def recording(request: pytest.FixtureRequest, make_recording: Callable[[str], Path]) -> Path:
    return make_recording(request.param)


def _run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "reenact", *arguments],
        capture_output=True,
        env=environment(COLUMNS="300"),
        timeout=PATIENCE,
        cwd=folder,
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_prints_a_secret(command: str, recording: Path, tmp_path: Path) -> None:
    places = {
        "PATH": str(recording),
        "AGAIN": str(tmp_path / "again"),
        "PACKED": str(tmp_path / "p"),
    }
    done = _run([places.get(word, word) for word in COMMANDS[command]], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout or done.stderr
    for plant, _ in PLANTS:
        for needle in plant.needles():
            assert needle not in done.stdout
            assert needle not in done.stderr


def test_the_screen_does_show_the_events(recording: Path, tmp_path: Path) -> None:
    """The other test would pass if nothing were printed."""
    done = _run(["show", str(recording), "--json"], tmp_path)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(PLANTS)
    assert all("REDACTED" in json.dumps(line) for line in lines[:5])


def test_the_key_is_nowhere_in_the_recording(recording: Path) -> None:
    key = make_key(key_path(dict(os.environ)))  # the one there is; a tape is not sealed
    for file in recording.parent.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert key not in content
            assert key.hex().encode() not in content
