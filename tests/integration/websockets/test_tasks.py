"""The asyncio client of ``websockets`` against a real server: recorded, then without the server."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest
import websockets
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.protocol import State

import reenact
from tests.integration.chatting import SUBPROTOCOL, Chat
from tests.integration.sessions import Studio

Program = Callable[[], Awaitable[Any]]


def _again(studio: Studio, chat: Chat, program: Program) -> Any:
    """What ``program`` gives, recorded; and the same when nobody listens any more."""
    recorded = studio.record(lambda: asyncio.run(program()))  # type: ignore[arg-type]
    opened = chat.opened
    chat.stop()
    replayed = studio.replay(lambda: asyncio.run(program()))  # type: ignore[arg-type]
    assert replayed == recorded
    assert chat.opened == opened
    return recorded


# Messages


async def _talk(chat: Chat) -> list[Any]:
    async with connect(chat.url("echo")) as websocket:
        answers: list[Any] = []
        for message in ("hello", "", "grüezi ✓", b"\x00\xff", b"", '{"b": 1, "a": [2]}'):
            await websocket.send(message)
            answers.append(await websocket.recv())
        return answers


def test_an_echo_comes_back(studio: Studio, chat: Chat) -> None:
    answers = _again(studio, chat, lambda: _talk(chat))
    assert answers == ["hello", "", "grüezi ✓", b"\x00\xff", b"", '{"b": 1, "a": [2]}']
    assert chat.heard == answers


def test_nothing_changes_without_a_session(chat: Chat) -> None:
    assert asyncio.run(_talk(chat)) == chat.heard


def test_nothing_changes_when_off(studio: Studio, chat: Chat) -> None:
    async def kind() -> Any:
        async with connect(chat.url("echo")) as websocket:
            return type(websocket)

    with studio.session(mode="off"):
        assert asyncio.run(kind()) is ClientConnection
    assert studio.everything() == {}


def test_the_events_say_what_was_said(studio: Studio, chat: Chat) -> None:
    async def program() -> None:
        async with connect(chat.url("echo?b=1&a=2")) as websocket:
            await websocket.send('{"b": 1, "a": [2]}')
            await websocket.recv()

    _again(studio, chat, program)
    opened, sent, received, closed = (event.data for event in studio.events())
    assert opened["op"] == "websocket"
    assert opened["request"]["url"].endswith("/echo?a=2&b=1")
    assert opened["response"]["status"] == 101
    assert sent["op"] == "websocket.send"
    assert sent["request"] == {"connection": "0/1", "type": "text", "body": {"b": 1, "a": [2]}}
    assert received["response"] == {"type": "text", "body": '{"b": 1, "a": [2]}'}
    assert closed["request"] == {"connection": "0/1", "code": 1000}


def test_a_feed_is_iterated_to_its_end(studio: Studio, chat: Chat) -> None:
    async def program() -> list[int]:
        async with connect(chat.url("feed?count=20")) as websocket:
            return [json.loads(message)["tick"] async for message in websocket]

    assert _again(studio, chat, program) == list(range(20))


def test_who_leaves_a_feed_early_leaves_it_again(studio: Studio, chat: Chat) -> None:
    async def program() -> list[Any]:
        seen = []
        async with connect(chat.url("feed?count=10")) as websocket:
            async for message in websocket:
                seen.append(message)
                if len(seen) == 3:
                    break
        return seen

    assert len(_again(studio, chat, program)) == 3


def test_messages_are_decoded_as_asked(studio: Studio, chat: Chat) -> None:
    async def program() -> list[Any]:
        async with connect(chat.url("echo")) as websocket:
            await websocket.send(b"bytes", text=True)
            await websocket.send("text", text=False)
            await websocket.send("text")
            return [
                await websocket.recv(),
                await websocket.recv(decode=True),
                await websocket.recv(decode=False),
            ]

    assert _again(studio, chat, program) == ["bytes", "text", b"text"]


async def _pieces() -> Any:
    for piece in ("fr", "ag", "ments"):
        await asyncio.sleep(0)
        yield piece


def test_fragments_are_sent_and_received(studio: Studio, chat: Chat) -> None:
    async def program() -> list[Any]:
        async with connect(chat.url("echo")) as websocket:
            await websocket.send(["a", "b"])
            await websocket.send([])
            await websocket.send(iter([b"a", b"b"]))
            await websocket.send(_pieces())
            echoes = [await websocket.recv() for _ in range(3)]
        async with connect(chat.url("fragments")) as websocket:
            texts = [piece async for piece in websocket.recv_streaming()]
            pieces = [piece async for piece in websocket.recv_streaming()]
        return [echoes, texts, pieces]

    echoes, texts, pieces = _again(studio, chat, program)
    assert echoes == ["ab", b"ab", "fragments"]
    assert ("".join(texts), b"".join(pieces)) == ("one two three", b"\x00\xff")
    assert len(texts) > 1


@pytest.mark.parametrize("message", [{"a": 1}, 7, [7], None], ids=["dict", "int", "list", "none"])
def test_what_is_no_message_is_refused_by_the_library(
    studio: Studio, chat: Chat, message: Any
) -> None:
    async def program() -> str:
        async with connect(chat.url("echo")) as websocket:
            with pytest.raises(TypeError) as caught:
                await websocket.send(message)
            return str(caught.value)

    assert _again(studio, chat, program)


def test_pings_are_answered(studio: Studio, chat: Chat) -> None:
    async def program() -> list[Any]:
        async with connect(chat.url("echo")) as websocket:
            ignored = await websocket.ping()
            latency = await (await websocket.ping("payload"))
            await websocket.pong(b"unasked")
            done = await asyncio.wait_for(ignored, 30)
            return [latency, websocket.latency == latency, done <= latency + 30]

    latency, *rest = _again(studio, chat, program)
    assert latency > 0
    assert rest == [True, True]


# What a connection knows


def test_a_connection_knows_the_same_again(studio: Studio, chat: Chat) -> None:
    async def program() -> dict[str, Any]:
        headers = {"X-Mine": "1"}
        async with connect(
            chat.url("echo"), subprotocols=[SUBPROTOCOL], additional_headers=headers
        ) as websocket:
            assert isinstance(websocket, ClientConnection)
            assert websocket.response is not None
            assert websocket.request is not None
            known = {
                "name": type(websocket).__name__,
                "id": websocket.id,
                "subprotocol": websocket.subprotocol,
                "state": websocket.state,
                "local": websocket.local_address,
                "remote": websocket.remote_address,
                "path": websocket.request.path,
                "sent": list(websocket.request.headers.raw_items()),
                "status": websocket.response.status_code,
                "headers": list(websocket.response.headers.raw_items()),
                "open": (websocket.close_code, websocket.close_reason),
                "latency": websocket.latency,
            }
        return {**known, "closed": (websocket.state, websocket.close_code)}

    known = _again(studio, chat, program)
    assert known["name"] == "ClientConnection"
    assert known["subprotocol"] == SUBPROTOCOL
    assert known["remote"][0] == "127.0.0.1"
    assert ("X-Mine", "1") in known["sent"]
    assert (known["path"], known["status"], known["open"]) == ("/echo", 101, (None, None))
    assert known["closed"] == (State.CLOSED, 1000)


class Shouting(ClientConnection):
    """A program's own kind of connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.shouted = 0

    async def recv(self, *args: Any, **kwargs: Any) -> Any:
        self.shouted += 1
        return (await super().recv(*args, **kwargs)).upper()


