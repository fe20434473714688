"""Cassettes of vcrpy, in every shape that its family has written."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from typing import Any

import pytest

from reenact.errors import RecordingTooNew
from reenact.interop.model import Exchange
from reenact.interop.vcr import read, read_json_cassette, write, write_json
from tests.unit.interop.foreign_files import exchange, losses_of, refused

REQUEST: dict[str, Any] = {
    "method": "GET",
    "uri": "https://a.example/x",
    "headers": {},
    "body": None,
}
RESPONSE: dict[str, Any] = {
    "status": {"code": 200, "message": "OK"},
    "headers": {},
    "body": {"string": ""},
}


def _cassette(request: Any = None, response: Any = None, **rest: Any) -> bytes:
    interaction = {
        "request": {**REQUEST, **(request or {})},
        "response": {**RESPONSE, **(response or {})},
    }
    return json.dumps({"version": 1, "interactions": [interaction], **rest}).encode()


def _one(content: bytes) -> Exchange:
    """JSON is YAML: both readers must agree."""
    (found,), (again,) = read_json_cassette(content).items, read(content).items
    assert found == again
    assert isinstance(found, Exchange)
    return found


@pytest.mark.parametrize(
    "body,expected",
    [
        ({"string": "é"}, "é".encode()),
        ({"string": ""}, b""),
        ({"string": None}, b""),
        ({}, b""),
        (None, b""),
        ("plain", b"plain"),
        ({"base64_string": b64encode(b"\xff\x00").decode()}, b"\xff\x00"),
        ({"b64": b64encode(b"\xff\x00").decode()}, b"\xff\x00"),
        ({"encoding": "utf-8", "string": "a"}, b"a"),
        ({"encoding": None, "base64_string": b64encode(b"a").decode()}, b"a"),
        (["a", "b"], b"ab"),
    ],
)
def test_every_shape_of_a_body(body: Any, expected: bytes) -> None:
    assert _one(_cassette({"body": body}, {"body": body})).body == expected
    assert _one(_cassette({"body": body}, {"body": body})).request.body == expected


YAML_BODIES = {
    "!!binary |\n        /wA=": b"\xff\x00",
    "!!python/unicode 'a'": b"a",
    '"a\\x80"': "a\x80".encode(),
    "2020-01-01": b"2020-01-01",
    "1.50": b"1.50",
    "yes": b"yes",
}


@pytest.mark.parametrize("text", YAML_BODIES)
def test_what_only_yaml_has(text: str) -> None:
    content = f"""\
interactions:
- request:
    method: POST
    uri: https://a.example/
    body: {text}
    headers:
      X-Date: [2020-01-01, 007]
  response:
    status: {{code: 200, message: OK}}
    headers: {{}}
    body:
      string: {text}
version: 1
"""
    (found,) = read(content.encode()).items
    assert isinstance(found, Exchange)
    assert (found.body, found.request.body) == (YAML_BODIES[text], YAML_BODIES[text])
    assert found.request.headers == (("X-Date", "2020-01-01"), ("X-Date", "007"))


def test_a_body_that_was_a_file_or_an_iterator() -> None:
    content = b"""\
interactions:
- request:
    method: PUT
    uri: https://a.example/
    headers: {}
    body: !!python/object/new:_io.BytesIO
      state: !!python/tuple [!!binary "/wA=", 0, null]
  response: {status: {code: 204, message: No Content}, headers: {}, body: {string: ''}}
- request:
    method: PUT
    uri: https://a.example/
    headers: {}
    body: !!python/object/apply:builtins.iter
      args: [[a, b]]
  response: {status: {code: 204, message: No Content}, headers: {}, body: {string: ''}}
