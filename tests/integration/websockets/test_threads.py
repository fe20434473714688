"""The client of ``websockets`` for threads against a real server: recorded, then without it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, InvalidStatus
from websockets.protocol import State
from websockets.sync.client import ClientConnection, connect, reconnect

from tests.integration.chatting import SUBPROTOCOL, Chat
from tests.integration.sessions import Studio


def _again(studio: Studio, chat: Chat, program: Callable[[], Any]) -> Any:
    """What ``program`` gives, recorded; and the same when nobody listens any more."""
    recorded = studio.record(program)
    opened = chat.opened
    chat.stop()
    assert studio.replay(program) == recorded
    assert chat.opened == opened
    return recorded


def test_an_echo_comes_back(studio: Studio, chat: Chat) -> None:
    def program() -> list[Any]:
        with connect(chat.url("echo")) as websocket:
            answers: list[Any] = []
            for message in ("hello", b"\x00\xff", ["a", "b"], '{"a": 1}'):
                websocket.send(message)
                answers.append(websocket.recv())
            websocket.send([])
            websocket.send("text", text=False)
            return [*answers, websocket.recv()]

    assert _again(studio, chat, program) == ["hello", b"\x00\xff", "ab", '{"a": 1}', b"text"]


def test_a_feed_is_iterated_to_its_end(studio: Studio, chat: Chat) -> None:
    def program() -> int:
        with connect(chat.url("feed?count=20")) as websocket:
            return len(list(websocket))

    assert _again(studio, chat, program) == 20


def test_fragments_are_received(studio: Studio, chat: Chat) -> None:
    def program() -> list[Any]:
        with connect(chat.url("fragments")) as websocket:
            return [list(websocket.recv_streaming()), list(websocket.recv_streaming())]

    texts, pieces = _again(studio, chat, program)
    assert ("".join(texts), b"".join(pieces)) == ("one two three", b"\x00\xff")


def test_a_connection_knows_the_same_again(studio: Studio, chat: Chat) -> None:
    def program() -> list[Any]:
        with connect(chat.url("echo"), subprotocols=[SUBPROTOCOL]) as websocket:
            assert isinstance(websocket, ClientConnection)
            assert websocket.request is not None
            assert websocket.response is not None
            known = [
                websocket.id,
                websocket.subprotocol,
                websocket.state,
                websocket.local_address,
                websocket.remote_address,
                list(websocket.request.headers.raw_items()),
                list(websocket.response.headers.raw_items()),
            ]
        return [*known, websocket.state, websocket.close_code]

    known = _again(studio, chat, program)
    assert known[1:3] == [SUBPROTOCOL, State.OPEN]
    assert known[-2:] == [State.CLOSED, 1000]


def test_a_recv_with_a_timeout_times_out_again(studio: Studio, chat: Chat) -> None:
    def program() -> list[Any]:
        with connect(chat.url("late")) as websocket:
            with pytest.raises(TimeoutError) as caught:
                websocket.recv(timeout=0.02)
            chat.go.set()
            return [str(caught.value), websocket.recv(timeout=30)]

    assert _again(studio, chat, program)[1] == "at last"


@pytest.mark.parametrize("code", [1000, 4001])
def test_a_server_closes(studio: Studio, chat: Chat, code: int) -> None:
    def program() -> list[Any]:
        with connect(chat.url(f"close?code={code}&reason=done")) as websocket:
            seen: list[Any] = [websocket.recv()]
            for act in (websocket.recv, lambda: websocket.send("late"), websocket.ping):
                with pytest.raises(ConnectionClosed) as caught:
                    act()
                seen += [type(caught.value), str(caught.value), caught.value.rcvd]
            return [*seen, websocket.wait_closed(), websocket.close_code, websocket.close_reason]

    assert _again(studio, chat, program)[-3:] == [True, code, "done"]


def test_waiting_for_the_end_may_end_before_it(studio: Studio, chat: Chat) -> None:
    def program() -> list[Any]:
        with connect(chat.url("silent")) as websocket:
            early = websocket.wait_closed(timeout=0.02)
            websocket.send("bye")
            return [early, websocket.wait_closed(timeout=30), websocket.state]

    assert _again(studio, chat, program) == [False, True, State.CLOSED]


def test_a_dead_line_is_an_error(studio: Studio, chat: Chat) -> None:
    def program() -> list[Any]:
        with connect(chat.url("drop")) as websocket:
            websocket.recv()
            websocket.send("go")
            with pytest.raises(ConnectionClosedError) as caught:
                websocket.recv()
            return [str(caught.value), websocket.close_code]

    assert _again(studio, chat, program)[1] == 1006


def test_a_server_that_refuses_says_why(studio: Studio, chat: Chat) -> None:
    def program() -> list[Any]:
        with pytest.raises(InvalidStatus) as caught:
            connect(chat.url("refuse"))
        answer = caught.value.response
        return [type(answer.body), str(caught.value), answer.status_code, answer.body]

    assert _again(studio, chat, program)[2:] == [403, b"not today"]


def test_pings_are_answered(studio: Studio, chat: Chat) -> None:
    def program() -> list[Any]:
        with connect(chat.url("echo")) as websocket:
            answered = websocket.ping()
            websocket.pong("unasked")
            return [answered.wait(), answered.is_set(), websocket.latency]

    came, is_set, latency = _again(studio, chat, program)
    assert (came, is_set) == (True, True)
    assert latency > 0


def test_reconnecting_goes_on_until_it_works(
    studio: Studio, chat: Chat, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "websockets")

    def soon() -> Generator[float]:
        yield 0.01

    def program() -> list[Any]:
        seen: list[Any] = []
        for websocket in reconnect(chat.url("busy"), reconnect_delays=soon):
            websocket.send("hello")
            seen.append(websocket.recv())
            if len(seen) == 2:
                break
        return seen

    assert _again(studio, chat, program) == ["hello", "hello"]


def test_the_librarys_complaint_points_at_the_program(studio: Studio, chat: Chat) -> None:
    """Version 17.1 wants connections to be used as context managers, and says so."""

    def program() -> str:
        websocket = connect(chat.url("echo"))
        with pytest.warns(DeprecationWarning, match="context manager") as caught:
            websocket.send("hello")
        websocket.close()
        return caught[0].filename

    assert _again(studio, chat, program) == __file__


class Shouting(ClientConnection):
    """A program's own kind of connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.shouted = 0

    def recv(self, *args: Any, **kwargs: Any) -> Any:
        self.shouted += 1
        return super().recv(*args, **kwargs).upper()


