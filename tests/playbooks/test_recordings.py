"""Recordings that are unusual: out of order, cut off, made by hand, by others, under other rules."""

from __future__ import annotations

import subprocess
import sys
from typing import Literal

import pytest

from reenact import RunStart, ToolCall, ToolResult, open_recording, start_recording
from reenact.format.event import Draft
from reenact.policy.matching import Rules
from reenact.policy.model import Ignore, Mode, Policy
from reenact.store.sinks.memory import MemorySource
from reenact.testing import Playbook, memory_source, recording

Match = Literal["lane", "transcript", "lookup"]

# Positions


def test_a_stream_that_ended_late_has_the_place_where_it_started() -> None:
    Playbook("""
        0  network quick {}  at 1 = 1
        0  network quick {}  at 2 = 2
        0  network slow {}   at 0 = 3
        0  network last {}        = 4
    """).check("""
        head                 -> 1
        0  network slow {}   -> serve 3
        0  network quick {}  -> serve 1
        0  network quick {}  -> serve 2
        0  network last {}   -> serve 4
        unused               -> nothing
    """)


def test_a_call_that_was_lost_in_a_crash_is_not_answered_by_the_next_one() -> None:
    recovered = """
        0  network words {}  at 0 = 1
        0  network words {}  at 2 = "the one in between was open when the program was killed"
        0  network get {}    at 3 = 3
    """
    Playbook(recovered).check("""
        0  network words {}  -> serve 1
        0  network words {}  -> refuse event_unexpected
        0  network get {}    -> refuse event_unexpected
        unused               -> 2 3
    """)
    Playbook(recovered, strict=False).check("""
        0  network words {}  -> serve 1
        0  network words {}  -> serve 2 despite event_unexpected
        0  network words {}  -> refuse event_payload_mismatch 3 $.op
        0  network get {}    -> serve 3
        unused               -> nothing
    """)


def test_a_call_that_was_open_at_the_end_of_a_recovered_recording_is_never_answered() -> None:
    book = Playbook("""
        0  network get {}      = 1
        0  llm acme/m1 {}
    """)
    book.check("""
        0  network get {}      -> serve 1
        0  llm acme/m1 {}      -> serve 2
        unused                 -> nothing
        head                   -> nothing
    """)


@pytest.mark.parametrize("why", ["cancelled", "unfinished"])
def test_a_call_without_an_answer_is_served_as_one_and_delivers_nothing(why: str) -> None:
    Playbook(f"""
        0  network get {{}}    {why}
        0  tool search {{}}    {why}
        0  network put {{}}    = 1
    """).check("""
        head                 -> 4
        0  network get {}    -> serve 1 unanswered
        0  tool search {}    -> serve 2 unanswered
        0  network put {}    -> serve 4
        unused               -> nothing
    """)


def test_positions_that_nobody_wrote_are_used_once_each() -> None:
    Playbook("""
        0  network get {}  at 0 = 1
        0  network get {}  at 0 = 2
        0  network get {}  at 0 = 3
    """).check("""
        0  network get {}  -> serve 1
        0  network get {}  -> serve 2
        0  network get {}  -> serve 3
        0  network get {}  -> refuse event_unexpected
    """)


@pytest.mark.parametrize("position", [-1, 1.5, "0", None, True, {}])
def test_a_position_that_is_none_is_taken_as_not_written(position: object) -> None:
    data = {"source": "network", "op": "get", "request": {}, "key": "", "position": position}
    Playbook(memory_source(("nondeterministic", data))).check("""
        0  network get {}  -> serve 1
    """)


# Made by hand


def test_a_recording_made_by_hand_needs_no_keys_and_no_parents() -> None:
    source = memory_source(
        ("run_start", {"input": "hi"}),
        ("llm_request", {"provider": "acme", "model": "m1", "messages": []}),
        ("tool_call", {"callId": "a", "name": "search", "args": {"q": 1}}),
        ("tool_call", {"callId": "b", "name": "search", "args": {"q": 1}}),
        ("tool_result", {"callId": "b", "ok": True, "result": "b's"}),
        ("llm_response", {"provider": "acme", "model": "m1", "stopReason": None, "usage": None}),
        ("tool_result", {"callId": "a", "ok": True, "result": "a's"}),
        ("nondeterministic", {"source": "clock", "key": "now", "value": 1.5}),
        ("state_mutation", {"type": "file_write", "path": "a.txt"}),
    )
    book = Playbook(source)
    book.check("""
        0  llm acme/m1 {"messages": []}            -> serve 2
        0  tool search {"q": 1}                    -> serve 3
        0  tool search {"q": 1}                    -> serve 4
        0  clock now                               -> serve 8
        0  mutation file_write {"path": "b.txt"}   -> refuse event_payload_mismatch 9 $.path
        0  mutation file_write {"path": "a.txt"}   -> serve 9
        unused                                     -> nothing
    """)


def test_results_find_their_calls_by_id_whatever_their_parent_says() -> None:
    source = memory_source(
        Draft(type="tool_call", data={"callId": "a", "name": "outer", "args": {}}, ts=1),
        Draft(type="tool_call", data={"callId": "b", "name": "inner", "args": {}}, ts=2, parent=1),
        Draft(type="tool_result", data={"callId": "b", "ok": True}, ts=3, parent=1),
        Draft(type="tool_result", data={"callId": "a", "ok": True}, ts=4),
    )
    book = Playbook(source)
    assert book.script is not None
    book.script.read_all()
    first, second = book.script.lane("0").unused()
    assert first.closing is not None
    assert second.closing is not None
    assert (first.closing.seq, second.closing.seq) == (4, 3)


