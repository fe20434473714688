from __future__ import annotations

from typing import Any

import pytest

from reenact.errors import RecordingDamaged, ValueRefused
from reenact.format.event import (
    TYPES,
    Draft,
    Event,
    Head,
    Prefix,
    TapePrefix,
    decode_line,
    parse,
    unknown_fields,
)

PREFIX = Prefix("cap_1", "run_1")


def line(payload: bytes = b"{}", *, seq: int = 7, prefix: Prefix = PREFIX, **fields: Any) -> bytes:
    return prefix.line(seq, Draft(**{"type": "run_end", "data": {}, "ts": 12, **fields}), payload)


def test_a_line_of_the_root_lane_is_written_byte_for_byte_as_documented() -> None:
    assert line(b'{"status":"ok"}') == (
        b'{"version":1,"captureId":"cap_1","runId":"run_1","seq":7,"ts":12,'
        b'"type":"run_end","data":{"status":"ok"}}\n'
    )


def test_lane_and_parent_stand_between_type_and_data() -> None:
    assert line(lane="0.1.2", parent=3).endswith(
        b'"type":"run_end","lane":"0.1.2","parent":3,"data":{}}\n'
    )


def test_fields_of_a_later_version_stand_before_the_data() -> None:
    assert line(extra={"z": 1, "a": [2]}).endswith(b'"type":"run_end","a":[2],"z":1,"data":{}}\n')


def test_a_line_of_a_tape_leaves_out_what_its_header_and_its_place_say() -> None:
    assert line(prefix=TapePrefix()) == b'{"ts":12,"type":"run_end","data":{}}\n'


def test_a_line_of_a_tape_says_how_far_before_it_the_enclosing_event_stands() -> None:
    near = Draft(type="x", data={}, ts=1, parent=6)
    assert TapePrefix().line(7, near, b"{}") == b'{"ts":1,"type":"x","parent":-1,"data":{}}\n'


def test_the_head_of_a_line_is_the_line_without_its_payload() -> None:
    event = Draft(type="run_end", data={}, ts=12, lane="0.4")
    assert PREFIX.head(7, event) + b'{"a":1}}\n' == PREFIX.line(7, event, b'{"a":1}')


def test_names_that_need_escaping_are_escaped() -> None:
    odd = Prefix('c"\n', "ü").line(1, Draft(type='t"', data={}, ts=0), b"{}")
    assert decode_line(odd)["captureId"] == 'c"\n'
    assert decode_line(odd)["runId"] == "ü"
    assert decode_line(odd)["type"] == 't"'
    assert odd.count(b"\n") == 1


@pytest.mark.parametrize("lane", ["", "x", "0.", ".1", "01", "0.01", "0..1", "-1", "0.1\n", "٣"])
def test_a_lane_that_is_not_numbers_joined_by_dots_is_refused(lane: str) -> None:
    with pytest.raises(ValueRefused, match="is not a lane") as caught:
        line(lane=lane)
    assert caught.value.path == "$.lane"


def test_the_eight_types_are_those_of_the_source_document() -> None:
    assert set(TYPES) == {
        "run_start",
        "run_end",
        "llm_request",
        "llm_response",
        "tool_call",
        "tool_result",
        "state_mutation",
        "nondeterministic",
    }


def event(payload: bytes, **fields: Any) -> Event:
    values: dict[str, Any] = {"capture_id": "c", "run_id": "r", "seq": 1, "ts": 2, "type": "x_note"}
    return Event(Head(version=1, **{**values, **fields}), payload, lambda _, stored: stored)


def test_an_event_loads_its_payload_when_it_is_looked_at_and_once() -> None:
    asked: list[tuple[int, bytes]] = []

    def whole(seq: int, stored: bytes) -> bytes:
        asked.append((seq, stored))
        return b'{"$$blob":1,"a":{"$bytes":"eg=="}}'

    head = Head(version=1, capture_id="c", run_id="r", seq=1, ts=2, type="x_note")
    one = Event(head, b"reference", whole)
    assert (one.seq, one.ts, one.type, one.lane, one.parent) == (1, 2, "x_note", "0", None)
    assert asked == []
    assert one.data == {"a": b"z", "$blob": 1}
    assert one.data is one.data
    assert asked == [(1, b"reference")]


