"""Event streams: nobody waits for a reader that does not read, or has left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reenact.server.http.sse import Channel, EventStream, ReaderGone


async def _never(*_: Any) -> Any:
    await asyncio.Event().wait()


def test_a_reader_that_is_too_slow_is_cut_off() -> None:
    async def main() -> None:
        with pytest.raises(ReaderGone):
            await Channel(_never, 0.01).event("replay", b"{}", 1)

    asyncio.run(main())


def test_a_reader_that_has_left_ends_the_stream() -> None:
    async def main() -> list[str]:
        sent: list[str] = []
        written = asyncio.Event()

        async def send(message: Any) -> None:
            sent.append(message["type"])

        async def receive() -> dict[str, str]:
            await written.wait()
            return {"type": "http.disconnect"}

        async def write(channel: Channel) -> None:
            await channel.ping()
            written.set()
            await _never()

        await EventStream(write)({"type": "http"}, receive, send)
        return sent

    assert asyncio.run(main()) == ["http.response.start", "http.response.body"]


def test_a_reader_that_is_lost_while_one_writes_ends_the_stream() -> None:
    """Whoever waited to write goes on in the same moment in which the loss is told."""

    async def main() -> None:
        lost, writes = asyncio.Event(), asyncio.Event()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                writes.set()
                await lost.wait()

        async def receive() -> dict[str, str]:
            await lost.wait()
            return {"type": "http.disconnect"}

        async def write(channel: Channel) -> None:
            while True:
                await channel.ping()
                await asyncio.sleep(0)

        serving = asyncio.create_task(EventStream(write)({"type": "http"}, receive, send))
        await writes.wait()
        lost.set()
        done, _ = await asyncio.wait({serving}, timeout=20)
        assert done, "the stream goes on, and nobody reads it"

    asyncio.run(main())


def test_events_are_spelled_as_the_standard_says() -> None:
    async def main() -> bytes:
        parts: list[bytes] = []

        async def send(message: Any) -> None:
            parts.append(message.get("body", b""))

        async def write(channel: Channel) -> None:
            await channel.retry(1.5)
            await channel.ping()
            await channel.event("replay", b'{"v":1}', 17)

        await EventStream(write)({"type": "http"}, _never, send)
        return b"".join(parts)

    assert asyncio.run(main()) == (
        b'retry: 1500\n\n: ping\n\nid: 17\nevent: replay\ndata: {"v":1}\n\n'
    )


def test_what_goes_wrong_in_a_stream_is_not_hidden() -> None:
    async def main() -> None:
        async def send(_: Any) -> None:
            pass

        async def write(_: Channel) -> None:
            raise LookupError("so it is")

        with pytest.raises(LookupError):
            await EventStream(write)({"type": "http"}, _never, send)

    asyncio.run(main())
