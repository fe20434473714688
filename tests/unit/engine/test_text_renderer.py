"""Reports as people see them: whole texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reenact.diff.terminal_text import cell_width
from reenact.engine.divergence.model import Divergence
from reenact.engine.divergence.text_renderer import render_divergence, render_divergences
from reenact.policy.matching import Rules
from tests.meta.markdown import blocks
from tests.unit.engine.recorded import Desk, event, tool

DOCS = Path(__file__).resolve().parents[3] / "docs"


def payload_mismatch() -> Divergence:
    loop_scheduler = Desk(Rules(ignore_paths=("$.args.requestId",)))
    recorded = tool(7, "search", {"query": "weather in Paris", "limit": 5, "requestId": "r-1"})
    later = tool(12, "search", {"query": "weather in Rome", "limit": 10, "requestId": "r-2"}, "0.2")
    ask = loop_scheduler.ask_tool(
        "search", {"query": "weather in Rome", "limit": 5, "requestId": "r-9"}
    )
    return loop_scheduler.diagnosis.payload_mismatch(
        recorded, ask, [(recorded, False), (later, False)]
    )


def type_mismatch() -> Divergence:
    loop_scheduler = Desk()
    recorded = event(7, "llm_request", {"provider": "openai", "model": "gpt-5", "inputHash": "h"})
    same = tool(8, "search", {"query": "weather in Rome"})
    ask = loop_scheduler.ask_tool("search", {"query": "weather in Rome"})
    return loop_scheduler.diagnosis.type_mismatch(recorded, ask, [(recorded, False), (same, False)])


def missing() -> Divergence:
    recorded = tool(7, "search", {"query": "weather in Paris"}, "0.1")
    return Desk().diagnosis.missing(recorded, why="the program ended before it made this call")


def unexpected() -> Divergence:
    loop_scheduler = Desk()
    request = {"method": "GET", "url": "https://example.com/rates?day=today"}
    ask = loop_scheduler.ask(
        "nondeterministic", {"source": "network", "op": "GET", "request": request}, "0.3"
    )
    used = event(
        4,
        "nondeterministic",
        {"source": "network", "op": "GET", "request": request, "response": {"status": 200}},
    )
    return loop_scheduler.diagnosis.unexpected(ask, [(used, True)], draws=False)


def underflow() -> Divergence:
    loop_scheduler = Desk()
    ask = loop_scheduler.ask(
        "nondeterministic", {"source": "rng", "op": "random.random", "request": {}}
    )
    return loop_scheduler.diagnosis.unexpected(ask, (), draws=True)


def stalled() -> Divergence:
    loop_scheduler = Desk()
    return loop_scheduler.diagnosis.stalled(
        tool(9, "search", {"query": "x"}, "0.2"),
        loop_scheduler.ask_tool("fetch", {"id": 3}, "0.1"),
        stack='File "agent.py", line 31, in worker\n  item = queue.get()',
        why="no timer, task or thread can go on",
    )


REPORTS = {
    payload_mismatch: """\
divergence: event_payload_mismatch, lane 0, event 7
The tool call search differs from event 7 of the recording at $.args.query.

asked
  tool_call search, lane 0
  {"args": {"limit": 5, "query": "weather in Rome", "requestId": "r-9"}, "name": "search"}

recorded
  event 7: tool_call search, lane 0
  {"args": {"limit": 5, "query": "weather in Paris", "requestId": "r-1"}, "name": "search"}

difference
  $.args.query
    - "weather in Paris"
    + "weather in Rome"

nearest
  event 12: search, lane 0.2, 96% alike, not used yet
    differs at $.args.limit

flags
  ignored: $.args.requestId

what to do
  - If it does not matter, let the policy say "ignore": {"paths": ["$.args.query"]}.
  - If the change is intended, mode='update' makes again what differs, and nothing else.""",
    type_mismatch: """\
divergence: event_type_mismatch, lane 0, event 7
The program asks for the tool call search where the recording has the model call openai/gpt-5 (event
7).

asked
  tool_call search, lane 0
  {"args": {"query": "weather in Rome"}, "name": "search"}

recorded
  event 7: llm_request openai/gpt-5, lane 0
  {"inputHash": "h", "model": "gpt-5", "provider": "openai"}

nearest
  event 8: search, lane 0, the same, not used yet

what to do
  - The same call is event 8 of lane 0, which comes later. The program leaves out what was recorded
    before it, from event 7 on, or makes the calls in a different order.
  - If the change is intended, mode='update' makes again what differs, and nothing else.""",
    missing: """\
divergence: event_missing, lane 0.1, event 7
Nothing asked for the tool call search (event 7): the program ended before it made this call.

recorded
  event 7: tool_call search, lane 0.1
  {"args": {"query": "weather in Paris"}, "name": "search"}

what to do
  - If the program is right, mode='update' drops what it does not ask for, and keeps the rest.
  - If it may stay unused, let the policy say "unused": "allow".""",
    unexpected: """\
divergence: event_unexpected, lane 0.3
The recording has nothing left for the call network GET.

asked
  nondeterministic network GET, lane 0.3
  {"op": "GET", "request": {"method": "GET", "url": "https://example.com/rates?day=today"},
  "source": "network"}

nearest
  event 4: network GET, lane 0, the same, used

what to do
  - The same call is event 4 of lane 0, which has been used. The program makes this call more often
    than in the recording: a loop, a retry, or a missing cache.
  - If the new call is intended, add it with mode='record_missing', or let mode='update' make again
    whatever differs.""",
    underflow: """\
