"""What is done with a call: does it cost more when more was recorded?

The decision alone: key, policy, the recorded event found and compared. Nothing is handed to a
program. Calls come in the order in which they were recorded.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Literal

from bench.measure import Row, Setting, at_most, cpu, fact, ratio
from bench.recordings import COMPARER, REDACTOR, call, make_calls
from reenact import Policy, open_recording
from reenact.engine.call import Call, Serve
from reenact.engine.decision.machine import Machine
from reenact.engine.decision.recorded_calls import RecordedCalls
from reenact.engine.divergence.diagnosis import Diagnosis
from reenact.policy.access import KNOWN, Access
from reenact.policy.model import Pinned
from reenact.store.source import LogSource

TITLE = "deciding about a call"

Match = Literal["lane", "lookup"]

_MATCHES: tuple[Match, ...] = ("lane", "lookup")
_SMALL = 1_000


def run(setting: Setting) -> Iterator[Row]:
    small = setting.folder / "small"
    make_calls(small, _SMALL)
    for match in _MATCHES:
        costs = [_cost_of_all(small, match) for _ in range(setting.rounds)]
        yield fact(f"decision, {match}, {_SMALL:,} recorded", costs, "µs", clock="cpu")
    for count in (10_000, 100_000) if setting.quick else (10_000, 100_000, 1_000_000):
        large = setting.folder / "large"
        make_calls(large, count)
        for match in _MATCHES:
            yield from _growth(setting, match, small, large, count)
        shutil.rmtree(large)


def _growth(setting: Setting, match: Match, small: Path, large: Path, count: int) -> Iterator[Row]:
    """The large recording in as many parts as there are rounds, each beside all of the small."""
    ends = [1, *(count * number // setting.rounds for number in range(1, setting.rounds + 1))]
    costs, others = [], []
    with open_recording(large) as source:
        machine = _machine(source, match)
        first = _cost(machine, 0, 1) / 1000
        for start, end in pairwise(ends):
            others.append(median(_cost_of_all(small, match) for _ in range(5)))
            costs.append(_cost(machine, start, end))
    name = f"decision, {match}: {count:,} recorded / {_SMALL:,} recorded"
    yield ratio(name, costs, others, at_most(1.3))
    yield fact(
        f"first decision, {match}, {count:,} recorded", [first], "ms", at_most(1), clock="cpu"
    )


def _cost_of_all(path: Path, match: Match) -> float:
    with open_recording(path) as source:
        return _cost(_machine(source, match), 0, len(source))


def _machine(source: LogSource, match: Match) -> Machine:
    policy = Policy(id="bench", match=match)
    return Machine(
        "replay",
        policy,
        Access(Pinned.of(policy), KNOWN),
        COMPARER,
        Diagnosis(COMPARER, REDACTOR),
        script=RecordedCalls(source),
    )


def _cost(machine: Machine, first: int, last: int) -> float:
    """Microseconds for one of these calls. They are made beforehand, a thousand at a time."""

    def decide(asked: Call) -> None:
        decision, _ = machine.decide(asked, "0")
        if not isinstance(decision, Serve):
            raise AssertionError(f"not served: {asked.request}")

    seconds = 0.0
    for start in range(first, last, _SMALL):
        calls = [call(number) for number in range(start, min(start + _SMALL, last))]
        seconds += cpu(decide, calls)
    return seconds * 1e6 / (last - first)
