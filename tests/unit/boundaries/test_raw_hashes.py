"""Requests that are found by a hash of how they were written, before anybody reads them."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.boundaries.http.api import Head, Request, ask
from reenact.boundaries.http.wire import call_of, sketch_of
from reenact.engine.session.session import Session
from reenact.policy.model import Policy
from tests.integration.sessions import Studio

_CHANCE = random.Random("secrets in raw hashes")
SECRET = "gh" + "p_" + "".join(_CHANCE.choices(string.ascii_letters + string.digits, k=36))
URL = "http://somewhere.example/ask"
JSON = (("content-type", "application/json"),)


def _request(body: bytes = b'{"a": 1, "b": [2]}', **changes: Any) -> Request:
    return Request(**{"method": "POST", "url": URL, "headers": JSON, "body": body, **changes})


def _asks(session: Session, request: Request) -> bytes:
    def live() -> Any:
        yield Head(status=200)
        yield b"answered"

    return b"".join(ask(session, request, live, whole=True))


def _recorded(studio: Studio, *requests: Request) -> list[dict[str, Any]]:
    with studio.session(mode="record") as session:
        for request in requests:
            assert _asks(session, request) == b"answered"
    return [event.data for event in studio.events() if event.type == "nondeterministic"]


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(tmp_path)


OTHERS: dict[str, Callable[[], Request]] = {
    "another method": lambda: _request(method="PUT"),
    "another address": lambda: _request(url=f"{URL}?more"),
    "another kind": lambda: _request(headers=(("content-type", "text/plain"),)),
    "another coding": lambda: _request(headers=(*JSON, ("content-encoding", "x-none"))),
    "written otherwise": lambda: _request(b'{"b": [2], "a": 1}'),
    "another value": lambda: _request(b'{"a": 1, "b": [3]}'),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_it_tells_requests_apart(studio: Studio, other: Callable[[], Request]) -> None:
    with studio.session(mode="record") as session:
        one = sketch_of(session, _request()).raw_hash
        assert one == sketch_of(session, _request()).raw_hash != ""
        assert sketch_of(session, other()).raw_hash != one


def test_what_does_not_matter_does_not_matter(studio: Studio) -> None:
    with studio.session(mode="record") as session:
        sent = _request(headers=(("X-Id", "7"), *JSON), url="http://SOMEWHERE.example:80/ask#here")
        assert sketch_of(session, sent).raw_hash == sketch_of(session, _request()).raw_hash


def test_it_is_recorded_and_found(studio: Studio) -> None:
    [data] = _recorded(studio, _request())
    with studio.session(mode="replay") as session:
        sketch = sketch_of(session, _request())
        assert (sketch.request, sketch.raw_hash) == ({}, data["rawHash"])
        entry = session.decisions.serve_now(sketch)
    assert entry is not None
    assert json.loads(entry.answer)["body"] == "answered"


def test_a_request_that_is_written_otherwise_is_the_same(studio: Studio) -> None:
    _recorded(studio, _request())
    with studio.session(mode="replay") as session:
        assert (
            session.decisions.serve_now(sketch_of(session, OTHERS["written otherwise"]())) is None
        )
        assert _asks(session, OTHERS["written otherwise"]()) == b"answered"


def test_another_value_is_a_divergence_and_not_served(studio: Studio) -> None:
    _recorded(studio, _request())
    with pytest.raises(reenact.DivergenceError) as caught, studio.session(mode="replay") as session:
        _asks(session, OTHERS["another value"]())
    assert "event_payload_mismatch" in str(caught.value)


def test_a_recording_without_it_is_served(studio: Studio) -> None:
    [data] = _recorded(studio, _request(b""))
    assert "rawHash" not in data
    with studio.session(mode="replay") as session:
        assert _asks(session, _request(b"")) == b"answered"


def test_it_is_not_taken_where_headers_count(studio: Studio) -> None:
    policy = Policy(id="p", key_headers=("x-tenant",))
    with studio.session(mode="record", policy=policy) as session:
        assert sketch_of(session, _request()).raw_hash == ""


SECRET_REQUESTS = {
    "in the body": _request(json.dumps({"text": f"my key is {SECRET}"}).encode()),
    "in the address": _request(url=f"{URL}?token={SECRET}"),
}


@pytest.mark.parametrize("request_", SECRET_REQUESTS.values(), ids=SECRET_REQUESTS.keys())
def test_no_hash_of_a_secret_is_written(studio: Studio, request_: Request) -> None:
    [data] = _recorded(studio, request_)
    assert "rawHash" not in data
    with studio.session(mode="replay") as session:
        assert _asks(session, request_) == b"answered"


def test_a_secret_that_is_sent_beside_the_request_does_not_count(studio: Studio) -> None:
    sent = _request(headers=(*JSON, ("authorization", f"Bearer {SECRET}")))
    [data] = _recorded(studio, sent)
    assert data["rawHash"]
    assert SECRET not in json.dumps(data["sent"])


def test_it_stays_out_of_what_is_compared(studio: Studio) -> None:
    with studio.session(mode="record") as session:
        call = call_of(session, _request())
    assert "rawHash" in call.extra
    assert "rawHash" not in call.request
