"""Runs of draws as data, and back."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import ValueRefused
from reenact.format.canonical import decode, plain, stored
from reenact.format.draw_runs import LONGEST_RUN, Run, dump_run, load_run

_floats = st.floats(allow_nan=False, allow_infinity=False)
_values = st.one_of(_floats, st.integers(-(2**70), 2**70), st.text(), st.booleans(), st.none())
_columns = st.one_of(
    st.lists(_floats, min_size=1),
    st.lists(st.integers(-(2**70), 2**70), min_size=1),
    st.lists(st.text(), min_size=1),
    st.lists(st.binary(), min_size=1),
    st.lists(_values, min_size=1),
)


@st.composite
def _runs(draw: Any) -> Run:
    columns = draw(st.lists(_columns, min_size=1, max_size=5))
    turns = [number for number, column in enumerate(columns) for _ in column]
    names = [f"clock c{number}" for number in range(len(columns))]
    return Run(names, draw(st.permutations(turns)), columns)


def _bits(run: Run) -> Any:
    """With what ``==`` does not tell apart: 0 and -0.0, 1 and 1.0 and True."""
    columns = [[(type(value), repr(value)) for value in column] for column in run.columns]
    return run.names, list(run.turns), columns


@given(_runs())
def test_a_run_comes_back_as_it_was(run: Run) -> None:
    written = stored(dump_run(run))
    assert _bits(load_run(plain(decode(written)))) == _bits(run)


def test_a_clock_takes_a_few_bytes() -> None:
    times = [1_794_807_123.25 + step * 1e-6 for step in range(LONGEST_RUN)]
    run = Run(["clock time.time"], [0] * LONGEST_RUN, [times])
    assert len(stored(dump_run(run))) < 4 * LONGEST_RUN


def test_one_draw_is_an_event_as_it_always_was() -> None:
    run = Run(["rng random.random"], [0], [[0.5]])
    assert dump_run(run) == {"source": "rng", "key": "random.random", "value": 0.5}


def test_a_run_is_named_after_its_first_draw() -> None:
    run = Run(["clock a", "rng b"], [1, 0, 0], [[1.0, 2.0], ["x"]])
    data = dump_run(run)
    assert (data["source"], data["key"], data["turns"]) == ("rng", "b", "100")


@pytest.mark.parametrize(
    "change",
    [
        {"count": 3},
        {"count": 1},
        {"count": LONGEST_RUN + 1},
        {"count": True},
        {"steps": [1, 2]},
        {"steps": "1"},
        {"steps": [math.pi]},
        {"first": "now"},
        {"source": 1},
        {"turns": "00"},
        {"turns": "0!", "names": ["clock a"], "columns": [{"values": [1, 2]}]},
        {"turns": "01", "names": ["clock a"], "columns": [{"values": [1, 2]}]},
        {"turns": "00", "names": [7], "columns": [{"values": [1, 2]}]},
        {"turns": "00", "names": ["clock a"], "columns": [{"values": [1]}]},
        {"turns": "00", "names": ["clock a"], "columns": [{"first": 1.0, "steps": [2**80]}]},
    ],
    ids=lambda change: ",".join(f"{name}={str(value)[:12]}" for name, value in change.items()),
)
def test_what_no_run_makes_is_refused(change: dict[str, Any]) -> None:
    data = {"source": "clock", "key": "time.time", "count": 2, "first": 1.0, "steps": [1]}
    with pytest.raises(ValueRefused, match="not a run of draws"):
        load_run({**data, **change})
