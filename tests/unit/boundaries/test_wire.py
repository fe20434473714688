"""HTTP requests and answers as data, and back."""

from __future__ import annotations

import gzip
import random
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.boundaries.http.wire import Errors, Head, Partial, Request, Wire, call_of
from reenact.engine.session.session import Session
from reenact.policy.redaction.redactor import PLACEHOLDER
from tests.integration.sessions import Studio

_CHANCE = random.Random("secrets on the wire")
SECRET = "gh" + "p_" + "".join(_CHANCE.choices(string.ascii_letters + string.digits, k=36))
HEAD = Head(
    status=200,
    reason="Fine",
    version="HTTP/1.0",
    headers=(("Set-Cookie", "a=1"), ("set-cookie", "b=2"), ("X-Latin", "gr\xfcn")),
)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Studio(tmp_path).session(mode="record") as session:
        yield session


@pytest.fixture
def wire(session: Session) -> Wire:
    return Wire(session, Errors())


def _again(wire: Wire, *pieces: bytes, head: Head = HEAD) -> list[Any]:
    return wire.load(wire.dump([head, *pieces], None))


PIECES: dict[str, list[bytes]] = {
    "no body": [],
    "empty": [b""],
    "one": [b"whole"],
    "several": [b"data: a\n\n", b"data: b\n\n"],
    "empty ones": [b"", b"a", b"", b"", b"b", b""],
    "a letter cut in two": ["ü".encode()[:1], "ü".encode()[1:]],
    "binary": [b"\xff\xfe", b"\x00"],
    "single bytes": [bytes([byte]) for byte in range(256)],
}


@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES.keys())
def test_pieces_come_back_as_they_were(wire: Wire, pieces: list[bytes]) -> None:
    assert _again(wire, *pieces) == [HEAD, *pieces]


_MARKED = {
    "a chunk in three parts": [b"a", Partial(5), b"bc", Partial(2), b"def", b"gh", b"i"],
    "two chunks in parts": [Partial(1), b"a", b"b", Partial(2), b"c", b"de"],
    "a chunk that has no end": [b"a", Partial(9), b"bc", Partial(6), b"def"],
    "a chunk without the end of its line": [Partial(0), b"abc"],
}


@pytest.mark.parametrize("pieces", _MARKED.values(), ids=_MARKED.keys())
def test_parts_of_a_chunk_come_back_with_what_is_missing(wire: Wire, pieces: list[bytes]) -> None:
    def told(pieces: list[bytes]) -> list[Any]:
        return [piece.left if isinstance(piece, Partial) else piece for piece in pieces]

    assert told(_again(wire, *pieces)[1:]) == told(pieces)


@pytest.mark.parametrize("left", [-1, "9", None])
def test_a_forged_rest_of_a_chunk_is_none(wire: Wire, left: Any) -> None:
    response = wire.dump([HEAD, Partial(9), b"abc"], None)
    marker = wire.load({**response, "left": left})[1]
    assert (marker, marker.left) == (b"", 0)


def test_an_answer_that_never_began_has_no_pieces(wire: Wire) -> None:
    assert wire.load(wire.dump([], None)) == []


def test_text_is_kept_as_text_and_the_rest_as_bytes(wire: Wire) -> None:
    assert wire.dump([HEAD, "grün".encode()], None)["body"] == "grün"
    assert wire.dump([HEAD, b"\xff"], None)["body"] == b"\xff"


def test_an_encoded_body_without_secrets_is_kept_as_it_came(wire: Wire) -> None:
    packed = gzip.compress(b"nothing to hide")
    head = Head(status=200, headers=(("Content-Encoding", "gzip"),))
    assert _again(wire, packed[:9], packed[9:], head=head) == [head, packed[:9], packed[9:]]


def test_an_encoded_body_with_a_secret_is_kept_decoded(wire: Wire) -> None:
    packed = gzip.compress(f'{{"token": "{SECRET}"}}'.encode())
    headers = (("Content-Encoding", "gzip"), ("Content-Length", str(len(packed))))
    head = Head(status=200, headers=headers)
    response = wire.dump([head, packed[:9], packed[9:]], None)
    assert response["decoded"] == "gzip"
    assert SECRET in response["body"]
    response["body"] = response["body"].replace(SECRET, PLACEHOLDER)
    served, *pieces = wire.load(response)
    assert len(pieces) == 2
    assert PLACEHOLDER in gzip.decompress(b"".join(pieces)).decode()
    assert served.length == len(b"".join(pieces))


def test_a_body_that_was_redacted_has_as_many_pieces(wire: Wire) -> None:
    response = wire.dump([HEAD, b"0123456789", b"0123456789", b"x"], None)
    response["body"] = "01234567890"
    assert wire.load(response)[1:] == [b"0123456789", b"0", b""]


@pytest.mark.parametrize("response", [None, [], "text", 7, {}], ids=repr)
def test_a_forged_answer_is_an_empty_one(wire: Wire, response: Any) -> None:
    assert len(wire.load(response)) <= 1


# Requests


def test_a_request_is_compared_by_what_it_means(session: Session) -> None:
    call = call_of(
        session,
        Request(
            method="POST",
            url="HTTPS://ann:pw@Example.org:443/a?b=2&a=1",
            headers=(("User-Agent", "mine"), ("Content-Type", "application/json")),
            body=b'{"b": 1, "a": 2}',
        ),
    )
    assert call.request == {
        "method": "POST",
        "url": "https://example.org/a?a=1&b=2",
        "type": "json",
        "body": {"a": 2, "b": 1},
    }
    assert (call.operation, call.source, call.capability) == ("POST", "network", "net.fetch")
    assert call.extra["sent"]["headers"][0] == ["User-Agent", "mine"]


def test_headers_that_the_policy_names_are_compared(tmp_path: Path) -> None:
    policy = reenact.Policy(id="p", key_headers=("X-Tenant", "Accept"))
    headers = (("x-tenant", "b"), ("X-Tenant", "a"), ("X-Other", "1"))
    with Studio(tmp_path).session(mode="record", policy=policy) as session:
        call = call_of(session, Request(method="GET", url="http://example.org/", headers=headers))
    assert call.request["headers"] == [["x-tenant", "a"], ["x-tenant", "b"]]


@pytest.mark.parametrize("said, length", [("12", 12), ("-1", None), ("twelve", None), ("", None)])
def test_the_length_that_a_head_says(said: str, length: int | None) -> None:
    assert Head(status=200, headers=(("content-LENGTH", said),)).length == length