def test_a_connection_class_of_the_programs_own_stays_in_force(studio: Studio, chat: Chat) -> None:
    async def program() -> list[Any]:
        async with connect(chat.url("echo"), create_connection=Shouting) as websocket:
            assert isinstance(websocket, Shouting)
            await websocket.send("hello")
            return [await websocket.recv(), websocket.shouted, type(websocket).__name__]

    assert _again(studio, chat, program) == ["HELLO", 1, "Shouting"]


def test_a_broadcast_is_refused_and_not_lost_in_silence(studio: Studio, chat: Chat) -> None:
    async def program() -> str:
        async with connect(chat.url("echo")) as websocket:
            with pytest.raises(ExceptionGroup) as caught:
                websockets.broadcast([websocket], "all", raise_exceptions=True)
            return str(caught.value.exceptions[0].__cause__)

    assert "past send()" in _again(studio, chat, program)


# Closing


def _told(error: ConnectionClosed) -> tuple[Any, ...]:
    return type(error), str(error), error.rcvd, error.sent, error.rcvd_then_sent


@pytest.mark.parametrize("code", [1000, 1001, 1011, 4001])
def test_a_server_closes(studio: Studio, chat: Chat, code: int) -> None:
    async def program() -> list[Any]:
        seen: list[Any] = []
        async with connect(chat.url(f"close?code={code}&reason=done")) as websocket:
            seen.append(await websocket.recv())
            for act in (websocket.recv, lambda: websocket.send("late"), websocket.ping):
                with pytest.raises(ConnectionClosed) as caught:
                    await act()
                seen.append(_told(caught.value))
            await websocket.wait_closed()
            return [*seen, websocket.close_code, websocket.close_reason, websocket.state]

    before, first, *_, seen_code, reason, state = _again(studio, chat, program)
    fine = websockets.ConnectionClosedOK if code < 1002 else websockets.ConnectionClosedError
    assert (before, first[0], seen_code, reason) == ("before", fine, code, "done")
    assert state is State.CLOSED


