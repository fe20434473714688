"""The bus: its events, and observers that misbehave."""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from reenact.agents.event_bus import Bus, BusEvent, Observed, emit
from reenact.engine.scheduling.quiescence import ThreadRegistry
from reenact.engine.session.current import current
from reenact.errors import UsageError, ValueRefused
from reenact.testing import memory_session

PATIENCE = 60
"""Seconds after which a test gives up. No verdict depends on it."""


def fixed() -> int:
    return 1_700_000_000_000


def test_events_are_numbered_from_one_in_each_run() -> None:
    bus, seen = Bus(now=fixed), list[BusEvent]()
    bus.subscribe(seen.append)
    one, two = bus.open("a", "key"), bus.open("b")
    one.emit("lifecycle", {"phase": "start"})
    two.emit("mine")
    one.emit("assistant", {"text": "x"})
    bus.flush(PATIENCE)
    assert [event.to_json() for event in seen] == [
        {
            "runId": "a",
            "seq": 1,
            "ts": fixed(),
            "stream": "lifecycle",
            "data": {"phase": "start"},
            "sessionKey": "key",
        },
        {"runId": "b", "seq": 1, "ts": fixed(), "stream": "mine", "data": {}},
        {
            "runId": "a",
            "seq": 2,
            "ts": fixed(),
            "stream": "assistant",
            "data": {"text": "x"},
            "sessionKey": "key",
        },
    ]


def test_an_observer_gets_a_copy() -> None:
    bus, seen = Bus(), list[Any]()

    def spoil(event: BusEvent) -> None:
        event.data["list"].append("spoiled")
        event.data["more"] = 1

    bus.subscribe(spoil)
    bus.subscribe(lambda event: seen.append(event.data))
    given = {"list": [1]}
    returned = bus.open("r").emit("mine", given)
    given["list"].append(2)
    bus.flush(PATIENCE)
    assert (returned.data, seen) == ({"list": [1]}, [{"list": [1]}])


def test_an_observer_that_raises_is_reported_once_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bus, seen = Bus(), list[int]()

    def broken(event: BusEvent) -> None:
        raise KeyError(event.seq)

    bus.subscribe(broken)
    bus.subscribe(lambda event: seen.append(event.seq))
    channel = bus.open("r")
    for _ in range(3):
        channel.emit("mine")
    bus.flush(PATIENCE)
    observed = bus.observed()
    assert (observed.failed, observed.dropped, observed.pending) == (3, 0, 0)
    assert [text.partition("broken failed: ")[2] for text in observed.failures] == [
        "KeyError: 1",
        "KeyError: 2",
        "KeyError: 3",
    ]
    assert seen == [1, 2, 3]
    assert capsys.readouterr().err.count("the observer") == 1


def test_an_observer_that_exits_the_interpreter_does_not() -> None:
    bus = Bus()
    bus.subscribe(lambda event: sys.exit(3))
    bus.open("r").emit("mine")
    bus.flush(PATIENCE)
    assert bus.observed().failed == 1


def test_an_observer_that_hangs_blocks_nobody() -> None:
    go_on, bus, seen = threading.Event(), Bus(), list[int]()
    stop = bus.subscribe(lambda event: go_on.wait(PATIENCE))
    bus.subscribe(lambda event: seen.append(event.seq))
    channel = bus.open("r")
    for _ in range(100):
        channel.emit("mine")
    bus.flush(0.01)  # gives up on it
    assert bus.observed().pending >= 100
    go_on.set()
    stop()
    bus.flush(PATIENCE)
    assert seen == list(range(1, 101))


def test_an_observer_too_far_behind_misses_events_and_that_is_counted() -> None:
    go_on, bus, seen = threading.Event(), Bus(limit=3), list[int]()

    def slow(event: BusEvent) -> None:
        go_on.wait(PATIENCE)
        seen.append(event.seq)

    bus.subscribe(slow)
    channel = bus.open("r")
    for _ in range(10):
        channel.emit("mine")
    go_on.set()
    bus.flush(PATIENCE)
    assert (seen, bus.observed().dropped) == ([1, 2, 3], 7)


def test_who_has_unsubscribed_gets_no_more() -> None:
    bus, seen = Bus(), list[int]()
    stop = bus.subscribe(lambda event: seen.append(event.seq))
    channel = bus.open("r")
    channel.emit("mine")
    bus.flush(PATIENCE)
    stop()
    channel.emit("mine")
    bus.flush(PATIENCE)
    assert seen == [1]


def test_threads_emit_without_gaps() -> None:
    bus, seen = Bus(), list[int]()
    bus.subscribe(lambda event: seen.append(event.seq))
    channel = bus.open("r")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: channel.emit("mine", {"n": number}), range(200)))
    bus.flush(PATIENCE)
    assert seen == list(range(1, 201))


def test_emit_goes_to_the_run_that_is_under_way_here() -> None:
    bus, seen = Bus(), list[tuple[str, Any]]()
    bus.subscribe(lambda event: seen.append((event.run_id, event.data.get("n"))))

    async def run(name: str) -> None:
        with bus.open(name).here():
            await asyncio.sleep(0)
            emit("mine", {"n": 1})
            bus.emit("mine", {"n": 2})

    async def both() -> None:
        await asyncio.gather(run("a"), run("b"))

    asyncio.run(both())
    assert emit("mine") is None
    bus.flush(PATIENCE)
    assert sorted(seen) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert bus.emit("mine").run_id.startswith("run_")


def test_observers_are_in_no_session() -> None:
    bus, seen = Bus(), list[Any]()
    bus.subscribe(lambda event: seen.append(current()))
    with memory_session() as session:
        bus.open("r").emit("mine")
        bus.flush(PATIENCE)
    assert seen == [None]
    assert [event.type for event in session.recorded()] == []


def test_what_is_no_json_is_refused_with_its_place() -> None:
    channel = Bus().open("r")
    with pytest.raises(ValueRefused, match=r"\$\.a"):
        channel.emit("mine", {"a": object()})
    with pytest.raises(UsageError, match="needs a stream"):
        channel.emit(" ")


def test_reports_are_counted_from_where_a_run_began() -> None:
    before = Observed(dropped=2, failed=1, failures=("a",))
    after = Observed(dropped=5, failed=2, pending=1, failures=("a", "b"))
    assert after.since(before) == Observed(dropped=3, failed=1, pending=1, failures=("b",))


def test_an_observer_with_nothing_to_do_hides_no_stall() -> None:
    bus, go_on = Bus(now=fixed), threading.Event()
    before = set(threading.enumerate())
    bus.subscribe(lambda event: go_on.wait(PATIENCE))
    bus.emit("mine")
    crew = ThreadRegistry(set(threading.enumerate()) - before)
    crew.end()
    assert not crew.all_wait()
    go_on.set()
    bus.flush(PATIENCE)
    assert crew.all_wait()
