"""Recorded events, each where it will be asked for."""

from __future__ import annotations

import pytest

from reenact.engine.decision.passthrough import pass_through_rules
from reenact.engine.decision.recorded_calls import RecordedCalls
from reenact.errors import RecordingDamaged
from reenact.format.event import Data, Draft, Event, chunk_delivery
from reenact.policy.model import DEFAULT, BoundaryRule, Policy
from reenact.testing import memory_source, recording
from tests.unit.engine.recorded import event


def script(text: str, *, by_lane: bool = True) -> RecordedCalls:
    return RecordedCalls(recording(text), by_lane=by_lane)


def seqs(script: RecordedCalls, lane: str = "0") -> list[int]:
    return [entry.seq for entry in script.lane(lane).unused()]


def network(**more: object) -> tuple[str, Data]:
    return "nondeterministic", {"source": "network", "op": "get", "request": {}, "key": "k", **more}


def test_nothing_is_read_before_somebody_asks_and_little_then() -> None:
    made = script("0 network get {} = 1\n" * 100)
    assert seqs(made) == []
    assert made.upcoming("0") is not None
    assert 1 <= len(seqs(made)) < 20


class _Damaged:
    """A source that can be read up to ``place``."""

    def __init__(self, count: int, place: int) -> None:
        self._source = recording("0 network get {} = 1\n" * count)
        self._place = place
        self._read = 0

    def next(self) -> Event | None:
        self._read += 1
        if self._read >= self._place:
            raise RecordingDamaged("it is torn", place="event 4")
        return self._source.next()

    def at(self, seq: int) -> Event:
        return self._source.at(seq)


def test_damage_shows_when_somebody_comes_to_it() -> None:
    made = RecordedCalls(_Damaged(count=9, place=4))
    for _ in range(3):
        entry = made.upcoming("0")
        assert entry is not None
        made.take(entry)
    for _ in range(2):
        with pytest.raises(RecordingDamaged, match="torn"):
            made.upcoming("0")


def test_an_entry_says_what_was_called() -> None:
    made = script("""
        0  llm acme/m1 {}        = 1
        0  tool search {}        inside 0.1
        0  clock now             = 1
        0  mutation file_write {"op": "w"}
    """)
    made.read_all()
    told = [
        (one.type, one.kind, one.operation, one.inner, one.instant)
        for one in made.lane("0").unused()
    ]
    assert told == [
        ("llm_request", "llm", "acme/m1", None, False),
        ("tool_call", "tool", "search", "0.1", False),
        ("nondeterministic", "clock", "", None, True),
        ("state_mutation", "state_mutation", "w", None, True),
    ]


def test_a_call_that_is_one_event_completes_itself() -> None:
    made = script("0 network get {} = 1")
    entry = made.upcoming("0")
    assert entry is not None
    assert made.complete(entry) is entry.opening


def test_completing_reads_as_far_as_the_answer_and_little_further() -> None:
    made = script(
        """
        0  llm acme/m1 {}
        0.1  network get {}  = 1
        0  llm acme/m1       = 2
    """
        + "0  network get {}    = 3\n" * 20
    )
    entry = made.upcoming("0")
    assert entry is not None
    closing = made.complete(entry)
    assert closing is not None
    assert closing.seq == 3
    assert seqs(made, "0.1") == [2]
    assert not made.whole


def test_a_call_without_an_answer_has_none() -> None:
    made = script("0 llm acme/m1 {}")
    entry = made.upcoming("0")
    assert entry is not None
    assert made.complete(entry) is None


def test_answers_go_to_the_oldest_open_call_when_nothing_tells_them_apart() -> None:
    ask: Data = {"provider": "p", "model": "m"}
    made = RecordedCalls(
        memory_source(
            ("llm_request", ask),
            ("llm_request", ask),
            ("llm_response", {**ask, "n": 1}),
            ("llm_response", {**ask, "n": 2}),
            ("llm_response", {**ask, "n": 3}),
        )
    )
    made.read_all()
    closings = [one.closing for one in made.lane("0").unused()]
    assert [one.data["n"] for one in closings if one is not None] == [1, 2]