def test_a_dead_line_is_an_error_with_its_cause(studio: Studio, chat: Chat) -> None:
    async def program() -> list[Any]:
        websocket = await connect(chat.url("drop"))
        seen: list[Any] = [await websocket.recv()]
        await websocket.send("go")
        with pytest.raises(websockets.ConnectionClosedError) as caught:
            await websocket.recv()
        seen += [_told(caught.value), websocket.close_code]
        await websocket.close()
        return seen

    assert _again(studio, chat, program)[-1] == 1006


def test_a_program_closes_with_its_own_words(studio: Studio, chat: Chat) -> None:
    async def program() -> list[Any]:
        websocket = await connect(chat.url("echo"))
        waiting = asyncio.create_task(websocket.wait_closed())
        await websocket.close(4000, "enough")
        await waiting
        await websocket.close()
        return [websocket.state, websocket.close_code, websocket.close_reason]

    assert _again(studio, chat, program) == [State.CLOSED, 4000, "enough"]
    closing = [event.data for event in studio.events() if event.data["op"] == "websocket.close"]
    assert [data["request"]["reason"] for data in closing] == ["enough"]


def test_an_exception_closes_with_an_error_code(studio: Studio, chat: Chat) -> None:
    async def program() -> str:
        try:
            async with connect(chat.url("echo")):
                raise ValueError("mine")
        except ValueError as error:
            return str(error)

    assert _again(studio, chat, program) == "mine"
    assert studio.events()[-1].data["request"]["code"] == 1011


# Failures to connect


def test_a_server_that_refuses_says_why(studio: Studio, chat: Chat) -> None:
    async def program() -> list[Any]:
        with pytest.raises(InvalidStatus) as caught:
            await connect(chat.url("refuse"))
        answer = caught.value.response
        return [
            type(caught.value),
            str(caught.value),
            answer.status_code,
            answer.reason_phrase,
            list(answer.headers.raw_items()),
            answer.body,
            type(answer.body),
        ]

    kind, text, status, _, headers, body, _ = _again(studio, chat, program)
    assert (kind, status, body) == (InvalidStatus, 403, b"not today")
    assert ("X-Reason", "closed today") in headers
    assert "403" in text


def test_a_refused_connection_is_an_os_error(studio: Studio, chat: Chat) -> None:
    nobody = chat.url("echo")
    chat.stop()

    async def program() -> list[Any]:
        with pytest.raises(OSError, match=r"127\.0\.0\.1") as caught:
            await connect(nobody)
        return [type(caught.value), caught.value.errno, str(caught.value)]

    assert _again(studio, chat, program)[0] is ConnectionRefusedError


def test_a_handshake_that_takes_too_long_times_out(studio: Studio, chat: Chat) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]

        async def program() -> list[Any]:
            with pytest.raises(TimeoutError) as caught:
                await connect(f"ws://127.0.0.1:{port}/", open_timeout=0.05)
            return [type(caught.value), str(caught.value)]

        assert _again(studio, chat, program)[0] is TimeoutError


def test_a_redirect_is_followed(studio: Studio, chat: Chat) -> None:
    async def program() -> Any:
        async with connect(chat.url("moved")) as websocket:
            await websocket.send("hello")
            return await websocket.recv()

    assert _again(studio, chat, program) == "hello"


def _soon() -> Generator[float]:
    yield 0.01


def test_reconnecting_goes_on_until_it_works(
    studio: Studio, chat: Chat, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "websockets")

    async def program() -> list[Any]:
        seen: list[Any] = []
        async for websocket in connect(chat.url("busy"), reconnect_delays=_soon):
            await websocket.send("hello")
            seen.append(await websocket.recv())
            await websocket.close()
            if len(seen) == 2:
                break
        return seen

    assert _again(studio, chat, program) == ["hello", "hello"]
    assert [event.data["op"] for event in studio.events()].count("websocket") == 3


