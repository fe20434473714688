"""Boruna's net tape."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from reenact.errors import RecordingTooNew
from reenact.interop.boruna import read, write
from reenact.interop.model import Exchange
from tests.unit.interop.foreign_files import exchange, losses_of, refused


def _tape(*transactions: Any, version: Any = 1) -> bytes:
    return json.dumps({"format_version": version, "transactions": transactions}).encode()


ASKED = {"method": "post", "url": "https://a.example/x", "request_body": "a", "response_body": "é"}


def test_a_transaction_is_an_exchange_whose_status_is_assumed() -> None:
    found = read(_tape(ASKED, {**ASKED, "method": "GET", "request_body": None}))
    first, second = found.items
    assert isinstance(first, Exchange)
    assert isinstance(second, Exchange)
    assert (first.request.method, first.request.url) == ("POST", "https://a.example/x")
    assert (first.request.body, first.body, first.head.status) == (b"a", "é".encode(), 200)
    assert (second.request.method, second.request.body) == ("GET", b"")
    assert losses_of(found) == {"status_assumed": 2}


def test_it_is_written_as_boruna_writes_it() -> None:
    made = write([exchange("POST", posted=b"a", body="é".encode()), exchange(status=404)])
    assert json.loads(made.content) == {
        "format_version": 1,
        "transactions": [
            {**ASKED, "method": "POST"},
            {**ASKED, "method": "GET", "request_body": None, "response_body": ""},
        ],
    }
    assert losses_of(made) == {"headers": 2, "status": 1, "times": 2}


def test_bodies_are_decoded_and_what_is_no_text_is_lost() -> None:
    coded = exchange(headers=(("Content-Encoding", "gzip"),), body=gzip.compress(b"text"))
    made = write([coded, exchange(body=b"\xff")])
    (transaction,) = json.loads(made.content)["transactions"]
    assert transaction["response_body"] == "text"
    assert losses_of(made)["not_text"] == 1


def test_another_version_is_named() -> None:
    assert isinstance(refused(read, _tape(ASKED, version=2)), RecordingTooNew)
    assert isinstance(refused(read, _tape(ASKED, version=True)), RecordingTooNew)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[1]",
        b'{"transactions": []}',
        b'{"format_version": 1}',
        b'{"format_version": 1, "format_version": 1, "transactions": []}',
        _tape("x"),
        _tape({**ASKED, "url": 1}),
        _tape({**ASKED, "response_body": None}),
        b"[" * 100_000,
    ],
    ids=lambda content: str(content[:20]),
)
def test_what_is_no_tape_is_refused(content: bytes) -> None:
    assert refused(read, content).message
