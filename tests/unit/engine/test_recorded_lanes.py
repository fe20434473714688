"""Which events are in which lane."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import reenact
from reenact.engine.lanes import Lane
from reenact.engine.patches.processes import inside_lane
from reenact.engine.session.child_processes import RecordedLanes

LANES = ["0", "0.1.2", "0.1", "0.10.1", "0.1.2.3", "0.1.2", "0.2.1"]


@pytest.fixture
def lanes(tmp_path: Path) -> Iterator[RecordedLanes]:
    with reenact.session(capture=tmp_path / "c", mode="record", seal=False) as session:
        for name in LANES:
            with inside_lane(session, Lane(name)):
                session.call("ask", {}, dict, capability="net.fetch")
    with reenact.open_recording(tmp_path / "c") as source:
        yield RecordedLanes(source)


@pytest.mark.parametrize(
    "lane, found",
    [
        ("0", LANES),
        ("0.1", ["0.1.2", "0.1", "0.1.2.3", "0.1.2"]),
        ("0.1.2", ["0.1.2", "0.1.2.3", "0.1.2"]),
        ("0.10", ["0.10.1"]),
        ("0.3", []),
    ],
)
def test_what_is_under_a_lane(lane: str, found: list[str], lanes: RecordedLanes) -> None:
    events = lanes.under(lane)
    read = list(iter(events.next, None))
    assert [event.lane for event in read] == found
    assert [events.at(event.seq).lane for event in read] == found


@pytest.mark.parametrize("lane, longest", [("0.1", "0.1.2"), ("0", "0.1"), ("0.2.1", None)])
def test_the_child_that_did_most(lane: str, longest: str | None, lanes: RecordedLanes) -> None:
    assert lanes.longest_below(lane) == longest
