"""What fails, fails with the client's own exceptions: class, text and causes."""

from __future__ import annotations

import socket
from functools import partial
from typing import Any

import pytest

from tests.contract.clients.cases import every
from tests.contract.clients.face import Client
from tests.contract.stage import Stage, outcome

pytestmark = pytest.mark.thinned(3)

_SHORT = 0.3


@pytest.fixture
def nobody() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    return f"http://127.0.0.1:{port}"


def _told(story: Any) -> str:
    assert isinstance(story, list), f"not a failure: {story!r}"
    return " < ".join(f"{name}: {text}" for name, text, *_ in story)


@every()
def test_nobody_listens(stage: Stage, client: Client, nobody: str) -> None:
    story = stage.check(lambda: outcome(lambda: client.fetch("GET", f"{nobody}/")), reached=False)
    assert "Connect" in _told(story) or "URLError" in _told(story)
    [call] = stage.calls()
    assert call.data["error"]["class"]


@every()
def test_the_other_side_does_not_speak_tls(stage: Stage, client: Client) -> None:
    url = stage.url.replace("http:", "https:")
    story = stage.check(lambda: outcome(lambda: client.fetch("GET", f"{url}/json")), reached=False)
    assert any("SSL" in part for one in story for part in one)


@every()
def test_the_connection_ends_before_the_answer(stage: Stage, client: Client) -> None:
    """A POST, because some clients try a GET once more."""
    story = stage.check(lambda: outcome(lambda: client.fetch("POST", f"{stage.url}/drop/head")))
    assert _told(story)


@every()
def test_the_answer_is_not_http(stage: Stage, client: Client) -> None:
    story = stage.check(lambda: outcome(lambda: client.fetch("GET", f"{stage.url}/garbage")))
    assert _told(story)


@every()
@pytest.mark.parametrize("framing", ["chunked", "length"])
def test_the_connection_ends_in_the_body(stage: Stage, client: Client, framing: str) -> None:
    def program() -> Any:
        stage.server.gate.open()
        return outcome(lambda: client.fetch("GET", f"{stage.url}/drop/{framing}"))

    result = stage.check(program)
    assert isinstance(result, list) or framing == "length"


@every()
def test_the_connection_ends_between_two_pieces(stage: Stage, client: Client) -> None:
    def program() -> Any:
        seen: list[bytes] = []

        def note(piece: bytes) -> None:
            seen.append(piece)
            stage.server.gate.open()

        return outcome(lambda: client.read(f"{stage.url}/drop/chunked", note)), seen

    story, seen = stage.check(program)
    assert _told(story)
    assert seen == [b"one 000001"]


@every()
def test_less_comes_than_was_announced(stage: Stage, client: Client) -> None:
    """Some clients do not mind, and some have shown what there was; the replay is like it."""

    def program() -> Any:
        stage.server.gate.open()
        seen: list[bytes] = []
        return outcome(lambda: client.read(f"{stage.url}/drop/length", seen.append)), seen

    plain, _ = stage.plain(program)
    recorded = stage.record(program)
    assert recorded[0] == plain
    assert b"".join(recorded[1]) in (b"", b"one 000001")
    assert stage.replay(program) == recorded


@every()
def test_no_answer_in_time(stage: Stage, client: Client) -> None:
    def program() -> Any:
        failed = outcome(lambda: client.fetch("GET", f"{stage.url}/slow", timeout=_SHORT))
        return failed, client.fetch("GET", f"{stage.url}/json").body

    story, after = stage.check(program)
    assert "time" in _told(story).lower()
    assert b"000002" in after


@every()
def test_the_rest_does_not_come_in_time(stage: Stage, client: Client) -> None:
    def program() -> Any:
        seen: list[bytes] = []
        url = f"{stage.url}/slow/body"
        return outcome(lambda: client.read(url, seen.append, timeout=_SHORT)), seen

    story, seen = stage.check(program)
    assert "time" in _told(story).lower()
    assert seen == [b"one 000001"]


@every()
def test_a_program_that_tries_again(stage: Stage, client: Client) -> None:
    def program() -> Any:
        tries = []
        for path in ("drop/head", "status/503", "json"):
            tries.append(outcome(partial(client.fetch, "POST", f"{stage.url}/{path}")))
        return tries

    failed, busy, good = stage.check(program)
    assert _told(failed)
    assert (busy.status, good.status) == (503, 200)
    assert len(stage.calls()) == 3
