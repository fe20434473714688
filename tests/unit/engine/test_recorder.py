"""From calls to events: positions, pairs, hashes, and what is kept of an older recording."""

from __future__ import annotations

from typing import Any

import pytest

from reenact import Draft, Policy
from reenact.engine.call import Call, Entry
from reenact.engine.lanes import Lane
from reenact.engine.recording.budget import RecordingBudget
from reenact.engine.recording.recorder import InFlightCall, Recorder
from reenact.format.event import LONGEST_CHUNK_RUN
from reenact.policy.model import Budgets
from reenact.policy.redaction.redactor import Redactor
from reenact.store.sinks.base import Options
from reenact.store.sinks.copy import CopyOnWriteSink
from reenact.store.sinks.memory import MemorySink, MemorySource, memory_seed, memory_source
from tests.clocks import start_clock


class Desk:
    """A recorder over memory."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.redactor = Redactor("default")
        self.sink = MemorySink(options=Options(redactor=self.redactor))
        self.sink.start(memory_seed("default"))
        room = RecordingBudget(policy or Policy(id="p"))
        self.recorder = Recorder(self.sink, start_clock(), self.redactor, room)
        self.lane = Lane("0")

    def opened(
        self, kind: str = "network", position: int | None = None, **call: Any
    ) -> InFlightCall:
        made = _tool(**call) if kind == "tool" else _fetch(**call)
        place = self.lane.calls if position is None else position
        self.lane.calls += 1
        return InFlightCall(made, "sha256:key", self.lane, place)

    def data(self) -> list[dict[str, Any]]:
        return [event.data for event in self.sink.events]


def _fetch(**more: Any) -> Call:
    fields = {"capability": "net.fetch", "operation": "get", "request": {"x": 1}}
    return Call(**{"type": "nondeterministic", "source": "network", **fields, **more})


def _tool(**more: Any) -> Call:
    request = {"name": "f", "args": {"a": 1}}
    fields = {"capability": "tool.call", "operation": "f", "request": request}
    return Call(**{"type": "tool_call", "nests": True, **fields, **more})


def _complete(loop_scheduler: Desk, opened: InFlightCall, **fields: Any) -> None:
    loop_scheduler.recorder.complete(opened, loop_scheduler.recorder.completing(opened, fields))


def test_a_call_of_one_event_is_written_when_it_completes() -> None:
    loop_scheduler = Desk()
    opened = loop_scheduler.recorder.open(loop_scheduler.opened())
    assert loop_scheduler.data() == []
    _complete(loop_scheduler, opened, response={"y": 2})
    [data] = loop_scheduler.data()
    assert data["source"] == "network"
    assert data["op"] == "get"
    assert data["request"] == {"x": 1}
    assert data["response"] == {"y": 2}
    assert data["key"] == "sha256:key"
    assert data["valueHash"].startswith("sha256:")


def test_a_pair_is_written_when_it_starts_and_when_it_completes() -> None:
    loop_scheduler = Desk()
    opened = loop_scheduler.opened("tool")
    opened.inner = "0.1"
    loop_scheduler.recorder.open(opened)
    _complete(loop_scheduler, opened, ok=True, result=3)
    opening, closing = loop_scheduler.sink.events
    assert opening.data == {
        "name": "f",
        "args": {"a": 1},
        "callId": "0#0",
        "inner": "0.1",
        "key": "sha256:key",
    }
    assert closing.data == {"callId": "0#0", "name": "f", "ok": True, "result": 3}
    assert closing.parent == opening.seq


def test_the_callers_id_of_a_call_is_kept() -> None:
    loop_scheduler = Desk()
    opened = loop_scheduler.recorder.open(
        loop_scheduler.opened("tool", call_id="toolu_1", extra={"note": "n"})
    )
    _complete(loop_scheduler, opened, ok=True)
    opening, closing = loop_scheduler.data()
    assert (opening["callId"], opening["note"]) == ("toolu_1", "n")
    assert closing["callId"] == "toolu_1"


def test_positions_are_written_only_where_the_order_of_the_log_is_another() -> None:
    loop_scheduler = Desk()
    slow, quick, last = loop_scheduler.opened(), loop_scheduler.opened(), loop_scheduler.opened()
    for opened in (quick, slow, last):
        _complete(loop_scheduler, opened, response=None)
    assert [data.get("position") for data in loop_scheduler.data()] == [1, 0, None]


def test_the_hash_of_a_secret_is_not_written() -> None:
    """A short secret could be guessed from its hash."""
    loop_scheduler = Desk()
    _complete(loop_scheduler, loop_scheduler.opened(), response={"password": "1234"})
    _complete(loop_scheduler, loop_scheduler.opened(), response={"password": "5678"})
    first, second = loop_scheduler.data()
    assert first["response"] == second["response"]
    assert first["valueHash"] == second["valueHash"]


def test_deliveries_are_named() -> None:
    loop_scheduler = Desk()
    loop_scheduler.recorder.delivery("0.1", "timer:3")
    [event] = loop_scheduler.sink.events
    assert event.lane == "0.1"
    assert (event.data["source"], event.data["key"]) == ("schedule", "timer:3")


# Adding to a recording


class Late(Desk):
    """A recorder that adds to a recording of two calls and a tool."""

    def __init__(self) -> None:
        super().__init__()
        self.old = self._old()
        self.new = MemorySink(options=Options(redactor=self.redactor))
        self.late = CopyOnWriteSink(self.new, self.old, rest_fields={"position": None})
        self.late.start(memory_seed("default"))
        room = RecordingBudget(Policy(id="p"))
        self.recorder = Recorder(self.late, start_clock(), self.redactor, room, copy_sink=self.late)

    def _old(self) -> MemorySource:
        one = {"source": "network", "key": "k1", "valueHash": "h", "request": {"x": 1}}
        two = {**one, "key": "k2", "position": 5}
        tool = {"name": "f", "args": {}, "callId": "c", "inner": "0.1"}
        return memory_source(
            ("nondeterministic", one),
            ("nondeterministic", two),
            ("tool_call", tool),
            Draft(
                type="tool_result",
                data={"callId": "c", "ok": True, "result": 1},
                ts=5,
                parent=3,
            ),
        )

    def kept(self, seq: int, closing: int | None = None, **call: Any) -> InFlightCall:
        opened = self.opened("network" if closing is None else "tool", **call)
        event = self.old.at(seq)
        opened.entry = Entry(
            opening=event,
            kind="",
            operation="",
            key="",
            position=0,
            closing=event if closing is None else self.old.at(closing),
        )
        opened.answer = {"the": "answer"}
        return opened

    def finished(self) -> list[dict[str, Any]]:
        self.late.finalize()
        return [event.data for event in self.new.events]


def _keep(loop_scheduler: Late, opened: InFlightCall) -> None:
    assert opened.answer is not None
    loop_scheduler.recorder.complete(opened, opened.answer)


def test_what_is_kept_alone_writes_nothing() -> None:
    loop_scheduler = Late()
    opened = loop_scheduler.recorder.open(loop_scheduler.kept(1))
    _keep(loop_scheduler, opened)
    loop_scheduler.recorder.delivery("0", "timer:1")
    assert loop_scheduler.finished() == []


def test_what_is_kept_gets_the_position_that_it_has_now() -> None:
    loop_scheduler = Late()
    two, one = loop_scheduler.kept(2), loop_scheduler.kept(1)
    new = loop_scheduler.opened()
    loop_scheduler.recorder.complete(new, loop_scheduler.recorder.completing(new, {"response": 7}))
    for opened in (two, one):
        _keep(loop_scheduler, opened)
    places = [
        (data["key"], data.get("position")) for data in loop_scheduler.finished() if "key" in data
    ]
    assert places[:3] == [("sha256:key", 2), ("k2", 0), ("k1", 1)]


def test_a_kept_pair_is_copied_opening_first() -> None:
    loop_scheduler = Late()
    opened = loop_scheduler.recorder.open(loop_scheduler.kept(3, closing=4))
    new = loop_scheduler.opened()
    loop_scheduler.recorder.complete(new, loop_scheduler.recorder.completing(new, {"response": 7}))
    _keep(loop_scheduler, opened)
    written = loop_scheduler.finished()
    assert [data.get("name", data.get("op", data.get("result"))) for data in written[:3]] == [
        "f",
        "get",
        1,
    ]
    assert loop_scheduler.new.events[2].parent == 1


def test_another_end_replaces_the_recorded_one() -> None:
    loop_scheduler = Late()
    opened = loop_scheduler.recorder.open(loop_scheduler.kept(3, closing=4))
    loop_scheduler.recorder.complete(opened, {"callId": "c", "ok": False, "cancelled": True})
    results = [data for data in loop_scheduler.finished() if "ok" in data]
    assert results == [{"callId": "c", "name": "f", "ok": False, "cancelled": True}]


def test_deliveries_are_written_with_what_is_new() -> None:
    loop_scheduler = Late()
    opened = loop_scheduler.kept(1)
    _keep(loop_scheduler, opened)
    loop_scheduler.recorder.delivery("0", "timer:1")
    new = loop_scheduler.opened()
    loop_scheduler.recorder.complete(new, loop_scheduler.recorder.completing(new, {"response": 7}))
    assert [data["key"] for data in loop_scheduler.finished()[:3]] == [
        "k1",
        "timer:1",
        "sha256:key",
    ]


# Budgets


@pytest.mark.parametrize("brief", [True, False])
def test_a_brief_event_has_no_request(brief: bool) -> None:
    loop_scheduler = Desk()
    opened = loop_scheduler.opened()
    data = loop_scheduler.recorder.completing(opened, {"error": {}}, brief=brief)
    assert ("request" in data) is not brief
    tool = loop_scheduler.opened("tool", extra={"note": "n"})
    loop_scheduler.recorder.open(tool, brief=brief)
    assert (loop_scheduler.data()[0]["args"] is None) is brief
    assert ("note" in loop_scheduler.data()[0]) is not brief


def test_nothing_more_is_delivered_when_the_recording_is_full() -> None:
    loop_scheduler = Desk(Policy(id="p", budgets=Budgets(entries=0)))
    assert loop_scheduler.recorder.budget.admit({}) is not None
    loop_scheduler.recorder.delivery("0", "timer:1")
    assert loop_scheduler.data() == []


# Pieces of streams


def _told(loop_scheduler: Desk) -> list[tuple[str, int]]:
    return [(data["key"], data.get("count", 1)) for data in loop_scheduler.data() if "key" in data]


def test_pieces_that_follow_each_other_are_told_with_the_next_event() -> None:
    loop_scheduler = Desk()
    for number in range(3):
        loop_scheduler.recorder.delivery("0", f"chunk:0:{number}")
    assert loop_scheduler.data() == []
    _complete(loop_scheduler, loop_scheduler.recorder.open(loop_scheduler.opened()), response=1)
    assert _told(loop_scheduler) == [("chunk:0:0", 3), ("sha256:key", 1)]


@pytest.mark.parametrize(
    "other", [("0", "chunk:1:0"), ("0.1", "chunk:0:1"), ("0", "chunk:0:2"), ("0", "timer:1")]
)
def test_another_delivery_ends_a_run(other: tuple[str, str]) -> None:
    loop_scheduler = Desk()
    loop_scheduler.recorder.delivery("0", "chunk:0:0")
    loop_scheduler.recorder.delivery(*other)
    loop_scheduler.recorder.tell_run()
    assert _told(loop_scheduler) == [("chunk:0:0", 1), (other[1], 1)]


def test_a_run_that_is_too_long_goes_on_as_another() -> None:
    loop_scheduler = Desk()
    for number in range(LONGEST_CHUNK_RUN + 2):
        loop_scheduler.recorder.delivery("0", f"chunk:0:{number}")
    loop_scheduler.recorder.tell_run()
    assert _told(loop_scheduler) == [
        ("chunk:0:0", LONGEST_CHUNK_RUN),
        (f"chunk:0:{LONGEST_CHUNK_RUN}", 2),
    ]


def test_a_forked_child_does_not_tell_what_its_parent_was_given() -> None:
    loop_scheduler = Desk()
    loop_scheduler.recorder.delivery("0", "chunk:0:0")
    loop_scheduler.recorder.after_fork()
    loop_scheduler.recorder.tell_run()
    assert loop_scheduler.data() == []
