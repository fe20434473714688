"""Calls on the page of an exchange: HTTP as people read it, and whatever else there is as it is."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from reenact.server.web.components.formatting import value
from reenact.server.web.exchanges.calls import http_message
from tests.server.web.pages import words


def said(item: Any) -> str:
    return words(f"<main{http_message(item)}")


def test_a_request_is_a_line_headers_and_a_body() -> None:
    request = {
        "method": "POST",
        "url": "http://stock.example/reservations",
        "headers": [["accept", "*/*"], ["x-a", "1"], ["x-a", "2"]],
        "type": "json",
        "body": {"sku": "cup"},
        "timeout": 5,
    }
    assert said(request) == (
        "POST http://stock.example/reservations accept */* x-a 1 x-a 2 "
        "{&quot;sku&quot;: &quot;cup&quot;} {&quot;timeout&quot;: 5}"
    )


def test_an_answer_begins_with_its_status() -> None:
    assert said({"status": 204, "headers": {}, "body": ""}) == "204"
    assert said({"status": 200, "body": "a\nb"}) == "200 a b"
    data = {"$bytes": b64encode(b"\x00\x01").decode()}
    assert said({"status": 200, "body": data}) == "200 2 bytes 00 01"


@pytest.mark.parametrize(
    "item",
    [
        None,
        "text",
        [1],
        {"model": "small-1", "messages": []},
        {"status": "ok"},
        {"url": 7},
    ],
)
def test_what_is_no_http_is_shown_as_it_is(item: Any) -> None:
    assert http_message(item) == value(item)


@pytest.mark.parametrize("headers", ["evil", [["a"]], [7], [None], 7, [["a", "b", "c"]]])
def test_headers_of_any_other_shape_are_shown_as_they_are(headers: Any) -> None:
    found = http_message({"url": "http://a.example", "headers": headers})
    assert found.endswith(value({"headers": headers}))


def test_what_was_recorded_is_text() -> None:
    evil = "<img src=x>"
    request = {"method": evil, "url": evil, "headers": [[evil, evil]], "body": evil, evil: evil}
    assert "<img" not in http_message(request)