# Waiting


def test_a_recv_that_times_out_times_out_again(studio: Studio, chat: Chat) -> None:
    async def program() -> list[Any]:
        seen: list[Any] = []
        async with connect(chat.url("late")) as websocket:
            for _ in range(2):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(websocket.recv(), 0.02)
                seen.append("nothing")
            async with asyncio.timeout(30):
                chat.go.set()
                seen.append(await websocket.recv())
            return seen

    assert _again(studio, chat, program) == ["nothing", "nothing", "at last"]


def test_a_cancelled_recv_loses_nothing(studio: Studio, chat: Chat) -> None:
    async def program() -> list[Any]:
        async with connect(chat.url("late")) as websocket:
            first = asyncio.create_task(websocket.recv())
            await asyncio.sleep(0)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            chat.go.set()
            return [await websocket.recv()]

    assert _again(studio, chat, program) == ["at last"]


def test_a_task_that_still_reads_is_cancelled_with_the_loop(studio: Studio, chat: Chat) -> None:
    async def program() -> str:
        websocket = await connect(chat.url("silent"))
        asyncio.create_task(websocket.recv())  # noqa: RUF006 - left alone on purpose
        await asyncio.sleep(0)
        await websocket.send("bye")
        await websocket.close()
        return "left"

    assert _again(studio, chat, program) == "left"


def test_a_reader_and_a_writer_share_a_connection(studio: Studio, chat: Chat) -> None:
    async def program() -> list[Any]:
        seen: list[Any] = []

        async def read(websocket: ClientConnection) -> None:
            async for message in websocket:
                seen.append(message)
                if len(seen) == 10:
                    return

        async with connect(chat.url("echo")) as websocket:
            reader = asyncio.create_task(read(websocket))
            for number in range(10):
                await websocket.send(str(number))
            await reader
        return seen

    assert _again(studio, chat, program) == [str(number) for number in range(10)]


def test_connections_in_parallel_tasks_keep_apart(studio: Studio, chat: Chat) -> None:
    order: list[str] = []

    async def talk(name: str) -> list[Any]:
        async with connect(chat.url("echo")) as websocket:
            seen = []
            for number in range(5):
                await websocket.send(f"{name}{number}")
                seen.append(await websocket.recv())
                order.append(name)
            return seen

    async def program() -> list[Any]:
        order.clear()
        return [*await asyncio.gather(*map(talk, "abcd")), list(order)]

    *each, _ = _again(studio, chat, program)
    assert each == [[f"{name}{number}" for number in range(5)] for name in "abcd"]
    names = {event.data["request"].get("connection") for event in studio.events()}
    assert names - {None} == {"0.1/1", "0.2/1", "0.3/1", "0.4/1"}


def test_a_connection_outlives_its_session(studio: Studio, chat: Chat) -> None:
    async def program(mode: str) -> Any:
        with studio.session(mode=mode):
            websocket = await connect(chat.url("silent"))
        await websocket.close()
        return websocket.state

    assert asyncio.run(program("record")) is State.CLOSED
    assert chat.lost.wait(30)
    chat.stop()
    assert asyncio.run(program("replay")) is State.OPEN
    assert any("after the end of its session" in text for text in studio.warnings)


def test_a_replay_opens_no_socket_and_starts_no_task(studio: Studio, chat: Chat) -> None:
    async def program() -> set[str]:
        async with connect(chat.url("echo")) as websocket:
            await websocket.send("hello")
            await websocket.recv()
            return {task.get_name() for task in asyncio.all_tasks()}

    studio.record(lambda: asyncio.run(program()))
    chat.stop()
    replayed = studio.replay(lambda: asyncio.run(program()))
    assert len(replayed) == 1


def test_a_recording_goes_on_where_it_can(studio: Studio, chat: Chat) -> None:
    """Calls that are recorded are served; a conversation from the recording cannot go on live."""

    async def program(count: int) -> None:
        async with connect(chat.url("echo")) as websocket:
            for number in range(count):
                await websocket.send(str(number))

    studio.record(lambda: asyncio.run(program(1)))
    with (
        studio.session(mode="record_missing"),
        pytest.raises(reenact.PolicyRefused, match="cannot continue live") as caught,
    ):
        asyncio.run(program(2))
    assert "rewrite" in caught.value.hint
