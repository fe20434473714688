"""What goes wrong, what is never the same, and what nobody waits for: replayed all the same."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest

from tests.conftest import SOAK
from tests.frameworks.conftest import Trials
from tests.frameworks.servers import Aimock, Llmock
from tests.frameworks.trying import Trial
from tests.integration.running import Ran

pytestmark = [pytest.mark.slow, pytest.mark.soak]

WORLDS = ("httpx2", "httpx")
_TURNS = cycle(WORLDS)


def _worlds() -> tuple[str, ...]:
    """In ``make soak`` both, for each test; else one, and the other for the next: what goes wrong
    below a client goes wrong alike whatever it was asked for."""
    return WORLDS if SOAK else (next(_TURNS),)


def _check(tried: Trial, server: Aimock | Llmock, name: str) -> Ran:
    """Recorded and replayed alike, without another request. What the recorded run gave."""
    program = tried.bring(name)
    recorded = tried.record(program)
    assert recorded.code == 0, recorded.err
    asked = len(server.journal())
    replayed = tried.replay(program)
    assert replayed.own == recorded.own, replayed.err
    assert ", 0 live, 0 unused" in replayed.summary
    assert len(server.journal()) == asked > 0
    return recorded


@pytest.mark.parametrize("world", _worlds())
def test_identical_prompts_at_once_get_each_its_own_answer(
    world: str, trial: Trials, aimock: Aimock
) -> None:
    recorded = _check(trial(world), aimock, "identical")
    ids = [line for line in recorded.out.decode().splitlines() if line.startswith("arrived")]
    assert len({line.split()[2] for line in ids}) == 5


@pytest.mark.parametrize("world", _worlds())
def test_a_prompt_with_time_uuid_and_date_needs_no_rule(
    world: str, trial: Trials, aimock: Aimock
) -> None:
    _check(trial(world), aimock, "volatile")


@pytest.mark.parametrize("world", _worlds())
def test_a_stream_that_nobody_reads_to_the_end(world: str, trial: Trials, aimock: Aimock) -> None:
    recorded = _check(trial(world), aimock, "stops_early")
    assert b"ended [CancelledError" in recorded.out


_TROUBLE = {
    "again": {"type": "fail", "status": 429, "times": 2, "retry_after": 0.05},
    "task": {"type": "fail", "status": 503, "times": 2},
    "given_up": {"type": "fail", "status": 429},
    "breaks_off": {"type": "stream_fault", "kind": "disconnect", "after_chunks": 2},
}
_SAID = {
    "again": b"after 2 more",
    "task": b"task after 2",
    "given_up": b"given up 429",
    "breaks_off": b"broke off",
}


@pytest.mark.parametrize(
    "way,world", [(way, world) for way in sorted(_TROUBLE) for world in _worlds()]
)
def test_a_server_in_trouble(world: str, way: str, trial: Trials, llmock: Llmock) -> None:
    behavior: Any = _TROUBLE[way]
    llmock.reset(behavior)
    recorded = _check(trial(world, llmock.address, WAY=way), llmock, "troubled")
    assert _SAID[way] in recorded.out


def test_a_truncated_stream_ends_where_it_ended(trial: Trials, llmock: Llmock) -> None:
    llmock.reset({"type": "stream_fault", "kind": "truncate", "after_chunks": 2})
    recorded = _check(trial("httpx2", llmock.address, WAY="breaks_off"), llmock, "troubled")
    assert recorded.out.count(b"chunk") >= 2