def test_answers_stay_in_their_lane() -> None:
    ask: Data = {"provider": "p", "model": "m"}
    made = RecordedCalls(
        memory_source(
            ("llm_request", ask, "0.1"), ("llm_request", ask, "0.2"), ("llm_response", ask, "0.2")
        )
    )
    made.read_all()
    (first,), (second,) = made.lane("0.1").unused(), made.lane("0.2").unused()
    assert first.closing is None
    assert second.closing is not None


def test_a_parent_of_another_type_is_not_what_an_answer_belongs_to() -> None:
    ask: Data = {"provider": "p", "model": "m"}
    made = RecordedCalls(
        memory_source(
            Draft(type="tool_call", data={"name": "t", "args": {}, "callId": "a"}, ts=1),
            Draft(type="llm_request", data=ask, ts=2, parent=1),
            Draft(type="llm_response", data=ask, ts=3, parent=1),
            Draft(type="tool_result", data={"callId": "a", "ok": True}, ts=4),
        )
    )
    made.read_all()
    tool, model = made.lane("0").unused()
    assert (tool.closing and tool.closing.seq, model.closing and model.closing.seq) == (4, 3)


class Listed:
    """Events that no sink would take."""

    def __init__(self, *events: Event) -> None:
        self._left = list(events)

    def next(self) -> Event | None:
        return self._left.pop(0) if self._left else None

    def at(self, seq: int) -> Event:
        raise LookupError(seq)


def test_an_id_that_two_types_of_calls_have_does_not_mix_them_up() -> None:
    made = RecordedCalls(
        memory_source(
            ("llm_request", {"provider": "p", "model": "m", "callId": "a"}),
            ("tool_call", {"name": "t", "args": {}, "callId": "a"}),
            ("tool_result", {"callId": "a", "ok": True}),
        )
    )
    made.read_all()
    model, tool = made.lane("0").unused()
    assert model.closing is None
    assert tool.closing is not None


@pytest.mark.parametrize("data", [[], "text", 3, None])
def test_data_that_is_no_object_is_a_call_that_nothing_matches(data: object) -> None:
    made = RecordedCalls(Listed(event(1, "nondeterministic", data)))  # type: ignore[arg-type]
    entry = made.upcoming("0")
    assert entry is not None
    assert (entry.kind, entry.operation, entry.key, entry.position) == ("", "", "", 0)


def test_an_odd_key_or_operation_is_none() -> None:
    made = RecordedCalls(memory_source(network(key=["k"], op=7, source={})))
    entry = made.upcoming("0")
    assert entry is not None
    assert (entry.kind, entry.operation, entry.key) == ("", "", "")


def test_marks_are_found_by_their_type_and_are_no_calls() -> None:
    made = script("""
        0  run_start {"n": 1}
        0  network get {}  = 1
        0  run_start {"n": 2}
    """)
    found = [made.mark("run_start", "0") for _ in range(3)]
    assert [one and one.opening.data["n"] for one in found] == [1, 2, None]
    assert made.mark("run_end", "0") is None
    assert seqs(made) == [2]


def test_marks_of_runs_side_by_side_are_those_of_their_lanes() -> None:
    text = """
        0.1  run_start {"n": 1}
        0.2  run_start {"n": 2}
        0.2  run_end {"status": "ok", "n": 2}
        0.1  run_end {"status": "ok", "n": 1}
    """
    made = script(text)
    found = [made.mark(kind, lane) for kind in ("run_start", "run_end") for lane in ("0.2", "0.1")]
    assert [one and one.opening.data["n"] for one in found] == [2, 1, 2, 1]
    assert made.mark("run_start", "0") is None


def test_what_the_command_says_of_its_beginning_is_not_the_programs() -> None:
    made = script("""
        0  run_start {"argv": ["x"], "hashSeed": "1"}
        0  run_start {"n": 1}
    """)
    found = [made.mark("run_start", "0") for _ in range(2)]
    assert [one and one.opening.data.get("n") for one in found] == [1, None]


def test_the_process_of_one_lane_knows_only_that() -> None:
    made = script("""
        0      network get {}  = 1
        0.1    network get {}  = 2
        0.1.1  network get {}  = 3
        0.10   network get {}  = 4
    """)
    made.keep_to("0.1")
    made.read_all()
    assert {name for name in made.lane_names() if seqs(made, name)} == {"0.1", "0.1.1"}
    head = made.order.head()
    assert head is not None
    assert head.seq == 2