def test_a_connection_class_of_the_programs_own_stays_in_force(studio: Studio, chat: Chat) -> None:
    def program() -> list[Any]:
        with connect(chat.url("echo"), create_connection=Shouting) as websocket:
            assert isinstance(websocket, Shouting)
            websocket.send("hello")
            return [websocket.recv(), websocket.shouted, type(websocket).__name__]

    assert _again(studio, chat, program) == ["HELLO", 1, "Shouting"]


def test_a_reader_and_a_writer_share_a_connection(studio: Studio, chat: Chat) -> None:
    def program() -> list[Any]:
        seen: list[Any] = []

        def read(websocket: ClientConnection) -> None:
            seen.extend(websocket.recv() for _ in range(10))

        with connect(chat.url("echo")) as websocket:
            reader = threading.Thread(target=read, args=(websocket,))
            reader.start()
            for number in range(10):
                websocket.send(str(number))
            reader.join()
        return seen

    assert _again(studio, chat, program) == [str(number) for number in range(10)]


def test_connections_of_several_threads_keep_apart(studio: Studio, chat: Chat) -> None:
    def talk(name: str) -> list[Any]:
        with connect(chat.url("echo")) as websocket:
            seen = []
            for number in range(4):
                websocket.send(f"{name}{number}")
                seen.append(websocket.recv())
            return seen

    def program() -> list[Any]:
        with ThreadPoolExecutor(3) as pool:
            return list(pool.map(talk, "abc"))

    assert _again(studio, chat, program) == [[f"{n}{i}" for i in range(4)] for n in "abc"]


def test_a_replay_starts_no_thread(studio: Studio, chat: Chat) -> None:
    def program() -> int:
        with connect(chat.url("echo")):
            return threading.active_count()

    studio.record(program)
    chat.stop()
    before = threading.active_count()
    assert studio.replay(program) == before


def test_a_connection_outlives_its_session(studio: Studio, chat: Chat) -> None:
    def program(mode: str) -> None:
        with studio.session(mode=mode):
            websocket = connect(chat.url("silent"), legacy=True)
        websocket.close()

    program("record")
    assert chat.lost.wait(30)
    chat.stop()
    program("replay")
    assert any("after the end of its session" in text for text in studio.warnings)
