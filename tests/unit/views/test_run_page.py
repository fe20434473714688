"""What a page is told: each value once, each body as what it is, nothing recorded taken for ours."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from reenact.views.html.document import document
from reenact.views.html.values import (
    ValueTable,
    answer_body,
    attach_pictures,
    pictures_in,
    request_body,
)

LONG = "a text that is long enough to stand in the table " * 3
PNG = b"\x89PNG\r\n\x1a\n" + bytes(60)


def _whole(item: Any, rows: list[Any]) -> Any:
    """What the page makes of a value."""
    if isinstance(item, list):
        return [_whole(one, rows) for one in item]
    if not isinstance(item, dict):
        return item
    if "$t" not in item:
        return {name: _whole(one, rows) for name, one in item.items()}
    place = item["$t"]
    if isinstance(place, dict):
        return {name: _whole(one, rows) for name, one in place.items()}
    if isinstance(place, list):
        return [one for piece in place for one in _whole(piece, rows)]
    return int(place) if isinstance(place, str) else _whole(rows[place], rows)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "short",
        LONG,
        {"$t": 0},
        {"$t": {"$t": LONG}, "other": [LONG, LONG]},
        [{"role": "user", "text": LONG, "number": number} for number in range(100)],
        {"deep": [[[{"er": LONG}]]]},
        2**53 + 1,
        [-(2**70), 1.5, True],
    ],
    ids=["none", "short", "long", "mark", "marks", "list", "deep", "integer", "numbers"],
)
def test_a_table_gives_back_what_it_was_given(value: Any) -> None:
    table = ValueTable()
    told = json.loads(json.dumps([table.put(value), table.rows]))
    assert _whole(*told) == value


def test_a_conversation_that_grows_costs_what_is_new() -> None:
    table = ValueTable()
    messages: list[Any] = []
    sizes = []
    for turn in range(400):
        messages.append({"role": "user", "text": f"{LONG}{turn}"})
        table.put(messages)
        if turn % 100 == 99:
            sizes.append(len(json.dumps(table.rows)))
    assert sizes[3] < 5 * sizes[0]
    assert json.dumps(table.rows).count(f'{LONG}7"') == 1


def test_rows_refer_to_rows_before_them() -> None:
    table = ValueTable()
    table.put({"a": [LONG, {"b": [f"{LONG}!", {"c": f"{LONG}?"}]}]})
    for number, row in enumerate(table.rows):
        for found in json.dumps(row).split('{"$t": ')[1:]:
            assert int(found.partition("}")[0]) < number


@pytest.mark.parametrize(
    "kind,body,expected",
    [
        ("application/json", '{"a": 1}', {"as": "json", "v": {"a": 1}}),
        ("text/plain", "plain", {"as": "text", "v": "plain"}),
        ("image/svg+xml", "<svg/>", {"as": "text", "v": "<svg/>"}),
        ("image/png", PNG, {"as": "image", "kind": "image/png", "v": {"$t": 0}}),
        ("application/octet-stream", b"\xff\x00", {"as": "hex", "v": "ff00", "of": 2}),
        ("text/event-stream", "data: 1\n\n", {"as": "events", "v": [["", 1]]}),
        (
            "application/x-ndjson",
            '{"a": 1}\nno\n',
            {"as": "events", "v": [["", {"a": 1}], ["", "no"]]},
        ),
        (
            "application/json",
            '{"as": "image", "v": "x"}',
            {"as": "json", "v": {"as": "image", "v": "x"}},
        ),
        ("text/plain", "", None),
        ("", None, None),
    ],
    ids=["json", "text", "svg", "png", "bytes", "sse", "lines", "not ours", "empty", "none"],
)
def test_a_body_is_shown_as_what_it_is(kind: str, body: Any, expected: Any) -> None:
    assert answer_body(body, [["Content-Type", f"{kind}; charset=utf-8"]], ValueTable()) == expected


def test_of_what_is_very_long_the_beginning_is_shown() -> None:
    table = ValueTable()
    text = answer_body("x" * 300_000, [], table)
    assert text is not None
    assert text["of"] == 300_000
    assert len(table.rows[0]) < 300_000
    data = answer_body(bytes([255]) * 10_000, [], table)
    assert data is not None
    assert data["of"] == 10_000
    assert len(table.rows[1]) < 10_000
    parsed = answer_body(f'["{"x" * 2_000_000}"]', [], table)
    assert parsed is not None
    assert parsed["as"] == "text"


def test_forms_and_their_parts() -> None:
    form = {"type": "form", "body": [["a", "1"], ["a", "2"]]}
    assert request_body(form, [], ValueTable()) == {"as": "form", "v": [["a", "1"], ["a", "2"]]}
    parts = [{"name": "doc", "filename": "a.png", "type": "bytes", "value": PNG}, "odd"]
    shown = request_body({"type": "multipart", "body": parts}, [], ValueTable())
    assert shown is not None
    assert [part["body"]["as"] for part in shown["v"]] == ["image", "text"]
    assert shown["v"][0]["about"] == {"name": "doc", "filename": "a.png"}


def test_pictures_of_every_api_hang_where_they_were_said() -> None:
    data = b64encode(PNG).decode()
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    source = {"type": "image", "source": {"media_type": "image/png", "data": data}}
    evil = {"url": "data:image/svg+xml;base64," + data, "other": "data:text/html;base64," + data}
    found = pictures_in([url, source, {"images": [data]}, evil])
    assert [one["kind"] for one in found] == ["image/png"] * 3
    said: list[Any] = [
        {"role": "user", "attached": ["image (92 characters)", "image https://x.example/a.png"]},
        {"role": "user", "text": "and"},
        {"role": "user", "attached": ["image/png (92 characters)"]},
    ]
    assert attach_pictures(said, found) == found
    assert attach_pictures(said, found[:2]) == []
    assert [len(message.get("pictures", [])) for message in said] == [1, 0, 1]


def test_parts_of_a_script_come_in_their_order() -> None:
    whole = document("run", "a", {}, tools="", body="", parts=("steps", "time"))
    places = [
        whole.index(mark) for mark in ("const data =", "const run =", "const ROW =", "const KEYS =")
    ]
    assert places == sorted(places)
