"""A real connection, over a transport that is made of two streams in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from reenact.boundaries.mcp.messages import CLOSED
from reenact.boundaries.mcp.server_connection import Connection, Said, descriptor_of, say_again
from reenact.format.event import Data


def item(data: Data) -> Any:
    """A message, as a transport has it."""
    return SimpleNamespace(message=SimpleNamespace(model_dump=lambda **_: dict(data)))


class Wire:
    """The two streams; ``ends`` is what became of the transport."""

    def __init__(self, failure: BaseException | None = None) -> None:
        self.to_client, self.reads = anyio.create_memory_object_stream[Any](10)
        self.writes, self.from_client = anyio.create_memory_object_stream[Any](10)
        self.ends: list[str] = []
        self._failure = failure

    @asynccontextmanager
    async def transport(self, said: Said) -> AsyncIterator[Any]:
        try:
            yield self.reads, self.writes, lambda: "s-1"
        except BaseException as error:
            self.ends.append(type(error).__name__)
            raise
        finally:
            for stream in (self.to_client, self.reads, self.writes, self.from_client):
                stream.close()
        self.ends.append("closed")
        if self._failure is not None:
            raise self._failure


def play(story: Callable[[Connection, Wire], Awaitable[None]], wire: Wire | None = None) -> None:
    async def main() -> None:
        there = Wire() if wire is None else wire
        connection = Connection(there.transport, listens=True)
        await connection.open()
        await story(connection, there)
        await connection.end()
        assert connection.is_over

    asyncio.run(main())


def test_an_answer_does_not_overtake_what_was_said_before() -> None:
    async def story(connection: Connection, wire: Wire) -> None:
        asking = asyncio.create_task(connection.ask(item({"id": 1}), {"id": 1}))
        await wire.from_client.receive()
        for data in ({"method": "a"}, {"method": "b"}, {"id": 1, "result": {}}, {"method": "c"}):
            await wire.to_client.send(item(data))
        messages = connection.messages()
        assert [await anext(messages), await anext(messages)] == [{"method": "a"}, {"method": "b"}]
        assert not asking.done()
        assert await anext(messages) == {"method": "c"}
        assert await asking == {"id": 1, "result": {}}
        await messages.aclose()  # type: ignore[attr-defined]

    play(story)


def test_a_server_that_answers_to_the_number_as_a_text() -> None:
    async def story(connection: Connection, wire: Wire) -> None:
        asking = asyncio.create_task(connection.ask(item({"id": 12}), {"id": 12}))
        await wire.from_client.receive()
        await wire.to_client.send(item({"id": "12", "result": {}}))
        await wire.to_client.send(item({"method": "after"}))
        assert await anext(connection.messages()) == {"method": "after"}
        assert await asking == {"id": "12", "result": {}}

    play(story)


def test_when_the_server_is_gone_who_waits_is_told() -> None:
    async def story(connection: Connection, wire: Wire) -> None:
        asking = asyncio.create_task(connection.ask(item({"id": 1}), {"id": 1}))
        await wire.from_client.receive()
        wire.to_client.close()
        assert await anext(connection.messages()) == {"closed": True}
        assert await asking == {"error": CLOSED}
        assert await connection.ask(item({"id": 2}), {"id": 2}) == {"error": CLOSED}

    play(story)


def test_messages_end_when_the_transport_has_ended() -> None:
    async def story(connection: Connection, wire: Wire) -> None:
        connection.close()
        assert [piece async for piece in connection.messages()] == []
        assert wire.ends == ["closed"]

    play(story)


def test_what_the_transport_raises_at_its_end_is_raised_to_who_listens() -> None:
    async def story(connection: Connection, wire: Wire) -> None:
        connection.close()
        with pytest.raises(ValueError, match="not so fast"):
            assert [piece async for piece in connection.messages()] == []

    play(story, Wire(ValueError("not so fast")))


def test_who_does_not_hang_up_cancels_the_transport() -> None:
    wire = Wire()

    async def story(connection: Connection, wire: Wire) -> None:
        assert connection.session_id() == "s-1"

    play(story, wire)
    assert wire.ends == ["CancelledError"]


def test_what_fails_to_open_raises() -> None:
    @asynccontextmanager
    async def broken(said: Said) -> AsyncIterator[Any]:
        raise FileNotFoundError(2, "no such command")
        yield

    async def main() -> None:
        with pytest.raises(FileNotFoundError, match="no such command"):
            await Connection(broken, listens=True).open()

    asyncio.run(main())


def test_what_a_process_writes_comes_in_pieces_and_to_the_end() -> None:
    heard: list[Data] = []

    async def main() -> None:
        said = Said(heard.append)
        file = said.pipe()
        file.write("first")
        file.flush()
        said.begin()
        said.end()

    asyncio.run(main())
    assert heard == [{"stderr": "first"}]


def test_it_is_said_again_where_the_program_wanted_it(
    tmp_path: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "log").open("w") as file:
        number = descriptor_of(file)
        assert number is not None
        say_again({"stderr": "text "}, number)
        say_again({"stderr": b"\xff"}, number)
    assert (tmp_path / "log").read_bytes() == b"text \xff"
    assert [descriptor_of(None), descriptor_of(-3), descriptor_of(2)] == [None, None, 2]
