"""Laws of the content hash."""

from __future__ import annotations

import hashlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reenact.format.canonical import exact
from reenact.format.content_hash import ContentHash
from reenact.format.json_path import join
from tests.property.values import DATA, NAMES, VALUES

LANES = st.sampled_from(["0", "0.1", "0.2", "0.1.1", "0.10"])
KINDS = st.sampled_from(["tool_call", "tool_result", "x_note"])
STEPS = st.lists(st.tuples(LANES, KINDS, DATA), max_size=5)
Step = tuple[str, str, dict[str, Any]]


def content_hash(steps: list[Step]) -> str:
    content = ContentHash()
    for lane, kind, data in steps:
        payload = exact(data)
        content.add(lane, kind, payload, hashlib.sha256(payload).digest())
    return content.digest()


def interleaved(steps: list[Step], data: st.DataObject) -> list[Step]:
    """The same lanes, each in its order, otherwise mixed anew."""
    queues = {lane: [step for step in steps if step[0] == lane] for lane, *_ in steps}
    mixed: list[Step] = []
    while queues:
        lane = data.draw(st.sampled_from(sorted(queues)))
        mixed.append(queues[lane].pop(0))
        if not queues[lane]:
            del queues[lane]
    return mixed


@given(STEPS, st.data())
def test_how_lanes_interleave_does_not_matter(steps: list[Step], data: st.DataObject) -> None:
    assert content_hash(interleaved(steps, data)) == content_hash(steps)


@given(STEPS, st.data())
def test_two_hashes_agree_only_when_every_lane_agrees(
    steps: list[Step], data: st.DataObject
) -> None:
    other = data.draw(st.permutations(steps))

    def by_lane(all_steps: list[Step]) -> dict[str, list[tuple[str, bytes]]]:
        lanes: dict[str, list[tuple[str, bytes]]] = {}
        for lane, kind, one in all_steps:
            counted = {name: item for name, item in one.items() if name != "timing"}
            lanes.setdefault(lane, []).append((kind, exact(counted)))
        return lanes

    assert (content_hash(other) == content_hash(steps)) == (by_lane(other) == by_lane(steps))


@given(DATA, VALUES, VALUES)
def test_timing_never_matters(data: dict[str, Any], one: Any, other: Any) -> None:
    first = content_hash([("0", "x_note", {**data, "timing": one})])
    assert content_hash([("0", "x_note", {**data, "timing": other})]) == first


@given(DATA, NAMES, VALUES, VALUES, st.booleans())
def test_a_volatile_value_never_matters_and_a_kept_one_does(
    data: dict[str, Any], name: str, one: Any, other: Any, listed: bool
) -> None:
    # Paths are over names as stored, where a reserved one has another dollar.
    if name in ("timing", "volatile") or name.startswith("$"):
        name = f"n{name}"
    volatile = [join((name,))] if listed else []
    first = content_hash([("0", "x_note", {**data, name: one, "volatile": volatile})])
    second = content_hash([("0", "x_note", {**data, name: other, "volatile": volatile})])
    assert (first == second) == (listed or exact(one) == exact(other))
