"""The model of a websocket: what is recorded of a conversation, with a library made of functions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.boundaries.http.websocket import Accepted, Link, Message, Opening, open_link
from reenact.engine.session.session import Session
from tests.integration.sessions import Studio

URL = "ws://example.org/feed"


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(tmp_path)


def _never() -> Any:
    raise AssertionError("this would have gone out")


async def _anever() -> Any:
    _never()


def _session() -> Session:
    session = reenact.current()
    assert session is not None
    return session


def _open(
    live: Callable[[], Accepted] = Accepted, url: str = URL, **opening: Any
) -> tuple[Accepted, Link]:
    accepted, link = open_link(_session(), Opening(url=url, **opening), live)
    assert link is not None
    return accepted, link


def test_what_the_server_said_comes_back(studio: Studio) -> None:
    said = Accepted(
        status=101,
        reason="Switching Protocols",
        headers=(("Set-Thing", "1"), ("set-thing", "2")),
        subprotocol="chat",
        facts={"local": ["127.0.0.1", 1]},
    )
    assert studio.record(lambda: _open(lambda: said)[0]) == said
    assert studio.replay(lambda: _open(_never)[0]) == said


@pytest.mark.parametrize(
    "url",
    ["http://example.org/feed", "WS://EXAMPLE.org:80/feed", "ws://ann:pw@example.org/feed#part"],
    ids=["page", "case-and-port", "credentials"],
)
def test_an_address_may_be_written_in_other_ways(studio: Studio, url: str) -> None:
    studio.record(lambda: _open())
    assert studio.replay(lambda: _open(_never, url))[1].name == "0/1"


def test_protocols_count_and_headers_do_not(studio: Studio) -> None:
    studio.record(lambda: _open(protocols=("a",), headers=(("X-One", "1"),)))
    studio.replay(lambda: _open(_never, protocols=("a",), headers=(("X-Two", "2"),)))
    with pytest.raises(reenact.DivergenceError):
        studio.replay(lambda: _open(_never, protocols=("b",)))


def test_headers_that_the_policy_names_count(studio: Studio) -> None:
    policy = reenact.Policy(id="p", key_headers=("X-Tenant",))
    studio.record(lambda: _open(headers=(("x-tenant", "a"),)), policy=policy)
    studio.replay(lambda: _open(_never, headers=(("X-Tenant", "a"),)), policy=policy)
    with pytest.raises(reenact.DivergenceError):
        studio.replay(lambda: _open(_never, headers=(("X-Tenant", "b"),)), policy=policy)


def test_connections_are_named_by_the_lane_that_opened_them(studio: Studio) -> None:
    def body() -> list[str]:
        first = _open()[1].name
        studio.get(1)
        return [first, _open()[1].name]

    assert studio.record(body) == ["0/1", "0/2"]
    assert studio.replay(body) == ["0/1", "0/2"]


MESSAGES = [
    Message.of("text"),
    Message.of(b"\xff\x00"),
    Message.of(b"plain"),
    Message.of(""),
    Message.of(b""),
    Message.of('{"a": 1.50}'),
    Message(kind="close", body="enough", code=1000),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: f"{message.kind}-{message.body}")
def test_messages_come_back_as_they_were(studio: Studio, message: Message) -> None:
    def body(live: Callable[[], Any]) -> Message:
        link = _open()[1]
        link.send(message, lambda: None)
        return link.receive(live)

    assert studio.record(lambda: body(lambda: message)) == message
    assert studio.replay(lambda: body(_never)) == message


def test_failures_come_back_where_they_were(studio: Studio) -> None:
    def fail() -> Any:
        raise ConnectionResetError(104, "reset")

    def body(live: Callable[[], Any]) -> list[Any]:
        link = _open()[1]
        seen: list[Any] = []
        for act in (
            lambda: link.receive(live),
            lambda: link.send(Message.of("x"), live),
            lambda: link.ask("ping", {}, live),
        ):
            with pytest.raises(ConnectionResetError) as caught:
                act()
            seen += [caught.value.errno, str(caught.value)]
        return seen

    recorded = studio.record(lambda: body(fail))
    assert recorded[0] == 104
    assert studio.replay(lambda: body(_never)) == recorded


def test_a_message_that_came_when_nobody_waited_any_more_is_kept(studio: Studio) -> None:
    """The live half had it; the program gave up before it was handed over."""
    came: list[str] = []

    async def live() -> Message:
        came.append("one")
        return Message.of(f"message {len(came)}")

    async def talk(real: Callable[[], Any]) -> str | bytes:
        link = _open()[1]
        given_up = asyncio.create_task(link.receive_async(real))
        for _ in range(20):  # busy: nothing is handed over meanwhile
            await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        return (await link.receive_async(real)).body

    assert studio.record(lambda: asyncio.run(talk(live))) == "message 1"
    assert came == ["one"]
    assert studio.replay(lambda: asyncio.run(talk(_anever))) == "message 1"


def test_what_was_not_recorded_cannot_go_on_live(studio: Studio) -> None:
    def body(count: int) -> None:
        link = _open()[1]
        for number in range(count):
            link.send(Message.of(str(number)), _never if number else lambda: None)

    studio.record(lambda: body(1))
    with (
        studio.session(mode="record_missing"),
        pytest.raises(reenact.PolicyRefused, match=r"websocket\.send is not recorded"),
    ):
        body(2)


def test_after_the_end_of_a_recording_the_line_is_still_there(studio: Studio) -> None:
    with studio.session(mode="record"):
        link = _open()[1]
    assert link.receive(lambda: Message.of("late")) == Message.of("late")
    assert asyncio.run(_late(link)) == Message.of("later")
    assert len(studio.events()) == 1


async def _late(link: Link) -> Message:
    async def live() -> Message:
        return Message.of("later")

    await link.send_async(Message.of("x"), live)
    return await link.receive_async(live)