divergence: nondeterministic_underflow, lane 0
The program makes the draw rng random.random more often than it did in the recording.

asked
  nondeterministic rng random.random, lane 0
  {"op": "random.random", "request": {}, "source": "rng"}

what to do
  - If the change is intended, mode='update' makes again what differs, and nothing else.""",
    stalled: """\
divergence: event_missing, lane 0.1, event 9
The replay stands still: the tool call search (event 9) comes next and the tool call fetch waits; no
timer, task or thread can go on.

asked
  tool_call fetch, lane 0.1
  {"args": {"id": 3}, "name": "fetch"}

recorded
  event 9: tool_call search, lane 0.2
  {"args": {"query": "x"}, "name": "search"}

flags
  stalled

stack
  File "agent.py", line 31, in worker
    item = queue.get()

what to do
  - The stack is where the program stands instead. It waits for something that does not come: the
    recorded order of events differs, or something else had to happen first.
  - If the program is right, mode='update' drops what it does not ask for, and keeps the rest.""",
}


@pytest.mark.parametrize("make", REPORTS, ids=lambda make: make.__name__)
def test_the_whole_report(make: Any) -> None:
    assert render_divergence(make()) == REPORTS[make]


@pytest.mark.parametrize(
    "page, language, text",
    [
        ("concepts/divergence.md", "text", REPORTS[payload_mismatch] + "\n"),
        ("reference/divergence.md", "json", None),
    ],
)
def test_the_documentation_shows_what_is_printed(
    page: str, language: str, text: str | None
) -> None:
    expected = text or json.dumps(payload_mismatch().to_json(), indent=2) + "\n"
    shown = [block.text for block in blocks(DOCS / page) if block.language == language]
    assert expected in shown


def test_a_narrow_screen() -> None:
    loop_scheduler = Desk()
    found = loop_scheduler.diagnosis.payload_mismatch(
        tool(7, "f", "a" * 300 + "OLD" + "b" * 300),
        loop_scheduler.ask_tool("f", "a" * 300 + "NEW"),
        (),
    )
    report = render_divergence(found, width=60)
    assert all(cell_width(line) <= 60 for line in report.split("\n"))
    assert "    - ...aaaaaaaaaaaaaaaaaaOLDbbbbbbbbbbbbbbbbbbbbbbbbbbb..." in report
    assert '    + ...aaaaaaaaaaaaaaaaaaNEW"' in report


def test_what_was_recorded_cannot_move_the_cursor() -> None:
    loop_scheduler = Desk()
    hostile = "\x1b[2J\u202eright\r\nto left\x07"
    found = loop_scheduler.diagnosis.payload_mismatch(
        tool(7, hostile, {hostile: hostile}, "0"),
        loop_scheduler.ask_tool(hostile, {hostile: 1}),
        (),
    )
    report = render_divergence(found)
    assert all(line.isprintable() for line in report.split("\n"))
    assert "\\u001b[2J\\u202eright\\r\\nto left\\u0007" in report


def test_bytes_that_are_text_are_shown_as_text() -> None:
    loop_scheduler = Desk()
    found = loop_scheduler.diagnosis.payload_mismatch(
        tool(7, "f", {"a": b"old", "b": b"\xff\x00"}),
        loop_scheduler.ask_tool("f", {"a": b"new", "b": b"\xff\x01"}),
        (),
    )
    report = render_divergence(found)
    assert '    - bytes "old"\n    + bytes "new"' in report
    assert '    - {"$bytes": "/wA="}\n    + {"$bytes": "/wE="}' in report


def test_added_removed_and_more() -> None:
    loop_scheduler = Desk()
    found = loop_scheduler.diagnosis.payload_mismatch(
        tool(7, "f", {"gone": None, **dict.fromkeys(map(str, range(60)), 1)}),
        loop_scheduler.ask_tool("f", {"a": [1], **dict.fromkeys(map(str, range(60)), 2)}),
        (),
    )
    report = render_divergence(found)
    assert "\n  and 12 more places\n" in report
    small = loop_scheduler.diagnosis.payload_mismatch(
        tool(7, "f", {"gone": None}), loop_scheduler.ask_tool("f", {"new": [1]}), ()
    )
    assert (
        "difference\n"
        "  $.args.gone (removed)\n"
        "    - null\n"
        "  $.args.new (added)\n"
        "    + [1]\n" in render_divergence(small)
    )


def test_what_was_cut_has_its_digest() -> None:
    report = render_divergence(Desk().diagnosis.missing(tool(7, "f", "x" * 9_000), why="it ended"))
    lines = report.split("\n")
    assert "  ..." in lines
    assert any(line.startswith("  (cut; the whole is sha256:") for line in lines)


def test_a_short_list_at_the_end_of_a_run() -> None:
    unused = [tool(seq, "search", {}, "0.1") for seq in range(20, 33)]
    assert render_divergences([payload_mismatch(), underflow()], unused) == (
        "2 divergences\n"
        "  event 7, lane 0: event_payload_mismatch: The tool call search differs from event 7 of the "
        "recor...\n"
        "  lane 0: nondeterministic_underflow: The program makes the draw rng random.random more often "
        "tha...\n"
        "13 recorded events not used\n"
        + "".join(f"  event {seq}, lane 0.1: tool_call search\n" for seq in range(20, 30))
        + "  and 3 more"
    )


def test_nothing_to_say() -> None:
    assert render_divergences([], []) == ""
    assert render_divergences([], [tool(3, "f", {})]) == (
        "1 recorded event not used\n  event 3, lane 0: tool_call f"
    )