def test_what_a_child_does_is_none_of_ours() -> None:
    made = script("""
        0.1  network get {}  = 1
        0    network get {}  = 2
        0.1  network get {}  = 3
    """)
    assert made.order.head() is not None
    made.leave_to_child("0.1")
    made.read_all()
    assert seqs(made, "0.1") == []
    head = made.order.head()
    assert head is not None
    assert head.seq == 2


def test_any_event_can_be_had_by_its_seq() -> None:
    made = script("0 network get {} = 1\n0 network get {} = 2")
    assert made.event(2).seq == 2
    assert seqs(made) == []


def test_a_stream_that_nobody_read_to_its_end_delivers_no_end() -> None:
    made = RecordedCalls(memory_source(network(ended="abandoned"), network(ended="done")))
    head = made.order.head()
    assert head is not None
    assert head.seq == 2


@pytest.mark.parametrize("ended", ["abandoned", "cancelled", "unfinished"])
def test_a_stream_that_was_cut_off_is_no_delivery(ended: str) -> None:
    made = RecordedCalls(memory_source(network(ended=ended), network(ended="done")))
    head = made.order.head()
    assert head is not None
    assert head.token == 2


def test_a_run_of_pieces_is_a_delivery_for_each() -> None:
    run = ("nondeterministic", chunk_delivery(0, 2, 3))
    made = RecordedCalls(memory_source(run, network(ended="done")))
    tokens = []
    while (head := made.order.head()) is not None:
        tokens.append((head.token, head.seq))
        made.order.drop(head.token)
    assert tokens == [
        (("0", "chunk:0:2"), 1),
        (("0", "chunk:0:3"), 1),
        (("0", "chunk:0:4"), 1),
        (2, 2),
    ]


@pytest.mark.parametrize("ended", [[], {}, 7, None])
def test_an_odd_end_is_an_end(ended: object) -> None:
    made = RecordedCalls(memory_source(network(ended=ended)))
    head = made.order.head()
    assert head is not None
    assert head.token == 1


def test_calls_that_are_used_in_reverse_are_forgotten_one_by_one() -> None:
    made = script("\n".join(f'0 network get {{"n": {n}}} = 1' for n in range(400)))
    kept = made.keep_all()
    made.read_all()
    for entry in reversed(kept):
        made.take(entry)
    assert made.lane("0").skipped == {}
    assert seqs(made) == []


# What is let through


def _passing(*capabilities: str) -> Policy:
    rules = tuple(BoundaryRule(capability=one, action="pass") for one in capabilities)
    return Policy(id="p", boundaries=rules, allow_passthrough=True)


def test_nothing_is_left_out_where_nothing_passes() -> None:
    assert pass_through_rules(DEFAULT) is None


def test_what_passes_is_read_as_if_it_had_not_been_recorded() -> None:
    text = """
        0  process echo {}   = 1
        0  network get {}    = 2
        0  process date {}   = 3
        0  llm acme/m1 {}    = 4
    """
    made = RecordedCalls(
        recording(text), let_by=pass_through_rules(_passing("process.*", "llm.call"))
    )
    entry = made.upcoming("0")
    assert entry is not None
    assert entry.kind == "network"
    made.take(entry)
    assert made.upcoming("0") is None
    assert seqs(made) == []
    head = made.order.head()
    assert head is not None
    assert head.token == entry.seq
    made.order.drop(head.token)
    assert made.order.head() is None


def test_what_passes_leaves_its_place_whenever_it_is_read() -> None:
    """A call that takes long stands behind those that came after it."""
    process = {"source": "process", "op": "sleep", "request": {}, "key": "p", "position": 0}
    source = memory_source(
        network(key="k2", position=1),
        ("nondeterministic", process),
        network(key="k3", position=2),
    )
    made = RecordedCalls(source, let_by=pass_through_rules(_passing("process.exec")))
    for key in ("k2", "k3"):
        entry = made.upcoming("0")
        assert entry is not None
        assert entry.key == key
        made.take(entry)
    assert made.upcoming("0") is None


def test_a_tool_that_passes_takes_with_it_what_it_did_inside() -> None:
    text = """
        0    tool search {}  inside 0.1
        0.1  network get {}  = 1
        0    network get {}  = 2
    """
    made = RecordedCalls(recording(text), let_by=pass_through_rules(_passing("tool.call")))
    made.read_all()
    assert made.upcoming("0.1") is None
    assert made.upcoming("0") is not None
