"""Request bodies: what is the same request, whoever sends it, is described the same."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import zlib
from typing import Any

import aiohttp
import httpx
import pytest
import requests
import urllib3

from reenact.boundaries.http.bodies import Pairs, describe
from reenact.boundaries.http.encoding import MOST

VALUE = {"b": [1, 2.5, None, True], "a": {"text": "grün ✓"}}
JSON = (("Content-Type", "application/json"),)
FORM = (("Content-Type", "application/x-www-form-urlencoded"),)
FIELDS = {"note": "grün & gut", "empty": ""}
FILE = ("a.bin", bytes(range(256)))


# Clients


def _httpx(**arguments: Any) -> tuple[Pairs, bytes]:
    request = httpx.Request("POST", "http://example.org/", **arguments)
    return tuple(request.headers.items()), request.read()


def _requests(**arguments: Any) -> tuple[Pairs, bytes]:
    request = requests.Request("POST", "http://example.org/", **arguments).prepare()
    body: Any = request.body or b""
    headers = tuple((key, str(value)) for key, value in request.headers.items())
    return headers, body.encode() if isinstance(body, str) else body


def _urllib3(fields: dict[str, Any]) -> tuple[Pairs, bytes]:
    body, kind = urllib3.encode_multipart_formdata(fields)
    return (("Content-Type", kind),), body


class _Collecting:
    """As much of aiohttp's stream writer as a payload needs."""

    def __init__(self) -> None:
        self.body = b""

    async def write(self, piece: Any) -> None:
        self.body += bytes(piece)


def _aiohttp(fields: dict[str, Any], file: tuple[str, bytes] | None = None) -> tuple[Pairs, bytes]:
    async def made() -> tuple[Pairs, bytes]:
        form = aiohttp.FormData(fields)
        if file is not None:
            form.add_field("file", file[1], filename=file[0])
        payload = form()
        writer = _Collecting()
        await payload.write(writer)  # type: ignore[arg-type]
        return tuple(payload.headers.items()), writer.body

    return asyncio.run(made())


def test_json_of_different_clients_is_the_same() -> None:
    spaced = json.dumps(VALUE).encode(), json.dumps(VALUE, indent=2).encode()
    found = [
        describe(*_httpx(json=VALUE)),
        describe(*_requests(json=VALUE)),
        *(describe(JSON, body) for body in spaced),
    ]
    assert found == [{"type": "json", "body": VALUE}] * 4


def test_a_form_of_different_clients_is_the_same() -> None:
    pairs = [["empty", ""], ["note", "grün & gut"]]
    found = [
        describe(*_httpx(data=FIELDS)),
        describe(*_requests(data=FIELDS)),
        describe(*_aiohttp(FIELDS)),
    ]
    assert found == [{"type": "form", "body": pairs}] * 3


def test_parts_of_different_clients_are_the_same() -> None:
    expected = {
        "type": "multipart",
        "body": [
            {"name": "note", "type": "text", "value": "grün & gut"},
            {"name": "empty", "type": "text", "value": ""},
            {"name": "file", "filename": "a.bin", "type": "bytes", "value": FILE[1]},
        ],
    }
    found = [
        describe(*_httpx(data=FIELDS, files={"file": FILE})),
        describe(*_requests(data=FIELDS, files={"file": FILE})),
        describe(*_urllib3({**FIELDS, "file": FILE})),
        describe(*_aiohttp(FIELDS, FILE)),
    ]
    assert found == [expected] * 4


# Kinds


@pytest.mark.parametrize(
    "kind",
    ["application/json; charset=utf-8", "application/vnd.api+json", "APPLICATION/JSON"],
)
def test_json_has_many_names(kind: str) -> None:
    assert describe((("content-type", kind),), b'{"a":1}') == {"type": "json", "body": {"a": 1}}


@pytest.mark.parametrize(
    "headers", [(), FORM, (("Content-Type", "text/plain"),)], ids=["none", "form", "text"]
)
def test_json_is_known_by_its_looks(headers: Pairs) -> None:
    assert describe(headers, b'[{"a": 1}]') == {"type": "json", "body": [{"a": 1}]}


def test_marks_of_our_own_format_mean_nothing_in_a_body() -> None:
    value = {"one": {"$bytes": "AP8="}, "two": {"$$blob": 1}, "three": {"$bytes": 7}}
    assert describe(JSON, json.dumps(value).encode())["body"] == value


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": 1',
        b'{"a": 1, "a": 2}',
        b'{"a": NaN}',
        rb'{"a": "\ud800"}',
        b"[" * 300 + b"]" * 300,
        b"[" * 100_000,
        b'{"a": "\xff"}',
    ],
    ids=["cut", "twice", "nan", "surrogate", "deep", "very-deep", "no-utf-8"],
)
def test_what_is_no_json_is_text_or_bytes(body: bytes) -> None:
    assert describe(JSON, body)["type"] in ("text", "bytes")


