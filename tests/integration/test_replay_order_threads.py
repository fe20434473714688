"""Threads that race, with and without loops: the same result and the same lanes every time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.racing import Program, check_replays
from tests.integration.racing_threads import PROGRAMS


@pytest.mark.soak
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_replay_of_threads_ends_as_the_recording_did(
    program: Program, memory_path: Path, rounds: Callable[[int, int], int]
) -> None:
    check_replays(program, memory_path, recordings=rounds(1, 40), replays=rounds(3, 10))
