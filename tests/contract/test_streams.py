"""Answers that are read piece by piece."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.clients.cases import every
from tests.contract.clients.every import can
from tests.contract.clients.face import Client
from tests.contract.endpoints import SSE, TEXT
from tests.contract.stage import Stage

pytestmark = pytest.mark.thinned(3)


@every()
def test_each_piece_is_seen_before_the_next_one_is_sent(stage: Stage, client: Client) -> None:
    """The server waits until the program has seen a piece: one that is held back is a dead end."""

    def program() -> Any:
        return client.read(f"{stage.url}/sse", lambda _: stage.server.gate.open())

    assert stage.check(program) == [b"id: 000001\n", *SSE]
    [call] = stage.calls()
    assert call.data["ended"] == "done"
    assert len(call.data["timing"]["offsets"]) == 1 + 1 + len(SSE)


@every()
def test_who_stops_early_has_seen_what_is_recorded(stage: Stage, client: Client) -> None:
    def program() -> Any:
        pieces = client.read(f"{stage.url}/sse", lambda _: stage.server.gate.open(), stop=3)
        return pieces, client.fetch("GET", f"{stage.url}/json").body

    pieces, after = stage.check(program)
    assert pieces == [b"id: 000001\n", *SSE[:2]]
    assert b"000002" in after
    stream, _ = stage.calls()
    assert stream.data["ended"] == "abandoned"
    assert stream.data["response"]["body"].encode() == b"".join(pieces)


@every("leave")
def test_a_client_goes_on_after_an_answer_that_it_left(stage: Stage, client: Client) -> None:
    piece, after = stage.check(lambda: client.leave(f"{stage.url}/sse", f"{stage.url}/json"))
    assert piece == b"id: 000001\n"
    assert b"000002" in after.body


@every()
def test_a_stream_without_an_end(stage: Stage, client: Client) -> None:
    def program() -> Any:
        return client.read(f"{stage.url}/endless", lambda _: stage.server.gate.open(), stop=4)

    assert stage.check(program) == [f"data: {n} of 000001\n\n".encode() for n in range(4)]


@every()
def test_an_answer_whose_body_nobody_reads(stage: Stage, client: Client) -> None:
    def program() -> Any:
        return client.glance(f"{stage.url}/lines"), client.glance(f"{stage.url}/status/500")

    assert stage.check(program) == (200, 500)


@every()
def test_pieces_that_come_as_fast_as_they_can(stage: Stage, client: Client) -> None:
    """How they are cut is chance, but recorded."""
    url = f"{stage.url}/lines?count=30"
    expected = b"".join(b'{"line": %d, "n": "000001"}\n' % number for number in range(30))
    assert b"".join(stage.plain(lambda: client.read(url))) == expected
    recorded = stage.record(lambda: client.read(url))
    assert b"".join(recorded) == expected
    assert stage.replay(lambda: client.read(url)) == recorded


@every()
def test_an_encoded_stream_is_decoded_as_it_comes(stage: Stage, client: Client) -> None:
    urls = [f"{stage.url}/encoded/{coding}?pieces=1" for coding in ("gzip", "deflate")]

    def program() -> Any:
        return [client.read(url) for url in urls]

    recorded = stage.record(program)
    if can(client, "decode"):
        texts = [b"".join(pieces).decode() for pieces in recorded]
        assert texts == [f"00000{number} {TEXT}" for number in (1, 2)]
    assert stage.replay(program) == recorded


@every()
def test_a_stream_that_is_read_as_a_whole(stage: Stage, client: Client) -> None:
    answer = stage.check(lambda: client.fetch("GET", f"{stage.url}/lines?count=3"))
    assert answer.body.count(b"\n") == 3


@every()
def test_two_streams_in_turn(stage: Stage, client: Client) -> None:
    urls = [f"{stage.url}/lines?count=2&{name}" for name in "ab"]

    def program() -> Any:
        return client.read_in_turn(urls)

    recorded = stage.record(program)
    assert b"".join(recorded).count(b"\n") == 4
    assert stage.replay(program) == recorded


@every()
def test_several_streams_at_once(stage: Stage, client: Client) -> None:
    urls = [f"{stage.url}/lines?count=5"] * 4

    def program() -> Any:
        return client.read_at_once(urls)

    recorded = stage.record(program)
    numbers = sorted(json.loads(b"".join(pieces).splitlines()[0])["n"] for pieces in recorded)
    assert numbers == ["000001", "000002", "000003", "000004"]
    for _ in range(2):
        assert stage.replay(program) == recorded


@every()
def test_a_megabyte_piece_by_piece(stage: Stage, client: Client) -> None:
    recorded = stage.record(lambda: client.read(f"{stage.url}/binary"))
    assert b"".join(recorded) == b"000001" + bytes(range(256)) * 4096
    assert stage.replay(lambda: client.read(f"{stage.url}/binary")) == recorded
