"""What is said about a divergence: its code, its words, the places, the way out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reenact.engine.divergence.text_renderer import render_divergence
from reenact.policy.matching import Rules
from tests.unit.engine.recorded import Desk, event, tool

UUID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
OTHER_UUID = "f47ac10b-58cc-4372-a567-0e02b2c3d479"
AGAIN = "If the change is intended, mode='update' makes again what differs, and nothing else."


def hints(recorded: Any, asked: Any, rules: Rules | None = None) -> list[str]:
    loop_scheduler = Desk(rules)
    found = loop_scheduler.diagnosis.payload_mismatch(
        tool(7, "f", recorded), loop_scheduler.ask_tool("f", asked), ()
    )
    return found.hint.split("\n")


def http(seq: int, request: dict[str, Any]) -> Any:
    return event(seq, "nondeterministic", {"source": "network", "op": "GET", "request": request})


def http_hints(recorded: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    loop_scheduler = Desk()
    ask = loop_scheduler.ask(
        "nondeterministic", {"source": "network", "op": "GET", "request": asked}
    )
    return loop_scheduler.diagnosis.payload_mismatch(http(7, recorded), ask, ()).hint.split("\n")


def test_payload_mismatch_lists_every_place_and_the_rules_that_hid_some() -> None:
    loop_scheduler = Desk(
        Rules(ignore_paths=("$.args.id", "$.args.unused"), volatile=("durations",))
    )
    found = loop_scheduler.diagnosis.payload_mismatch(
        tool(7, "search", {"q": "a", "n": [1, 2], "id": 1, "t": "5ms"}, "0.1"),
        loop_scheduler.ask_tool("search", {"q": "b", "n": [1, 2, 3], "id": 2, "t": "6ms"}, "0.1"),
        (),
    )
    assert found.code == "event_payload_mismatch"
    assert found.detail == (
        "The tool call search differs from event 7 of the recording in 2 places, "
        "first at $.args.n[2]."
    )
    assert [
        (gap.path, gap.normalised, gap.kind, gap.expected, gap.observed) for gap in found.paths
    ] == [
        ("$.args.n[2]", "$['args']['n'][2]", "added", None, 3),
        ("$.args.q", "$['args']['q']", "changed", "a", "b"),
    ]
    assert (found.event_seq, found.lane, found.json_path) == (7, "0.1", "$.args.n[2]")
    assert found.flags == ["ignored: $.args.id", "volatile: durations"]
    assert found.expected is not None
    assert found.observed is not None
    assert found.expected.seq == 7
    assert found.observed.data == {
        "args": {"id": 2, "n": [1, 2, 3], "q": "b", "t": "6ms"},
        "name": "search",
    }


def test_fifty_places_are_shown_and_the_rest_is_counted() -> None:
    loop_scheduler = Desk()
    found = loop_scheduler.diagnosis.payload_mismatch(
        tool(7, "f", dict.fromkeys(map(str, range(70)), 1)),
        loop_scheduler.ask_tool("f", dict.fromkeys(map(str, range(70)), 2)),
        (),
    )
    assert (len(found.paths), found.more_paths) == (50, 20)
    assert "in 70 places" in found.detail


@pytest.mark.parametrize(
    "recorded, asked, hint",
    [
        (
            {"id": UUID},
            {"id": OTHER_UUID},
            '$.args.id differs only in uuids: "volatile": ["uuids"] in the policy lets them differ.',
        ),
        (
            {"text": "at 2024-05-01T10:00:00Z"},
            {"text": "at 2025-05-01T10:00:00Z"},
            '$.args.text differs only in timestamps: "volatile": ["timestamps"] in the policy lets '
            "them differ.",
        ),
        (
            {"runs": [{"tookMs": 1}, {"tookMs": 2}]},
            {"runs": [{"tookMs": 3}, {"tookMs": 4}]},
            "$.args.runs[0].tookMs, $.args.runs[1].tookMs differs only in durations: "
            '"volatile": ["durations"] in the policy lets them differ.',
        ),
        (
            {"q": "a"},
            {"q": "b"},
            'If it does not matter, let the policy say "ignore": {"paths": ["$.args.q"]}.',
        ),
        (
            {"q": "a"},
            {"q": "b", "new": 1},
            'If these do not matter, let the policy say "ignore": {"paths": ["$.args.new", '
            '"$.args.q"]}.',
        ),
    ],
)
def test_the_rule_that_would_settle_it(recorded: Any, asked: Any, hint: str) -> None:
    assert hints(recorded, asked) == [hint, AGAIN]


@pytest.mark.parametrize(
    "recorded, asked",
    [
        ({"list": [1]}, {"list": [1, 2]}),
        ({"a": 1, "b": 1, "c": 1, "d": 1}, {"a": 2, "b": 2, "c": 2, "d": 2}),
        (1, 2),
    ],
)
def test_no_rule_is_named_where_none_is_worth_it(recorded: Any, asked: Any) -> None:
    assert hints(recorded, asked) == [AGAIN]


def test_a_rule_that_is_in_force_is_not_named_again() -> None:
    rules = Rules(volatile=("uuids",))
    assert hints({"id": UUID}, {"id": "none"}, rules)[0].startswith("If it does not matter")


def test_a_suggested_rule_settles_it() -> None:
    one, other = {"deep": [{"a b": 1}]}, {"deep": [{"a b": 2}]}
    (hint, _) = hints(one, other)
    assert hint.endswith("""{"paths": ["$.args.deep[0]['a b']"]}.""")
    comparer = Desk(Rules(ignore_paths=("$.args.deep[0]['a b']",))).comparer
    assert comparer.key({"name": "f", "args": one}) == comparer.key({"name": "f", "args": other})


@pytest.mark.parametrize(
    "recorded, asked, rule",
    [
        (
            {"headers": [["X-Trace", "1"]]},
            {"headers": [["X-Trace", "2"]]},
            '{"headers": ["X-Trace"]}',
        ),
        ({"headers": []}, {"headers": [["X-Trace", "2"]]}, '{"headers": ["X-Trace"]}'),
        ({"headers": {"X-Trace": "1"}}, {"headers": {}}, '{"headers": ["X-Trace"]}'),
        ({"url": "http://h/?a=1&t=1"}, {"url": "http://h/?a=1&t=2"}, '{"query": ["t"]}'),
        ({"url": "http://h/?a=1"}, {"url": "http://h/?a=1&t=2"}, '{"query": ["t"]}'),
        ({"url": "http://h/a"}, {"url": "http://h/b"}, '{"paths": ["$.request.url"]}'),
        ({"url": "http://[h/a"}, {"url": "http://h/b"}, '{"paths": ["$.request.url"]}'),
        ({"headers": "a"}, {"headers": "b"}, '{"paths": ["$.request.headers"]}'),
    ],
)
def test_headers_and_parameters_are_named_as_such(recorded: Any, asked: Any, rule: str) -> None:
    hint = f'If it does not matter, let the policy say "ignore": {rule}.'
    assert http_hints(recorded, asked) == [hint, AGAIN]


@pytest.mark.parametrize("now", [[], {"a": 1}, 5, None])
def test_a_member_called_url_may_be_anything(now: Any) -> None:
    assert hints({"url": "https://a.example/?x=1"}, {"url": now})[0] == (
        'If it does not matter, let the policy say "ignore": {"paths": ["$.args.url"]}.'
    )


@pytest.mark.parametrize(
    "seq, lane, used, hint",
    [
        (9, "0.2", False, "The same call is event 9 of lane 0.2, which has not been used. The program makes this call from a different task, thread or tool: lane 0."),
        (9, "0", False, "The same call is event 9 of lane 0, which comes later. The program leaves out what was recorded before it, from event 7 on, or makes the calls in a different order."),
        (5, "0", False, "The same call is event 5 of lane 0, which has not been used. The calls come in a different order, or the program left this one out before."),
        (5, "0", True, "The same call is event 5 of lane 0, which has been used. The program makes this call more often than in the recording: a loop, a retry, or a missing cache."),
    ],
)  # fmt: skip
def test_where_the_same_call_is(seq: int, lane: str, used: bool, hint: str) -> None:
    loop_scheduler = Desk()
    ask, recorded = loop_scheduler.ask_tool("f", {"q": "x"}), tool(7, "f", {"q": "y"})
    candidates = [(recorded, False), (tool(seq, "f", {"q": "x"}, lane), used)]
    found = loop_scheduler.diagnosis.payload_mismatch(recorded, ask, candidates)
    assert found.hint.split("\n")[0] == hint
    assert [(one.seq, one.score, one.used) for one in found.nearest] == [(seq, 1.0, used)]


def test_type_mismatch() -> None:
    loop_scheduler = Desk()
    recorded = event(7, "llm_request", {"provider": "p", "model": "m", "inputHash": "h"})
    found = loop_scheduler.diagnosis.type_mismatch(
        recorded,
        loop_scheduler.ask_tool("search", {"q": "x"}),
        [(tool(8, "search", {"q": "x"}), False)],
    )
    assert (found.code, found.event_seq, found.paths) == ("event_type_mismatch", 7, [])
    assert found.detail == (
        "The program asks for the tool call search where the recording has the model call p/m "
        "(event 7)."
    )
    assert [one.seq for one in found.nearest] == [8]


@pytest.mark.parametrize(
    "draws, code, detail",
    [
        (
            True,
            "nondeterministic_underflow",
            "The program makes the draw clock time.time more often than it did in the recording.",
        ),
        (False, "event_unexpected", "The recording has nothing left for the draw clock time.time."),
    ],
)
def test_beyond_the_recording(draws: bool, code: str, detail: str) -> None:
    loop_scheduler = Desk()
    ask = loop_scheduler.ask("nondeterministic", {"source": "clock", "key": "time.time"}, "0.4")
    found = loop_scheduler.diagnosis.unexpected(ask, (), draws=draws)
    assert (found.code, found.detail, found.lane) == (code, detail, "0.4")
    assert (found.expected, found.event_seq) == (None, None)


def test_missing() -> None:
    found = Desk().diagnosis.missing(tool(7, "f", {}, "0.1"), why="the program ended")
    assert (found.code, found.lane, found.event_seq) == ("event_missing", "0.1", 7)
    assert found.detail == "Nothing asked for the tool call f (event 7): the program ended."
    assert found.observed is None


def test_stalled_names_both_sides_and_carries_the_stack() -> None:
    loop_scheduler = Desk()
    found = loop_scheduler.diagnosis.stalled(
        tool(7, "f", {}, "0.1"),
        loop_scheduler.ask_tool("g", {}, "0.2"),
        stack="File 'a.py', line 3\n  password=hunter2",
        why="nothing else can happen",
    )
    assert (found.code, found.lane, found.event_seq) == ("event_missing", "0.2", 7)
    assert found.detail == (
        "The replay stands still: the tool call f (event 7) comes next and the tool call g waits; "
        "nothing else can happen."
    )
    assert found.stack == "File 'a.py', line 3\n  password=***REDACTED***"
    assert found.flags == ["stalled"]


def test_stalled_at_the_end() -> None:
    found = Desk().diagnosis.stalled(None, None, stack="", why="a thread waits")
    assert found.detail == ("The replay stands still: the recording is at its end; a thread waits.")
    assert (found.stack, found.event_seq, found.lane) == (None, None, "0")


def test_a_long_stack_keeps_its_end() -> None:
    stack = "\n".join(f"frame {number}" for number in range(2_000))
    found = Desk().diagnosis.stalled(None, None, stack=stack, why="x")
    assert found.stack is not None
    assert found.stack.startswith("… ")
    assert found.stack.endswith("frame 1998\nframe 1999")


def test_cancelled() -> None:
    loop_scheduler = Desk()
    found = loop_scheduler.diagnosis.cancelled(tool(7, "f", {}), loop_scheduler.ask_tool("f", {}))
    assert (found.code, found.flags) == ("event_missing", ["cancelled"])
    assert found.detail == (
        "The recording has an answer for the tool call f (event 7), and the program cancelled it."
    )


def test_a_withheld_payload_cannot_be_compared_and_says_so() -> None:
    loop_scheduler = Desk()
    withheld = {"digest": "sha256:x", "size": 5, "reason": "secret-like text: shape.x"}
    recorded = event(7, "tool_call", {"withheld": withheld})
    found = loop_scheduler.diagnosis.payload_mismatch(
        recorded, loop_scheduler.ask_tool("f", {}), ()
    )
    assert found.detail == (
        "The tool call f cannot be compared with event 7 of the recording, "
        "whose payload was withheld."
    )
    assert (found.paths, found.hint) == ([], AGAIN)
    assert found.flags == ["withheld: secret-like text: shape.x"]


def test_redacted_data_is_flagged() -> None:
    loop_scheduler = Desk()
    recorded = tool(7, "f", {"password": "***REDACTED:0123456789ab***", "q": 1})
    ask = loop_scheduler.ask_tool("f", {"password": "hunter2", "q": 2})
    found = loop_scheduler.diagnosis.payload_mismatch(recorded, ask, ())
    assert ([gap.path for gap in found.paths], found.flags) == (["$.args.q"], ["redacted"])


def test_the_same_request_with_a_key_of_its_own() -> None:
    loop_scheduler = Desk()
    found = loop_scheduler.diagnosis.payload_mismatch(
        tool(7, "f", {}), loop_scheduler.ask_tool("f", {}), ()
    )
    assert found.detail == (
        "The tool call f and event 7 of the recording have the same request and different keys."
    )


def test_a_secret_that_would_show_hides_everything() -> None:
    """The last line of defence: what is no token in its text may be one where the text is cut."""
    loop_scheduler = Desk()
    token = "gh" + "p_" + "A1b2C3d4" * 5
    text = "a" * 5_000 + token + "-" * (200 - len(token))
    ask = loop_scheduler.ask_tool("f", {"q": text + "new"})
    found = loop_scheduler.diagnosis.payload_mismatch(tool(7, "f", {"q": text + "old"}), ask, ())
    assert token not in str(found.to_json())
    assert found.detail == "What differs is not shown, because text in it looks like a secret."
    assert (found.code, found.event_seq, found.more_paths) == ("event_payload_mismatch", 7, 1)
    assert found.flags == ["not shown: shape.github"]


def test_both_sides_of_a_model_call_name_the_model() -> None:
    """Also where only what was sent is compared."""
    loop_scheduler = Desk()
    data = {"provider": "p", "model": "small", "lens": "chat", "request": {"body": {"n": 1}}}
    asked = loop_scheduler.ask("llm_request", {"request": {"body": {"n": 2}}})
    ask = msgspec.structs.replace(asked, operation="p/large")
    found = loop_scheduler.diagnosis.payload_mismatch(event(7, "llm_request", data), ask, ())
    assert found.expected is not None
    assert found.observed is not None
    assert (found.expected.operation, found.observed.operation) == ("p/small", "p/large")
    assert found.expected.data == data
    assert found.expected.request == {"request": {"body": {"n": 1}}}


def test_expected_is_the_complete_envelope_of_the_recorded_event() -> None:
    loop_scheduler = Desk()
    recorded = tool(7, "search", {"q": "a"}, "0.1")
    found = loop_scheduler.diagnosis.payload_mismatch(
        recorded, loop_scheduler.ask_tool("search", {"q": "b"}), ()
    )
    said = found.to_json()["expected"]
    envelope = recorded.to_json()
    assert {name: said[name] for name in envelope} == envelope
    assert set(said) - set(envelope) == {"operation"}


def test_expected_of_a_call_that_was_answered_has_what_came_back() -> None:
    loop_scheduler = Desk()
    answered = {
        "source": "network",
        "op": "GET",
        "key": "k",
        "request": {"n": 1},
        "response": "x" * 9_000,
    }
    found = loop_scheduler.diagnosis.payload_mismatch(
        event(7, "nondeterministic", answered),
        loop_scheduler.ask(
            "nondeterministic", {"source": "network", "op": "GET", "request": {"n": 2}}
        ),
        (),
    )
    assert found.expected is not None
    assert found.expected.data.keys() == answered.keys()
    assert found.expected.data["response"].startswith("xxx")
    assert len(found.expected.data["response"]) < 2_100
    assert found.expected.request == {"source": "network", "op": "GET", "request": {"n": 1}}
    assert found.expected.digest is None, "the request is complete"
    assert "xxx" not in render_divergence(found)


def test_secrets_of_a_recorded_answer_are_not_shown() -> None:
    loop_scheduler = Desk()
    secret = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
    answered = {"source": "network", "key": "k", "request": {"n": 1}, "response": {"token": secret}}
    found = loop_scheduler.diagnosis.payload_mismatch(
        event(7, "nondeterministic", answered),
        loop_scheduler.ask("nondeterministic", {"source": "network", "request": {"n": 2}}),
        (),
    )
    assert secret not in str(found.to_json())