def test_a_recording_of_start_recording_replays(tmp_path: object) -> None:
    place = f"{tmp_path}/run"
    with start_recording(place, redaction="none") as made:
        made.add(RunStart(input="hi"))
        made.add(ToolCall(name="search", args={"q": "rain"}, call_id="one"))
        made.add(ToolResult(call_id="one", ok=True, extra={"result": 3}))
        made.add(
            "nondeterministic", {"source": "rng", "key": "random", "valueHash": "", "value": 1}
        )
    with open_recording(place) as source:
        copied = memory_source(*((event.type, event.data, event.lane) for event in source))
    Playbook(copied).check("""
        0  tool search {"q": "snow"}  -> refuse event_payload_mismatch 2 $.args.q
        0  tool search {"q": "rain"}  -> serve 2
        0  rng random                 -> serve 4
        unused                        -> nothing
    """)


@pytest.mark.parametrize("mode", ["replay", "record_missing"])
@pytest.mark.parametrize("match", ["lane", "transcript", "lookup"])
def test_events_of_an_unknown_type_are_nobodys_business(mode: Mode, match: Match) -> None:
    source = memory_source(
        ("weather", {"sun": True}),
        ("nondeterministic", {"source": "network", "op": "get", "request": {}, "key": ""}),
        ("tool_result", {"callId": "nobody's", "ok": True}),
        ("weather", {"sun": False}),
    )
    policy = Policy(id="p", match=match)
    Playbook(source, mode=mode, policy=policy).check("""
        0  network get {}  -> serve 2
        unused             -> nothing
    """)


# Under other rules

IDS = """
    0  network get {"x": 1, "id": 1}  = "one"
    0  network get {"x": 2, "id": 2}  = "two"
    0  network get {"x": 1, "id": 3}  = "three"
"""
WITHOUT_IDS = Ignore(paths=("$.request.id",))


@pytest.mark.parametrize("mode", ["replay", "record_missing"])
@pytest.mark.parametrize("match", ["lane", "transcript", "lookup"])
def test_rules_that_came_after_the_recording_hold(mode: Mode, match: Match) -> None:
    policy = Policy(id="p", match=match, ignore=WITHOUT_IDS)
    Playbook(IDS, mode=mode, policy=policy).check("""
        0  network get {"x": 1, "id": 7}  -> serve 1
        0  network get {"x": 2}           -> serve 2
        0  network get {"x": 1, "id": 9}  -> serve 3
    """)


def test_rules_that_came_after_the_recording_hold_out_of_order() -> None:
    policy = Policy(id="p", ignore=WITHOUT_IDS)
    Playbook(IDS, mode="record_missing", policy=policy).check("""
        0  network get {"x": 2, "id": 7}  -> serve 2
        0  network get {"x": 1, "id": 7}  -> serve 3
        0  network get {"x": 1, "id": 7}  -> serve 1
        0  network get {"x": 1, "id": 7}  -> live
    """)
    Playbook(IDS, strict=False, policy=policy).check("""
        0  network get {"x": 2, "id": 7}  -> serve 2 despite event_payload_mismatch 1 $.request.x
        0  network get {"x": 1, "id": 7}  -> serve 3
        0  network get {"x": 1, "id": 7}  -> serve 1 despite event_unexpected
    """)


def test_rules_that_were_taken_away_since_do_not_hold() -> None:
    source = recording(IDS, rules=Rules(ignore_paths=("$.request.id",)))
    Playbook(source).check("""
        0  network get {"x": 1, "id": 9}  -> refuse event_payload_mismatch 1 $.request.id
        0  network get {"x": 1, "id": 1}  -> serve 1
    """)


def test_a_rule_that_mattered_is_named_in_the_divergence() -> None:
    book = Playbook(IDS, policy=Policy(id="p", ignore=WITHOUT_IDS))
    book.check('0  network get {"x": 5, "id": 9}  -> refuse event_payload_mismatch 1 $.request.x')
    assert book.machine.divergences[0].flags == ["ignored: $.request.id"]


# Independence

_PROGRAM = """
from reenact.testing import Playbook
lines = [f'0.{n % 3} network get {{"a": {n % 2}, "b": {n}}} = {n}' for n in range(30)]
book = Playbook("\\n".join(lines), strict=False)
asked = [f'0.{n % 4} network get {{"b": {n * 7 % 31}, "a": {n % 2}}}' for n in range(40)]
print(book.play("\\n".join(asked)))
print(*(one.to_json() for one in book.machine.divergences), sep="\\n")
print(book.decide("unused"))
"""


def test_nothing_depends_on_the_seed_of_hashes() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(told) == 1
    assert b"despite" in next(iter(told))


def test_one_recording_can_be_replayed_any_number_of_times() -> None:
    source: MemorySource = recording(IDS)
    for _ in range(2):
        Playbook(source).check("""
            0  network get {"x": 1, "id": 1}  -> serve 1
        """)