def test_a_form_keeps_the_order_of_equal_names() -> None:
    assert describe(FORM, b"b=2&b=1&a=+")["body"] == [["a", " "], ["b", "2"], ["b", "1"]]


@pytest.mark.parametrize("body", [b"just text", b"a", "ü=1".encode(), b"\xff"])
def test_what_is_no_form_is_text_or_bytes(body: bytes) -> None:
    assert describe(FORM, body)["type"] in ("text", "bytes")


def test_an_encoded_body_is_described_by_what_is_in_it() -> None:
    headers = (*JSON, ("Content-Encoding", "gzip"))
    assert describe(headers, gzip.compress(b'{"a":1}')) == {"type": "json", "body": {"a": 1}}
    assert describe(headers, gzip.compress(b"")) == {}
    assert describe(headers, b'{"a":1}') == {"type": "json", "body": {"a": 1}}


def _bomb() -> bytes:
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    parts = [packer.compress(bytes(1 << 20)) for _ in range((MOST >> 20) + 1)]
    return b"".join([*parts, packer.flush()])


UNREAD = {
    "too long": (_bomb(), "gzip"),
    "too long behind another": (gzip.compress(_bomb()), "gzip, gzip"),
    "broken": (gzip.compress(b"some text")[:-4] + b"oops", "gzip"),
}


@pytest.mark.parametrize("body, coding", UNREAD.values(), ids=UNREAD.keys())
def test_a_body_that_cannot_be_read_to_its_end_is_compared_by_its_digest(
    body: bytes, coding: str
) -> None:
    """What is in it might be a secret."""
    found = describe((*JSON, ("Content-Encoding", coding)), body)
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    assert found == {"type": "unread", "body": {"digest": digest, "size": len(body)}}


def test_a_coding_may_be_said_in_several_headers() -> None:
    headers = (*JSON, ("Content-Encoding", "gzip"), ("Content-Encoding", "deflate"))
    body = zlib.compress(gzip.compress(b'{"a":1}'))
    assert describe(headers, body) == {"type": "json", "body": {"a": 1}}


def test_no_body_has_no_description() -> None:
    assert describe(JSON, b"") == {}


# Parts


def _parts(body: str, kind: str = 'multipart/form-data; boundary="x y"') -> Any:
    lines = body.replace("\n", "\r\n").encode()
    return describe((("Content-Type", kind),), lines)


def test_a_json_part_is_read_by_value() -> None:
    found = _parts(
        "--x y\nContent-Type: application/json\nContent-Disposition: form-data; name=meta\n\n"
        '{"b": 1, "a": 2}\n--x y--\n'
    )
    (part,) = found["body"]
    assert (part["name"], part["type"], part["value"]) == ("meta", "json", {"a": 2, "b": 1})
    assert part["headers"] == [["content-type", "application/json"]]


def test_a_type_that_the_file_name_says_already_is_left_out() -> None:
    head = "--x y\nContent-Disposition: form-data; name=f; filename=a.png\n"
    guessed = _parts(f"{head}Content-Type: image/png\n\nx\n--x y--\n")
    silent = _parts(f"{head}\nx\n--x y--\n")
    told = _parts(f"{head}Content-Type: image/webp\n\nx\n--x y--\n")
    assert guessed == silent
    assert told != silent


def test_parts_without_names_are_described_by_their_headers() -> None:
    found = _parts(
        "--x y\nContent-ID: <1>\nContent-Type: text/html\n\n<p>\n--x y--\n",
        'multipart/related; boundary="x y"',
    )
    (part,) = found["body"]
    assert part == {
        "headers": [["content-id", "<1>"], ["content-type", "text/html"]],
        "type": "text",
        "value": "<p>",
    }


def test_a_file_name_may_be_written_in_two_ways() -> None:
    one = (
        "--x y\nContent-Disposition: form-data; name=f; filename*=utf-8''gr%C3%BCn\n\nx\n--x y--\n"
    )
    other = '--x y\nContent-Disposition: form-data; name="f"; filename="grün"\n\nx\n--x y--\n'
    assert _parts(one) == _parts(other)


@pytest.mark.parametrize(
    "kind",
    [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=other",
        "multipart/form-data; boundary*=utf-8''%FF",
        "multipart/form-data; boundary=ü✓",
        "multipart/",
    ],
)
def test_what_has_no_such_parts_is_text(kind: str) -> None:
    assert _parts("--x y\n\nx\n--x y--\n", kind)["type"] == "text"


def test_parts_within_parts_stay_as_they_are() -> None:
    inner = "--i\n\nx\n--i--"
    found = _parts(f"--x y\nContent-Type: multipart/mixed; boundary=i\n\n{inner}\n--x y--\n")
    assert found["body"][0]["type"] == "text"
