"""What goes wrong, what is never the same, and what nobody waits for: replayed all the same."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frameworks.conftest import Trials
from tests.frameworks.servers import Aimock, Llmock
from tests.frameworks.trying import Trial
from tests.integration.running import Ran

pytestmark = pytest.mark.slow

WORLDS = ("httpx2", "httpx")


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


@pytest.mark.parametrize("world", WORLDS)
def test_identical_prompts_at_once_get_each_its_own_answer(
    world: str, trial: Trials, aimock: Aimock
) -> None:
    recorded = _check(trial(world), aimock, "identical")
    ids = [line for line in recorded.out.decode().splitlines() if line.startswith("arrived")]
    assert len({line.split()[2] for line in ids}) == 5


@pytest.mark.parametrize("world", WORLDS)
def test_a_prompt_with_time_uuid_and_date_needs_no_rule(
    world: str, trial: Trials, aimock: Aimock
) -> None:
    _check(trial(world), aimock, "volatile")


@pytest.mark.parametrize("world", WORLDS)
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


@pytest.mark.parametrize("way", sorted(_TROUBLE))
@pytest.mark.parametrize("world", WORLDS)
def test_a_server_in_trouble(world: str, way: str, trial: Trials, llmock: Llmock) -> None:
    behavior: Any = _TROUBLE[way]
    llmock.reset(behavior)
    recorded = _check(trial(world, llmock.address, WAY=way), llmock, "troubled")
    assert _SAID[way] in recorded.out


def test_a_truncated_stream_ends_where_it_ended(trial: Trials, llmock: Llmock) -> None:
    llmock.reset({"type": "stream_fault", "kind": "truncate", "after_chunks": 2})
    recorded = _check(trial("httpx2", llmock.address, WAY="breaks_off"), llmock, "troubled")
    assert recorded.out.count(b"chunk") >= 2
