"""The machine besides its decisions, which are in the playbooks: marks, results, counts."""

from __future__ import annotations

from typing import Literal

from reenact.engine.call import Call, Refuse, Serve
from reenact.engine.decision.machine import MAX_DIVERGENCES, call_identity
from reenact.testing import Playbook, memory_source
from reenact.testing.recordings import call_of, parse_line


def call(said: str) -> Call:
    return call_of(parse_line(f"0 {said}"))


def mark(kind: Literal["run_start", "run_end"], **data: object) -> Call:
    return Call(type=kind, capability="", operation="", request=data, instant=True, observed=True)


def test_what_is_compared_has_the_shape_that_is_recorded() -> None:
    assert call_identity(call("clock now")) == {"source": "clock", "key": "now"}
    assert call_identity(call('network get {"x": 1}')) == {
        "source": "network",
        "op": "get",
        "request": {"x": 1},
    }
    assert call_identity(call('tool search {"q": 1}')) == {"name": "search", "args": {"q": 1}}
    assert call_identity(call('llm acme/m1 {"q": 1}')) == {
        "provider": "acme",
        "model": "m1",
        "q": 1,
    }


def test_a_stated_key_is_the_key() -> None:
    machine = Playbook("").machine
    assert machine.key(call("clock now")) == "now"
    assert machine.key(call('network get {"x": 1}')).startswith("sha256:")


def test_the_key_does_not_depend_on_the_order_of_fields() -> None:
    machine = Playbook("").machine
    one, two = call('network get {"x": 1, "y": 2}'), call('network get {"y": 2, "x": 1}')
    assert machine.key(one) == machine.key(two)


def test_a_mark_is_compared_with_the_recorded_one() -> None:
    machine = Playbook('0 run_start {"input": 1}\n0 run_end {"status": "ok"}').machine
    assert machine.observe_mark(mark("run_start", input=1), "0") is None
    divergence = machine.observe_mark(mark("run_end", status="error"), "0")
    assert divergence is not None
    assert (divergence.code, divergence.event_seq, divergence.json_path) == (
        "event_payload_mismatch",
        2,
        "$.status",
    )
    more = machine.observe_mark(mark("run_end", status="ok"), "0")
    assert more is not None
    assert more.code == "event_unexpected"
    assert machine.divergences == [divergence, more]


def test_a_mark_means_nothing_where_nothing_is_read() -> None:
    machine = Playbook(mode="record").machine
    assert machine.observe_mark(mark("run_start", input=1), "0") is None
    assert machine.divergences == []


def test_a_result_that_differs_is_a_divergence_of_the_completing_event() -> None:
    book = Playbook("0 tool search {} = 1")
    decision, key = book.machine.decide(call("tool search {}"), "0")
    entry = decision.entry  # type: ignore[union-attr]
    assert book.script is not None
    assert entry is not None
    book.script.complete(entry)
    same = {"callId": entry.opening.data["callId"], "ok": True, "result": 1}
    assert book.machine.observe_closing(entry, "tool_result", same) is None
    other = book.machine.observe_closing(entry, "tool_result", {**same, "result": 2})
    assert other is not None
    assert (other.code, other.event_seq, other.json_path) == (
        "event_payload_mismatch",
        2,
        "$.result",
    )
    again = book.machine.differs(entry, call("tool search {}"), key, "0", {**same, "result": 3})
    assert (again.code, again.event_seq) == ("event_payload_mismatch", 2)


def test_whether_something_is_recorded_can_be_asked_without_using_it() -> None:
    book = Playbook("0 clock now = 1\n0 rng random = 2")
    machine = book.machine
    for _ in range(2):
        assert machine.has_recorded(call("clock now"), "0")
        assert machine.has_recorded(call("rng random"), "0")
        assert not machine.has_recorded(call("rng now"), "0")
        assert not machine.has_recorded(call("clock now"), "0.1")
    book.check("unused -> 1 2")
    assert not Playbook(mode="record").machine.has_recorded(call("clock now"), "0")


def test_divergences_are_kept_whole_up_to_a_number_and_then_counted() -> None:
    machine = Playbook("", strict=False).machine
    for _ in range(MAX_DIVERGENCES + 5):
        machine.decide(call("clock now"), "0")
    assert len(machine.divergences) == MAX_DIVERGENCES
    assert machine.more_divergences == 5


def test_a_divergence_names_the_recorded_call_that_answered_all_the_same() -> None:
    book = Playbook('0 network get {"x": 1} = 1\n0 network get {"x": 2} = 2', strict=False)
    for asked in ('0 network get {"x": 8}', '0 network get {"x": 9}', '0 network get {"x": 2}'):
        book.decide(asked)
    assert [one.served for one in book.machine.divergences] == [1, 2, None]


def test_a_stall_names_the_event_that_is_waited_for() -> None:
    machine = Playbook('0 network get {"x": 1} = 1').machine
    divergence = machine.stalled(1, None, stack="", why="nobody asks")
    assert (divergence.code, divergence.event_seq, divergence.flags) == (
        "event_missing",
        1,
        ["stalled"],
    )
    at_end = machine.stalled(None, None, stack="", why="nobody asks")
    assert at_end.event_seq is None


def test_another_script_can_be_gone_on_with() -> None:
    first, second = Playbook("0 clock now = 1"), Playbook("0 rng now = 1")
    assert second.script is not None
    first.machine.read_from(second.script)
    first.script = second.script
    first.check("0 rng now -> serve 1")


def test_a_stated_key_counts_together_with_its_operation() -> None:
    def stated(operation: str) -> Call:
        return Call(
            type="nondeterministic",
            capability="env.read",
            operation=operation,
            request={},
            source="env",
            key="k",
        )

    source = memory_source(("nondeterministic", {"source": "env", "op": "get", "key": "k"}))
    machine = Playbook(source).machine
    assert isinstance(machine.decide(stated("put"), "0")[0], Refuse)
    assert isinstance(machine.decide(stated("get"), "0")[0], Serve)
    machine = Playbook(source).machine
    assert isinstance(machine.decide(stated(""), "0")[0], Serve)
