"""Sessions whose disk fills up, and sessions that are killed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import DivergenceError, RecordingUnfinished, open_recording, verify
from reenact.cli.main import main as reenact_command
from tests.integration.processes import (
    Acks,
    let_some_instants_pass,
    run_program,
    start_program,
)
from tests.integration.programs.session_for_ever import step
from tests.integration.sessions import Studio

CONTAINERS = ["tape", "capture"]


def _fill(container: str, place: Path, mode: str = "record", limit: int = 20_000) -> Any:
    done = run_program("session_until_full", container, place, str(limit), mode)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_disk_that_fills_up_ends_the_recording_and_not_the_program(
    container: str, tmp_path: Path
) -> None:
    place = tmp_path / "recording"
    report = _fill(container, place)
    assert report["answers"] == [True] * 60
    stopped, *more = report["warnings"]
    assert "recording stopped after event" in stopped
    assert "the program continues" in stopped
    if container == "capture":  # the manifest is another file
        assert (report["status"], more) == ("error", [])
        assert verify(place).manifest.status == "error"
    else:  # there is no room for the end of the tape, either
        assert report["status"] is None
        assert len(more) == 1
        assert "hint:" in more[0]
        with pytest.raises(RecordingUnfinished):
            open_recording(place)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("mode", ["rewrite", "record_missing"])
def test_a_new_recording_that_ran_out_of_room_does_not_replace_the_old_one(
    container: str, mode: str, tmp_path: Path
) -> None:
    studio = Studio(tmp_path)
    place: dict[str, Any] = {container: tmp_path / "recording"}
    body = lambda: studio.get("kept")  # noqa: E731
    old = studio.record(body, **place)
    report = _fill(container, tmp_path / "recording", mode)
    assert report["answers"] == [True] * 60
    assert report["warnings"]
    assert studio.replay(body, **place) == old


def _kill(container: str, place: Path, seed: str) -> int:
    """Kill a session at a random instant; the number of calls that it had made."""
    chance = random.Random(seed)
    with Acks(place.with_name("pipe")) as acks:
        child = start_program("session_for_ever", container, place, "record", acks.path)
        try:
            acks.wait_for(chance.choice((1, 2, 3, chance.randrange(1, 40))))
            let_some_instants_pass(chance)
        finally:
            child.kill()
            child.communicate()
        acks.rest()
        return len(acks.seen["made"])


@pytest.mark.soak
@pytest.mark.parametrize("container", CONTAINERS)
def test_what_a_killed_session_made_is_recovered_and_re_enacted(
    container: str,
    tmp_path: Path,
    rounds: Callable[[int, int], int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    for turn in range(rounds(2, 60)):
        seed = f"{container} {random.getrandbits(32)}"
        print(f"seed: {seed}")
        folder = tmp_path / str(turn)
        folder.mkdir()
        place: dict[str, Any] = {container: folder / "recording"}
        made = _kill(container, folder / "recording", seed)
        with pytest.raises(RecordingUnfinished), reenact.session(mode="replay", **place):
            pytest.fail("it does not open")
        assert reenact_command(["recover", str(folder / "recording")]) == 0
        assert _replayed(place, made + 5) >= made


def _replayed(place: dict[str, Any], most: int) -> int:
    """How many calls a replay gives before it is at the end."""
    session = reenact.session(mode="replay", strict=True, patience=60, **place)
    with pytest.raises(DivergenceError), session:
        for number in range(most):
            answer = step(session, number)
            expected = (number * number, [-number, number], [number, "a", "b"])[number % 3]
            assert answer == expected
    return number


def test_a_killed_recording_can_be_added_to_when_it_is_recovered(tmp_path: Path) -> None:
    place: dict[str, Any] = {"capture": tmp_path / "recording"}
    made = _kill("capture", tmp_path / "recording", "any")
    assert reenact_command(["recover", str(tmp_path / "recording")]) == 0
    count = made + 7

    def run(mode: str) -> list[Any]:
        with reenact.session(mode=mode, strict=True, **place) as session:
            return [step(session, number) for number in range(count)]

    recorded = run("record_missing")
    assert run("replay") == recorded
