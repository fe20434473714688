"""The playbook itself: what it reads, what it says, and how it fails."""

from __future__ import annotations

import pytest

from reenact import UsageError
from reenact.policy.access import Capabilities
from reenact.policy.model import CapabilityRule, Policy
from reenact.testing import Playbook, recording
from reenact.testing.recordings import call_of, parse_line

ONE = '0 network get {"x": 1} = "one"'


def test_a_difference_shows_the_whole_transcript() -> None:
    with pytest.raises(AssertionError) as raised:
        Playbook(ONE).check("""
            # what the cursor does
            0  network get {"x": 2}  -> refuse event_payload_mismatch 1 $.request.x

            0  network get {"x": 1}  -> live
            unused                   -> nothing
        """)
    assert str(raised.value).splitlines()[1:] == [
        '  0  network get {"x": 2}  -> refuse event_payload_mismatch 1 $.request.x',
        '- 0  network get {"x": 1}  -> live',
        '+ 0  network get {"x": 1}  -> serve 1',
        "  unused                   -> nothing",
    ]


def test_the_width_of_columns_does_not_matter() -> None:
    Playbook(ONE).check('0    network   get   {"x":1}    ->    serve   1')


def test_a_transcript_can_be_filled_in() -> None:
    played = Playbook(ONE).play("""
        0 network get {"x": 1}
        0 clock now -> whatever stands here
    """)
    assert played.splitlines() == [
        '0 network get {"x": 1} -> serve 1',
        "0 clock now            -> refuse nondeterministic_underflow",
    ]


def test_an_arrow_in_a_request_is_no_decision() -> None:
    Playbook('0 network get {"x": "a -> b"} = 1').check("""
        0 network get {"x": "a -> b"} -> serve 1
    """)


def test_a_line_without_a_decision_checks_nothing_and_is_refused() -> None:
    with pytest.raises(UsageError, match="expects nothing"):
        Playbook(ONE).check('0 network get {"x": 1}')


@pytest.mark.parametrize(
    "line", ["network get {}", "0", '0 network get {"x": }', "00 network get {}", "0. clock now"]
)
def test_a_line_that_cannot_be_read_says_so(line: str) -> None:
    with pytest.raises(UsageError, match="cannot read the line") as raised:
        parse_line(line)
    assert "LANE KIND NAME" in raised.value.hint


def test_lines_become_the_calls_that_boundaries_make() -> None:
    def made(text: str) -> tuple[str, str, str, str, bool]:
        call = call_of(parse_line(text))
        return call.type, call.kind, call.capability, call.operation, call.instant

    assert made("0 network get {}") == ("nondeterministic", "network", "net.fetch", "get", False)
    assert made("0 llm acme/m1 {}") == ("llm_request", "llm", "llm.call", "acme/m1", False)
    assert made("0 tool t {}") == ("tool_call", "tool", "tool.call", "t", False)
    assert made("0 clock now") == ("nondeterministic", "clock", "time.now", "", True)
    assert made("0 rng choice {}") == ("nondeterministic", "rng", "random", "choice", True)
    assert made("0 db.query sel {}") == ("nondeterministic", "db.query", "db.query", "sel", False)
    assert call_of(parse_line("0 tool t {}")).nests


def test_a_capability_of_the_program_can_be_made_known() -> None:
    known = Capabilities()
    known.register("db.query")
    policy = Policy(id="p", capabilities={"db.query": CapabilityRule()})
    Playbook(mode="record", policy=policy, known=known).check("0 db.query select {} -> live")


def test_recordings_look_like_those_of_a_session() -> None:
    source = recording("""
        0    tool search {"q": 1}  inside 0.1
        0.1  network get {"x": 1}  = 2
        0    tool search           = 3
        0    clock now             = 1.5
        0    schedule timer:0
        0    llm acme/m1 {}        cancelled
        0    network get {}        denied
    """)
    told = [(event.type, event.lane, event.parent) for event in source]
    assert told == [
        ("tool_call", "0", None),
        ("nondeterministic", "0.1", None),
        ("tool_result", "0", 1),
        ("nondeterministic", "0", None),
        ("nondeterministic", "0", None),
        ("llm_request", "0", None),
        ("llm_response", "0", 6),
        ("nondeterministic", "0", None),
    ]
    data = [event.data for event in source]
    assert data[0]["inner"] == "0.1"
    assert (data[2]["ok"], data[2]["result"]) == (True, 3)
    assert (data[3]["key"], data[3]["value"]) == ("now", 1.5)
    assert data[4]["source"] == "schedule"
    assert data[6]["cancelled"] is True
    assert data[7]["error"]["kind"] == "denied"


def test_a_position_is_written_only_where_it_is_not_the_next() -> None:
    source = recording("""
        0  network get {}  at 1 = 1
        0  network get {}  at 0 = 2
        0  network get {}       = 3
    """)
    assert [event.data.get("position") for event in source] == [1, 0, None]


def test_an_end_without_a_start_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing is open"):
        recording("0 tool search = 1")
