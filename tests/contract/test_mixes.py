"""What was read in one way is replayed to a program that reads in another."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.contract.clients.cases import every, some_with
from tests.contract.clients.every import able
from tests.contract.clients.face import Client
from tests.contract.stage import Stage

pytestmark = pytest.mark.thinned(3)

_PATH = "/lines?count=4"


@pytest.mark.soak
@every()
def test_recorded_whole_and_read_piece_by_piece(stage: Stage, client: Client) -> None:
    url = stage.url + _PATH
    recorded = stage.record(lambda: client.fetch("GET", url).body)
    for other in some_with(client, able()):
        read = b"".join(stage.replay(partial(other.read, url)))
        assert read == recorded, f"recorded with {client.name}, read with {other.name}"


@pytest.mark.soak
@every()
def test_recorded_piece_by_piece_and_asked_for_as_a_whole(stage: Stage, client: Client) -> None:
    url = f"{stage.url}/sse"
    recorded = stage.record(lambda: client.read(url, lambda _: stage.server.gate.open()))
    for other in some_with(client, able()):
        answer = stage.replay(partial(other.fetch, "GET", url))
        assert answer.body == b"".join(recorded), f"{client.name}, then {other.name}"


@pytest.mark.soak
@every()
def test_pieces_are_cut_alike_for_another_library(stage: Stage, client: Client) -> None:
    url = f"{stage.url}/sse"
    recorded = stage.record(lambda: client.read(url, lambda _: stage.server.gate.open()))
    for other in some_with(client, able()):
        pieces = stage.replay(partial(other.read, url))
        assert pieces == recorded, f"{client.name}, then {other.name}"


@every("whole")
def test_recorded_whole_and_left_early(stage: Stage, client: Client) -> None:
    """It came at once; how much of it the program looks at is its own business."""
    url = stage.url + _PATH
    stage.record(lambda: client.fetch("GET", url))
    assert stage.replay(lambda: len(client.read(url, stop=1))) == 1


@every()
def test_recorded_to_the_end_and_left_early(stage: Stage, client: Client) -> None:
    url = f"{stage.url}/sse"
    stage.record(lambda: client.read(url, lambda _: stage.server.gate.open()))
    found, text = stage.diverges(lambda: client.read(url, stop=2))
    assert found.code == "event_missing"
    assert url in text


@every()
def test_left_early_and_read_on_in_the_replay(stage: Stage, client: Client) -> None:
    """There is no more than the recorded program has seen."""
    url = f"{stage.url}/sse"
    recorded = stage.record(lambda: client.read(url, lambda _: stage.server.gate.open(), stop=2))
    seen: list[Any] = []
    found, text = stage.diverges(lambda: client.read(url, seen.append))
    assert seen == recorded
    assert found.code == "event_missing"
    assert url in text