version: 1
"""
    first, second = read(content).items
    assert isinstance(first, Exchange)
    assert isinstance(second, Exchange)
    assert (first.request.body, second.request.body) == (b"\xff\x00", b"ab")


def test_headers_are_one_value_or_several() -> None:
    headers = {"Set-Cookie": ["a=1", "b=2"], "X-One": "1", "X-None": None}
    found = _one(_cassette(response={"headers": headers}))
    assert found.head.headers == (
        ("Set-Cookie", "a=1"),
        ("Set-Cookie", "b=2"),
        ("X-One", "1"),
        ("X-None", ""),
    )


def test_older_stubs_of_httpx() -> None:
    answer = {"http_version": "HTTP/2", "status_code": 201, "content": "x", "headers": {}}
    interaction = {"request": REQUEST, "response": answer}
    content = json.dumps({"interactions": [interaction], "version": 1}).encode()
    found = _one(content)
    assert (found.head.status, found.head.version, found.body) == (201, "HTTP/2", b"x")


def test_a_value_that_was_sent_as_json() -> None:
    value = {"a": [1, {"b": "é", "c": "7"}], "d": True, "e": None, "f": -1.5e-7, "g": "true"}
    content = _cassette({"method": "POST", "body": value})
    assert json.loads(_one(content).request.body) == value
    assert losses_of(read(content)) == {"body_rebuilt": 1}


def test_bodies_that_a_serializer_keeps_parsed() -> None:
    value = [{"a": 1, "b": "true"}, None]
    found = _one(_cassette({"parsed_body": value, "method": "POST"}, {"parsed_body": value}))
    assert (json.loads(found.request.body), json.loads(found.body)) == (value, value)
    assert losses_of(read(_cassette({"parsed_body": value}))) == {"body_rebuilt": 1}


def test_the_time_is_that_of_the_date_header() -> None:
    headers = {"Date": ["Mon, 16 Nov 2026 15:41:25 GMT"]}
    assert _one(_cassette(response={"headers": headers})).ts == 1_794_843_685_000
    assert _one(_cassette(response={"headers": {"Date": ["soon"]}})).ts is None


def test_a_decoded_body_loses_the_header_that_says_otherwise() -> None:
    headers = {"Content-Encoding": ["gzip"], "Content-Length": ["33"]}
    found = read(_cassette(response={"headers": headers, "body": {"string": "plain"}}))
    (one,) = found.items
    assert isinstance(one, Exchange)
    assert one.head.headers == (("Content-Length", "5"),)
    assert losses_of(found) == {"coding_dropped": 1, "content_length": 1}


def test_a_coded_body_stays_as_it_is() -> None:
    coded = gzip.compress(b"plain", mtime=0)
    body = {"base64_string": b64encode(coded).decode()}
    found = read(_cassette(response={"headers": {"content-encoding": ["gzip"]}, "body": body}))
    (one,) = found.items
    assert isinstance(one, Exchange)
    assert (one.body, one.text, losses_of(found)) == (coded, b"plain", {})


def test_an_answer_to_head_keeps_its_length() -> None:
    headers = {"Content-Length": ["33"]}
    found = _one(_cassette({"method": "HEAD"}, {"headers": headers}))
    assert found.head.headers == (("Content-Length", "33"),)


def test_a_websocket_is_a_loss() -> None:
    found = read(_cassette(response={"status": {"code": 101, "message": "Switching Protocols"}}))
    assert (found.items, losses_of(found)) == ([], {"websocket": 1})


def test_metadata_is_a_loss() -> None:
    assert losses_of(read(_cassette(metadata={"clock": 1}))) == {"metadata": 1}


def test_empty_ones() -> None:
    assert read(b"").items == []
    assert read(b"interactions: []\nversion: 1\n").items == []
    assert read(b"interactions: null\nversion: 1\n").items == []


def test_another_version_and_the_one_before_versions() -> None:
    assert isinstance(refused(read, b"version: 2\ninteractions: []\n"), RecordingTooNew)
    old = refused(read, b"- request: {method: GET}\n  response: {}\n")
    assert "vcrpy" in old.hint


BOMB = "x: &a [y, y]\n" + "".join(
    f"x{n}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(24)
)
HOSTILE = {
    "an object": b"interactions: !!python/object/apply:os.system [true]\n",
    "an object in a body": b"interactions:\n- {request: !!python/object:a.B {}, response: {}}\n",
    "brackets without end": b"[" * 50_000,
    "nested": b"[" * 500 + b"]" * 500,
    "binary": bytes(range(256)),
    "broken off": b"interactions:\n- request: {method: 'GET\n",
    "two documents": b"interactions: []\n---\ninteractions: []\n",
    "merge keys": b"a: &a {b: c}\ninteractions:\n- <<: *a\n",
    "a key that is a list": b"? [a]\n: b\n",
    "another shape": b"openapi: 3\n",
    "text": b"just text",
    "interactions that are a mapping": b"interactions: {a: b}\nversion: 1\n",
    "no request": b"interactions: [{response: {}}]\nversion: 1\n",
    "no method": _cassette({"method": None}),
    "no uri": _cassette({"uri": None}),
    "no status": _cassette(response={"status": {"code": "many"}}),
    "a small status": _cassette(response={"status": {"code": 99}}),
    "an endless status": _cassette(response={"status": {"code": "2" * 10_000}}),
    "headers that are a list": _cassette({"headers": [["a", "b"]]}),
    "headers in headers": _cassette({"headers": {"a": [["b"]]}}),
    "base64 that is none": _cassette(response={"body": {"base64_string": "a"}}),
    "a body of mappings": _cassette(response={"body": [{"a": "b"}]}),
    "a body that is a bomb": (
        BOMB + "interactions:\n- request:\n    {method: GET, uri: 'http://a/', headers: {}, "
        "body: {b: *y}}\n  response: {status: {code: 200}, headers: {}, body: {}}\nversion: 1\n"
    ).encode(),
    "a body in itself": (
        b"interactions:\n- request: {method: GET, uri: 'http://a/', headers: {}, body: &b {c: *b}}\n"
        b"  response: {status: {code: 200}, headers: {}, body: {}}\nversion: 1\n"
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_cassette_is_refused_with_its_place(name: str) -> None:
    assert refused(read, HOSTILE[name]).message


def test_what_is_written_is_read_again() -> None:
    given = [
        exchange("POST", posted=b'{"a":1}', sent=(("X", "1"), ("X", "2")), body="é\n".encode()),
        exchange(headers=(("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")), body=b"\xff\x00"),
        exchange(status=404, body=b" a: [b]\n"),
    ]
    made = write(given)
    found = read(made.content).items
    assert (made.calls, losses_of(made)) == (3, {"times": 3})
    for one, other in zip(given, found, strict=True):
        assert isinstance(other, Exchange)
        assert (one.request, one.head, one.body) == (other.request, other.head, other.body)


def test_json_holds_text_only() -> None:
    made = write_json([exchange(body=b"a"), exchange(body=b"\xff")])
    assert losses_of(made) == {"not_text": 1, "times": 1}
    assert [one.body for one in read_json_cassette(made.content).items] == [b"a"]  # type: ignore[union-attr]
