"""The calls of a recording."""

from __future__ import annotations

from pathlib import Path

import msgspec

from reenact.exchange.comparison.calls import Call, read_calls
from reenact.exchange.comparison.compare import compare
from reenact.exchange.model import Processor
from reenact.store.reader import open_recording
from tests.cli.samples import record_run, record_timed
from tests.unit.exchange.comparison.samples import exchange, step


def _calls(path: Path, *processors: Processor) -> tuple[Call, ...]:
    with open_recording(path) as source:
        return read_calls(source, processors)


def test_calls_say_what_was_asked_and_answered(tmp_path: Path) -> None:
    calls = _calls(record_run(tmp_path / "run"))
    assert [(one.seq, one.lane, one.type, one.operation) for one in calls] == [
        (2, "0", "llm", "example/small-1"),
        (4, "0", "llm", "example/small-1"),
        (6, "0", "tool", "weather"),
        (9, "0.1", "network", "GET https://weather.example/bern"),
        (10, "0", "state_mutation", "memory"),
    ]
    tool, network = calls[2], calls[3]
    assert (tool.request["args"], tool.response) == ({"city": "Bern"}, {"celsius": 21.0})
    assert network.request["url"] == "https://weather.example/bern"
    assert network.response["status"] == 200
    msgspec.json.encode(calls)


def test_calls_know_the_innermost_processor_that_made_them(tmp_path: Path) -> None:
    outer = step("outer", 1, lane="0", first_call=0, end_call=7)
    inner = step("inner", 2, 1, lane="0", first_call=2, end_call=4)
    aside = step("aside", 3, lane="0.2", first_call=1, end_call=2)
    calls = _calls(record_timed(tmp_path / "run"), outer, inner, aside)
    assert {(one.lane, one.position): one.processor_seq for one in calls} == {
        **{("0", position): 1 for position in (0, 1, 4, 5, 6)},
        **{("0", position): 2 for position in (2, 3)},
        ("0", 7): 0,
        ("0.1", 0): 0,
        ("0.2", 0): 0,
        ("0.2", 1): 3,
        ("0.2.1", 0): 0,
        ("0.3", 0): 0,
        ("0.3", 1): 0,
    }


def test_a_recording_is_the_same_as_itself_and_another_is_not(tmp_path: Path) -> None:
    one, other = _calls(record_run(tmp_path / "a")), _calls(record_timed(tmp_path / "b"))
    assert compare(exchange(), exchange(), one, one).verdict == "identical"
    assert compare(exchange(), exchange(), one, other).verdict == "diverged"
