"""What goes into a sink comes out of the source: any events, both containers, any threshold."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reenact.format.canonical import decode, exact, stored
from reenact.format.event import TYPES, Draft
from reenact.format.manifest import Flag
from reenact.store.payload_decoder import is_delta
from reenact.store.reader import open_recording
from reenact.store.verify import verify
from tests.property.values import DATA, NAMES, TEXTS
from tests.unit.store.samples import PLAIN, contents, raw_lines, read_manifest, record

LANES = st.sampled_from(["0", "0", "0.1", "0.1.2"])
# Not the eight: their minimum fields are tested elsewhere, here the data is arbitrary.
KINDS = st.sampled_from(["x_request", "x_response", "x_note"])
THRESHOLDS = st.sampled_from([0, 1, 16, 100, 600, 64 * 1024])


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Payloads that repeat each other, as those of agents do."""
    history = draw(st.lists(TEXTS.map(lambda text: text * 40), min_size=1, max_size=4))
    turns: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 6))):
        turns.append({"messages": list(history), "n": draw(st.integers(0, 3))})
        if draw(st.booleans()):
            history.append(draw(TEXTS) * draw(st.integers(1, 60)))
        if draw(st.integers(0, 4)) == 0:
            history = history[1:] or ["again"]
    return turns


@st.composite
def scripts(draw: st.DrawFn) -> list[Draft]:
    payloads: list[dict[str, Any]] = draw(
        st.one_of(st.lists(DATA, max_size=6), conversations(), st.just([{"b": b"\xff" * 900}] * 3))
    )
    drafts: list[Draft] = []
    for data in payloads:
        parent = draw(st.none() | st.integers(1, len(drafts))) if drafts else None
        drafts.append(
            Draft(
                type=draw(KINDS),
                data=data,
                ts=draw(st.integers(0, 2**50)),
                lane=draw(LANES),
                parent=parent,
                op=draw(st.sampled_from(["", "chat"])),
            )
        )
    return drafts


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def expected(drafts: list[Draft]) -> list[tuple[int, str, str, int | None, dict[str, Any]]]:
    return [(n, one.type, one.lane, one.parent, one.data) for n, one in enumerate(drafts, 1)]


@given(scripts(), THRESHOLDS, st.booleans())
def test_any_events_come_back_from_both_containers(
    drafts: list[Draft], threshold: int, deltas: bool
) -> None:
    options = replace(PLAIN, blob_threshold=threshold, deltas=deltas)
    with folder() as place:
        directory = record(place / "capture", drafts, options)
        tape = record(place / "tape.jsonl", drafts, options)
        for path in (directory, tape):
            verify(path)
            assert contents(path) == expected(drafts)
            with open_recording(path) as source:
                assert [one.payload for one in source] == [exact(one.data) for one in drafts]
                assert [one.ts for one in source] == [one.ts for one in drafts]


@given(scripts(), st.integers(0, 10**6))
def test_the_content_hash_is_that_of_the_content(drafts: list[Draft], later: int) -> None:
    with folder() as place:
        first = record(place / "one", drafts)
        again = [
            Draft(type=one.type, data=one.data, ts=one.ts + later, lane=one.lane, op="other")
            for one in drafts
        ]
        options = replace(PLAIN, blob_threshold=30, deltas=False)
        second = record(place / "two", again, options, capture_id="cap_2", run_id="run_2")
        tape = record(place / "three.jsonl", drafts)
        hashes = {read_manifest(path).integrity.content_hash for path in (first, second, tape)}
        assert len(hashes) == 1


def inline(value: Any) -> Iterator[Any]:
    """Every value in stored data below the top that stands there by itself, not as a blob."""
    if isinstance(value, dict) and "$blob" in value:
        return
    yield value
    if isinstance(value, (dict, list)) and "$bytes" not in value:
        for item in value.values() if isinstance(value, dict) else value:
            yield from inline(item)


def own_size(value: Any) -> int:
    return len(value.encode()) if isinstance(value, str) else len(stored(value))


@given(
    st.lists(
        st.dictionaries(
            NAMES, st.one_of(DATA, TEXTS.map(lambda text: text * 30), st.binary(max_size=300))
        ),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 200),
)
def test_nothing_above_the_threshold_stands_inline(
    datas: list[dict[str, Any]], threshold: int
) -> None:
    drafts = [Draft(type="x_note", data=data, ts=0) for data in datas]
    options = replace(PLAIN, blob_threshold=threshold, deltas=False)
    with folder() as place:
        path = record(place / "capture", drafts, options)
        for line in raw_lines(path):
            data = decode(line)["data"]
            for item in data.values():
                for value in inline(item):
                    if isinstance(value, (str, dict, list)):
                        assert (
                            own_size(value) <= max(threshold, 2) or len(stored(data)) <= threshold
                        )
        verify(path)
        assert contents(path) == expected(drafts)


@given(conversations(), st.randoms(use_true_random=False))
def test_any_order_of_looking_gives_the_same_events(
    turns: list[dict[str, Any]], chance: Any
) -> None:
    drafts = [Draft(type="x_request", data=data, ts=0, op="chat") for data in turns * 3]
    with folder() as place, open_recording(record(place / "capture", drafts)) as source:
        order = list(range(1, len(drafts) + 1)) * 2
        chance.shuffle(order)
        for seq in order:
            assert source.at(seq).data == drafts[seq - 1].data


@given(conversations())
def test_the_delta_flag_says_whether_there_are_deltas(turns: list[dict[str, Any]]) -> None:
    drafts = [Draft(type="x_request", data=data, ts=0, op="chat") for data in turns]
    with folder() as place:
        path = record(place / "capture", drafts)
        found = any(is_delta(line[line.index(b'"data":') + 7 :]) for line in raw_lines(path))
        assert (Flag.DELTAS in read_manifest(path).flags) == found


@given(st.sampled_from(TYPES), DATA)
def test_a_sink_takes_any_data_and_leaves_judging_to_verify(
    kind: str, data: dict[str, Any]
) -> None:
    with folder() as place:
        path = record(place / "capture", [Draft(type=kind, data=data, ts=0)])
        assert contents(path) == [(1, kind, "0", None, data)]
