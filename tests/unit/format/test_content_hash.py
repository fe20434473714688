from __future__ import annotations

import hashlib
from typing import Any

import pytest

from reenact.format.canonical import exact
from reenact.format.content_hash import ContentHash

Step = tuple[str, str, dict[str, Any]]


def content_hash(*steps: Step) -> str:
    content = ContentHash()
    for lane, kind, data in steps:
        payload = exact(data)
        content.add(lane, kind, payload, hashlib.sha256(payload).digest())
    return content.digest()


def one(**data: Any) -> str:
    return content_hash(("0", "x_note", data))


def test_lanes_may_interleave_in_any_way() -> None:
    a, b, c = ("0", "x", {"n": 1}), ("0.1", "x", {"n": 2}), ("0.1", "x", {"n": 3})
    assert content_hash(a, b, c) == content_hash(b, a, c) == content_hash(b, c, a)


def test_the_order_inside_a_lane_counts() -> None:
    a, b = ("0", "x", {"n": 1}), ("0", "x", {"n": 2})
    assert content_hash(a, b) != content_hash(b, a)


@pytest.mark.parametrize(
    "other",
    [("0.1", "x", {"n": 1}), ("0", "y", {"n": 1}), ("0", "x", {"n": 2}), ("0", "x", {"n": 1.0})],
)
def test_lane_type_and_data_count(other: Step) -> None:
    assert content_hash(("0", "x", {"n": 1})) != content_hash(other)


def test_moving_an_event_to_the_end_of_another_lane_counts() -> None:
    assert content_hash(("0", "x", {}), ("0.1", "y", {})) != content_hash(
        ("0", "x", {}), ("0", "y", {})
    )


def test_time_offsets_do_not_count() -> None:
    assert one(a=1, timing={"ms": 5}) == one(a=1, timing={"ms": 7}) == one(a=1, timing=None)
    assert one(a=1, timing=[1]) != one(a=2, timing=[1])


def test_how_a_request_was_written_does_not_count() -> None:
    assert one(a=1, rawHash="x") == one(a=1, rawHash="y") == one(a=1, timing=1, rawHash="z")
    assert one(a=1, rawHash="x") != one(a=2, rawHash="x")


def test_timing_inside_the_data_of_the_program_counts() -> None:
    assert one(value={"timing": 5}) != one(value={"timing": 7})


def test_paths_that_the_event_calls_volatile_do_not_count() -> None:
    def event(token: str, age: int, kept: int) -> str:
        return one(
            response={"headers": [["date", token], ["etag", "x"]], "body": {"age": age}},
            kept=kept,
            volatile=["$.response.headers[0][1]", "$.response.body.age"],
        )

    assert event("monday", 1, 0) == event("tuesday", 2, 0)
    assert event("monday", 1, 0) != event("monday", 1, 1)


def test_whether_a_volatile_value_is_there_at_all_counts() -> None:
    volatile = ["$.a"]
    assert one(a=1, volatile=volatile) != one(volatile=volatile)


@pytest.mark.parametrize(
    "listed",
    [
        ["$.missing", "$.a.b.c", "$.list[9]", "$.list.x", "$[0]"],
        ["not a path", "$.a[", 5, None, ["$.a"]],
        ["$[" + "9" * 5_000 + "]"],
        "$.a",
        {"$.a": 1},
        7,
    ],
)
def test_a_volatile_list_that_makes_no_sense_hides_nothing(listed: Any) -> None:
    base = {"a": 1, "list": [1]}
    assert one(**base, volatile=listed) == one(**base, volatile=[])
    assert one(**base, volatile=listed) != one(a=2, list=[1], volatile=listed)


def test_the_whole_of_the_data_cannot_be_declared_volatile() -> None:
    assert one(a=1, volatile=["$"]) != one(a=2, volatile=["$"])


def test_what_libraries_draw_aside_does_not_count() -> None:
    drawn = {"aside": True, "source": "clock", "key": "time.time", "value": 1.5}
    call, aside = ("0", "x", {"n": 1}), ("0", "nondeterministic", drawn)
    assert content_hash(call, aside) == content_hash(call)
    assert content_hash(call, ("0", "x", drawn)) != content_hash(call)
    own = {name: item for name, item in drawn.items() if name != "aside"}
    assert content_hash(call, ("0", "nondeterministic", own)) != content_hash(call)


def test_lanes_are_counted() -> None:
    content = ContentHash()
    assert content.lanes == 0
    for lane in ("0", "0.1", "0", "0.2"):
        content.add(lane, "x", b"{}", b"")
    assert content.lanes == 3


def test_two_empty_recordings_are_equal() -> None:
    assert content_hash() == content_hash()
    assert content_hash() != one()
