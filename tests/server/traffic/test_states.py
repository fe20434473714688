"""The states of a replay: the table of the protocol page, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reenact.exchange.model import STATES, TERMINAL, State
from reenact.server.replays.state import NEXT, deadline_of, due_at, follows
from reenact.server.runtime import Timings

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "protocol.md"
ROW = re.compile(r"^\| `(\w+)` \| ((?:`\w+`(?:, )?)+) \| ", re.MULTILINE)


def test_the_page_has_the_same_table() -> None:
    said = {
        found[1]: frozenset(re.findall(r"`(\w+)`", found[2]))
        for found in ROW.finditer(PAGE.read_text("utf-8"))
    }
    assert said == {state: after for state, after in NEXT.items() if after}


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", STATES)
def test_a_state_follows_only_where_the_table_says(before: State, after: State) -> None:
    assert follows(before, after) == (after in NEXT[before])
    if before in TERMINAL or after in ("requested", before):
        assert not follows(before, after)


def test_every_state_that_is_not_the_last_one_ends_by_itself() -> None:
    timings = Timings(deliver=60, start=30, run=300)
    deadline = deadline_of(1_000, timings)
    assert deadline == 391_000
    assert due_at("requested", 1_000, deadline, timings) == 61_000
    assert due_at("delivered", 50_000, deadline, timings) == 80_000
    assert due_at("delivered", 390_000, deadline, timings) == deadline
    assert due_at("running", 80_000, deadline, timings) == deadline
    assert {due_at(state, 1, deadline, timings) for state in TERMINAL} == {0}
    assert set(NEXT) == set(STATES)
    for state in set(STATES) - TERMINAL:
        assert follows(state, "expired")
