"""Tasks that race: every replay ends as the recording did, and every recording has the same lanes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.racing import Program, check_replays
from tests.integration.racing_tasks import PROGRAMS


@pytest.mark.soak
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_replay_of_tasks_ends_as_the_recording_did(
    program: Program, memory_path: Path, rounds: Callable[[int, int], int]
) -> None:
    check_replays(program, memory_path, recordings=rounds(1, 40), replays=rounds(3, 10))