def test_the_json_form_has_the_documented_order_and_keeps_the_marks() -> None:
    assert list(event(b'{"a":{"$bytes":"eg=="}}', lane="0.1", parent=4).to_json().items()) == [
        ("version", 1),
        ("captureId", "c"),
        ("runId", "r"),
        ("seq", 1),
        ("ts", 2),
        ("type", "x_note"),
        ("lane", "0.1"),
        ("parent", 4),
        ("data", {"a": {"$bytes": "eg=="}}),
    ]
    root = event(b"{}").to_json()
    assert "lane" not in root
    assert "parent" not in root


def test_the_repr_of_an_event_shows_no_payload() -> None:
    assert repr(event(b'{"a":"private"}')) == "<Event 1 x_note lane 0>"


@pytest.mark.parametrize("payload", [b"[1]", b"1", b"null", b'"x"'])
def test_data_that_is_not_an_object_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueRefused, match="is an object"):
        parse(payload)


def test_unknown_fields_are_those_the_envelope_does_not_know() -> None:
    assert unknown_fields(line(extra={"later": {"x": 1}}, lane="0.1", parent=2)) == {
        "later": {"x": 1}
    }
    assert unknown_fields(line()) == {}


@pytest.mark.parametrize("depth, fits", [(200, True), (201, False)])
def test_a_line_may_be_one_deeper_than_a_payload(depth: int, fits: bool) -> None:
    deep = b'{"seq":1,"data":' + b"[" * depth + b"1" + b"]" * depth + b"}"
    if fits:
        assert decode_line(deep)["seq"] == 1
        return
    with pytest.raises(ValueRefused, match="nested deeper"):
        decode_line(deep)


def recorded(payload: bytes) -> Event:
    head = Head(version=1, capture_id="cap_1", run_id="run_1", seq=3, ts=1, type="nondeterministic")
    return Event(head, payload, lambda seq, stored: stored)


ASKED = {"url": "http://a.example/"}
ASKED_TEXT = b'{"url":"http://a.example/"}'


def test_an_event_that_asks_the_same_is_known_by_the_text_and_its_data_are_whole() -> None:
    event = recorded(b'{"key":"k","op":"GET","request":' + ASKED_TEXT + b',"response":[1]}')
    assert event.asks(ASKED, ASKED_TEXT)
    assert event.data == {"key": "k", "op": "GET", "request": ASKED, "response": [1]}


def test_a_request_at_the_end_of_the_payload_is_known_as_well() -> None:
    assert recorded(b'{"key":"k","request":' + ASKED_TEXT + b"}").asks(ASKED, ASKED_TEXT)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b'{"key":"k","request":{"url":"http://b.example/"}}', id="another request"),
        pytest.param(b'{"key":"k","request":' + ASKED_TEXT[:-1] + b',"x":1}}', id="more in it"),
        pytest.param(
            b'{"error":{"a":1,"request":' + ASKED_TEXT + b'},"key":"k","request":{}}', id="inside"
        ),
        pytest.param(b'{"key":"k","response":1}', id="none"),
        pytest.param(
            b'{"key":"k","request":' + ASKED_TEXT + b',"request":{},"source":"s"}', id="twice"
        ),
    ],
)
def test_an_event_that_does_not_plainly_ask_the_same_is_left_alone(payload: bytes) -> None:
    assert not recorded(payload).asks(ASKED, ASKED_TEXT)


def test_damage_beside_the_request_is_found() -> None:
    event = recorded(b'{"key":"k","request":' + ASKED_TEXT + b',"response":1,"response":2}')
    with pytest.raises(RecordingDamaged, match="event 3"):
        event.asks(ASKED, ASKED_TEXT)


def test_data_that_was_let_go_are_read_again() -> None:
    event = recorded(b'{"a":1}')
    before = event.data
    event.let_go()
    assert event.data == before
    assert event.data is not before
