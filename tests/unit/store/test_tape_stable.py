"""Recording a tape again keeps the lines of what says the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reenact.format.event import Draft
from reenact.store.sinks.tape import TapeSink
from reenact.store.verify import verify
from tests.unit.store.samples import CLOCK, PLAIN, datas, draft, make_seed, record


def _answer(body: str = "x", **changes: Any) -> dict[str, Any]:
    headers = [["Date", changes.pop("date", "Mon")], ["X-RateLimit-Remaining", "7"], ["A", "b"]]
    return {
        "source": "network",
        "key": "k",
        "response": {"body": body, "headers": headers, "status": 200},
        "timing": {"offsets": [changes.pop("took", 3)]},
        "valueHash": f"sha256:{changes}",
        **changes,
    }


def _event(data: dict[str, Any], ts: int = 5, **more: Any) -> Draft:
    return draft("x_note", data, ts=ts, **more)


def _again(tape: Path, events: list[Draft], **seed: Any) -> TapeSink:
    sink = TapeSink(tape, clock=CLOCK, options=PLAIN, replace=True, keeps=True)
    sink.start(make_seed("tape", **seed))
    for event in events:
        sink.append(event)
    return sink


def _changed(old: bytes, tape: Path) -> list[int]:
    new = tape.read_bytes().splitlines()
    return [at for at, line in enumerate(new) if line not in old.splitlines()]


def test_what_says_the_same_is_not_touched(tmp_path: Path) -> None:
    tape = record(tmp_path / "t.jsonl", [_event(_answer()), _event({"value": 1}, lane="0.1")])
    before = tape.read_bytes()
    manifest = _again(
        tape, [_event(_answer(date="Tue", took=9), ts=77), _event({"value": 1}, 78, lane="0.1")]
    ).finalize()
    assert tape.read_bytes() == before
    assert manifest.integrity.events_hash in before.decode()
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]


@pytest.mark.parametrize(
    "other",
    [_answer("y"), {**_answer(), "request": 1}, {**_answer(), "position": 4}, {"value": 2}],
    ids=["body", "request", "position", "draw"],
)
def test_what_says_something_else_has_a_new_line(tmp_path: Path, other: dict[str, Any]) -> None:
    tape = record(tmp_path / "t.jsonl", [_event({"value": 1}), _event({"n": 1}), _event(_answer())])
    before = tape.read_bytes()
    _again(tape, [_event({"value": 1}, 70), _event(other, 71), _event(_answer(), 72)]).finalize()
    assert _changed(before, tape) == [2, 4]
    verify(tape)
    assert datas(tape)[1] == other


def test_lines_move_when_others_come_and_go(tmp_path: Path) -> None:
    tape = record(tmp_path / "t.jsonl", [_event({"n": number}) for number in (1, 2, 3)])
    before = tape.read_bytes()
    events = [_event({"n": number}, ts=99) for number in (9, 1, 3)]
    _again(tape, events).finalize()
    assert _changed(before, tape) == [1, 4]
    assert datas(tape) == [{"n": 9}, {"n": 1}, {"n": 3}]


def test_an_event_keeps_its_own_enclosing_one(tmp_path: Path) -> None:
    pair = [draft("tool_call", {"name": "t"}), draft("tool_result", {"ok": True}, parent=1)]
    tape = record(tmp_path / "t.jsonl", [*pair, _event({"n": 1})])
    moved = [_event({"n": 2}), pair[0], draft("tool_result", {"ok": True}, ts=9, parent=2)]
    _again(tape, moved).finalize()
    line = json.loads(tape.read_bytes().splitlines()[3])
    assert (line["parent"], line["ts"]) == (-1, pair[1].ts)


def test_one_line_is_kept_once(tmp_path: Path) -> None:
    tape = record(tmp_path / "t.jsonl", [_event({"n": 1})])
    _again(tape, [_event({"n": 1}, 8), _event({"n": 1}, 9)]).finalize()
    times = [json.loads(line).get("ts") for line in tape.read_bytes().splitlines()[1:3]]
    assert times == [5, 9]


def test_another_header_is_written_though_the_lines_stay(tmp_path: Path) -> None:
    tape = record(tmp_path / "t.jsonl", [_event({"n": 1})])
    before = tape.read_bytes()
    _again(tape, [_event({"n": 1}, 9)], environment={"python": "4"}).finalize()
    assert _changed(before, tape) == [0, 2]


def test_a_damaged_tape_is_replaced(tmp_path: Path) -> None:
    tape = record(tmp_path / "t.jsonl", [_event({"n": 1})])
    tape.write_bytes(tape.read_bytes().replace(b'"n":1', b'"n":7'))
    _again(tape, [_event({"n": 1}, 9)]).finalize()
    verify(tape)
    assert json.loads(tape.read_bytes().splitlines()[1])["ts"] == 9


def test_blobs_stay_and_go_with_their_lines(tmp_path: Path) -> None:
    big = [_event(_answer(letter * 70_000)) for letter in "ab"]
    tape = record(tmp_path / "t.jsonl", big)
    _again(tape, [_event(_answer("b" * 70_000, date="Wed"), 9)]).finalize()
    verify(tape)
    assert len([path for path in (tmp_path / "t.jsonl.blobs").rglob("*") if path.is_file()]) == 1
    assert json.loads(tape.read_bytes().splitlines()[1])["ts"] == 5
