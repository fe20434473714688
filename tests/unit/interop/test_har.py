"""HTTP archives, as browsers and proxies write them."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from typing import Any

import pytest

from reenact.interop.har import read, write
from reenact.interop.model import Exchange
from tests.unit.interop.foreign_files import exchange, losses_of, refused

REQUEST = {"method": "GET", "url": "https://a.example/x", "headers": []}
RESPONSE = {"status": 200, "statusText": "OK", "httpVersion": "HTTP/1.1", "headers": []}


def _archive(request: Any = None, response: Any = None, **entry: Any) -> bytes:
    one = {
        "request": {**REQUEST, **(request or {})},
        "response": {**RESPONSE, **(response or {})},
        **entry,
    }
    return json.dumps({"log": {"version": "1.2", "entries": [one]}}).encode()


def _one(content: bytes) -> Exchange:
    (found,) = read(content).items
    assert isinstance(found, Exchange)
    return found


def test_a_browsers_entry() -> None:
    content = _archive(
        {
            "method": "POST",
            "headers": [{"name": ":authority", "value": "a"}, {"name": "X", "value": "1"}],
            "postData": {"mimeType": "application/json", "text": '{"a":1}'},
        },
        {
            "httpVersion": "h2",
            "headers": [
                {"name": "content-encoding", "value": "br"},
                {"name": "set-cookie", "value": "a=1\nb=2"},
            ],
            "content": {"size": 2, "mimeType": "text/plain", "text": "é"},
        },
        startedDateTime="2026-11-16T15:00:00.250Z",
        time=750.5,
        timings={"wait": 700},
        cache={},
    )
    found = read(content)
    (one,) = found.items
    assert isinstance(one, Exchange)
    assert one.request.headers == (("X", "1"),)
    assert one.request.body == b'{"a":1}'
    assert one.head.version == "HTTP/2"
    assert one.head.headers == (("set-cookie", "a=1"), ("set-cookie", "b=2"))
    assert (one.body, one.ts) == ("é".encode(), 1_794_841_201_000)
    assert losses_of(found) == {"coding_dropped": 1, "timings": 1}


def test_a_body_in_base64() -> None:
    content = {"size": 2, "text": b64encode(b"\xff\x00").decode(), "encoding": "base64"}
    assert _one(_archive(response={"content": content})).body == b"\xff\x00"


def test_a_body_that_was_left_out_is_a_loss() -> None:
    found = read(_archive(response={"content": {"size": 9, "mimeType": "image/png"}}))
    assert losses_of(found) == {"body_missing": 1}
    assert not losses_of(read(_archive(response={"content": {"size": 0}})))


def test_parameters_stand_for_a_body() -> None:
    params = [{"name": "a b", "value": "1&2"}, {"name": "c", "value": ""}]
    posted = {"mimeType": "application/x-www-form-urlencoded", "params": params}
    found = read(_archive({"method": "POST", "postData": posted}))
    (one,) = found.items
    assert isinstance(one, Exchange)
    assert one.request.body == b"a+b=1%262&c="
    assert losses_of(found) == {"body_rebuilt": 1}


def test_files_that_were_sent_are_not_in_it() -> None:
    params = [{"name": "f", "fileName": "a.txt", "contentType": "text/plain"}]
    found = read(_archive({"method": "POST", "postData": {"mimeType": "m", "params": params}}))
    assert losses_of(found) == {"body_rebuilt": 1, "truncated_body": 1}


@pytest.mark.parametrize(
    "content,kind",
    [
        (_archive(response={"status": 0}), "no_response"),
        (_archive(response={"status": -1}), "no_response"),
        (_archive({"url": "data:text/plain,x"}), "not_http"),
        (_archive({"url": "chrome-extension://x/y"}), "not_http"),
        (_archive({"url": "http://[x"}), "not_http"),
    ],
)
def test_what_is_no_answer_over_http_is_left_out(content: bytes, kind: str) -> None:
    found = read(content)
    assert (found.items, losses_of(found)) == ([], {kind: 1})


def test_cookies_beside_the_headers_and_websockets_are_losses() -> None:
    cookies = [{"name": "a", "value": "1"}]
    assert losses_of(read(_archive(response={"cookies": cookies}))) == {"cookies": 1}
    for content in (_archive(response={"status": 101}), _archive(_webSocketMessages=[{"a": "b"}])):
        assert (read(content).items, losses_of(read(content))) == ([], {"websocket": 1})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"\x00\xff",
        b'{"log": {"version": "2.0", "entries": []}}',
        b'{"log": {"version": "1.2"}}',
        b'{"log": {"version": "1.2", "entries": [7]}}',
        b'{"log": {"version": "1.2", "entries": [{}]}}',
        b'{"log": ' + b"[" * 3_000 + b"]" * 3_000 + b"}",
        _archive({"method": ""}),
        _archive({"headers": {"a": "b"}}),
        _archive({"headers": [{"value": "b"}]}),
        _archive(response={"content": {"text": "a", "encoding": "base64"}}),
    ],
    ids=lambda content: str(content[:40]),
)
def test_what_is_no_archive_is_refused(content: bytes) -> None:
    assert refused(read, content).message


def test_what_is_written_is_read_again() -> None:
    given = [
        exchange(
            "POST",
            "https://a.example/x?b=1&a=é",
            sent=(("Content-Type", "application/x-www-form-urlencoded"),),
            posted=b"a=1&b=2",
            headers=(("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")),
            body="é".encode(),
        ),
        exchange("PUT", posted=b"\xff\x00", body=b"\xfe"),
    ]
    found = read(write(given).content).items
    for one, other in zip(given, found, strict=True):
        assert isinstance(other, Exchange)
        assert (one.request, one.head, one.body, one.ts) == (
            other.request,
            other.head,
            other.body,
            other.ts,
        )


def test_a_coded_body_is_written_decoded() -> None:
    coded = gzip.compress(b"plain" * 20, mtime=0)
    made = write([exchange(headers=(("Content-Encoding", "gzip"),), body=coded)])
    content = json.loads(made.content)["log"]["entries"][0]["response"]["content"]
    assert content["text"] == "plain" * 20
    assert content["compression"] == 100 - len(coded)
