"""A strict replay that diverges in one place does not keep those waiting who wait elsewhere; and a
call that is really made while others wait is no standstill."""

from __future__ import annotations

import asyncio
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import DivergenceError, Policy
from reenact.policy.model import BoundaryRule

FOR_EVER = 600.0
"""A patience that no test waits for."""

BRIEF = 0.2
LONGER = 0.7


class _Slow(BaseHTTPRequestHandler):
    """Answers after a while in which nothing happens."""

    def do_GET(self) -> None:
        threading.Event().wait(LONGER if self.path == "/slow" else 0)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *args: Any) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Slow) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _threads(*bodies: Callable[[], None]) -> None:
    threads = [threading.Thread(target=body) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# One diverges, others wait


@reenact.boundary
def ask(what: str) -> str:
    return what


def test_threads_that_wait_are_told_at_once(tmp_path: Path) -> None:
    """The one that diverges swallows that, and then waits for the others."""
    raised: list[str] = []

    def program(changed: str) -> None:
        ends = [threading.Event() for _ in range(3)]
        asked = threading.Event()

        def first() -> None:
            try:
                ask("one")
                ask(f"two{changed}")
            except DivergenceError as error:
                raised.append(error.divergence.detail)
            asked.set()
            for end in ends:
                end.wait()

        def other(number: int) -> Callable[[], None]:
            def body() -> None:
                if not changed:
                    asked.wait()  # so that its answer was recorded after the other two
                try:
                    ask(f"other {number}")
                except DivergenceError as error:
                    raised.append(error.divergence.detail)
                finally:
                    ends[number].set()

            return body

        _threads(*(other(number) for number in range(3)), first)

    with reenact.session(capture=tmp_path / "c", mode="record"):
        program("")
    with (
        pytest.raises(DivergenceError) as caught,
        reenact.session(capture=tmp_path / "c", strict=True, patience=FOR_EVER),
    ):
        program(" changed")
    assert raised == [caught.value.divergence.detail] * 4
    assert "$.request" in str(caught.value)


def test_tasks_that_wait_are_told_at_once(tmp_path: Path) -> None:
    @reenact.boundary
    async def ask_later(what: str) -> str:
        await asyncio.sleep(0)
        return what

    async def nap() -> None:
        await asyncio.sleep(0.01)

    async def program(changed: str) -> list[Any]:
        first = ask_later(f"first{changed}")
        others = (ask_later("second"), asyncio.wait_for(ask_later("third"), FOR_EVER), nap())
        return list(await asyncio.gather(first, *others, return_exceptions=True))

    with reenact.session(capture=tmp_path / "c", mode="record"):
        assert asyncio.run(program("")) == ["first", "second", "third", None]
    found: list[Any] = []
    with (
        pytest.raises(DivergenceError),
        reenact.session(capture=tmp_path / "c", strict=True, patience=FOR_EVER),
    ):
        found += asyncio.run(program(" changed"))
    assert [type(one) for one in found[:3]] == [DivergenceError] * 3


def test_pool_of_threads_raises_the_divergence_of_a_job(tmp_path: Path) -> None:
    """Its workers end with a BaseException, and their results would never come."""
    with reenact.session(capture=tmp_path / "c", mode="record"):
        ask("one")
    raised: list[type[BaseException]] = []
    with ThreadPool(1) as pool:
        session = reenact.session(capture=tmp_path / "c", strict=True, patience=FOR_EVER)
        with pytest.raises(DivergenceError), session:
            for run in (pool.apply_async, pool.map_async):
                with pytest.raises(DivergenceError) as caught:
                    run(ask, ["another"]).get(FOR_EVER)
                raised.append(caught.type)
    assert raised == [DivergenceError] * 2


def test_call_that_an_ended_thread_has_not_made_is_missed_at_once(tmp_path: Path) -> None:
    """A thread from before the session could wake those that wait, but not the one that has ended."""
    end = threading.Event()
    stranger = threading.Thread(target=end.wait)
    stranger.start()

    def program(*calls: str) -> None:
        thread = threading.Thread(target=lambda: [ask(one) for one in calls])
        thread.start()
        thread.join()
        ask("last")

    try:
        with reenact.session(capture=tmp_path / "c", mode="record"):
            program("one", "two")
        with (
            pytest.raises(DivergenceError, match="nobody asks for it"),
            reenact.session(capture=tmp_path / "c", strict=True, patience=FOR_EVER),
        ):
            program("one")
    finally:
        end.set()
        stranger.join()


# One is slow, others wait


@reenact.tool
def say(what: str) -> str:
    return what


def _fetch(url: str) -> bytes:
    with urllib.request.urlopen(url) as answer:
        found: bytes = answer.read()
    return found


PASSES = Policy(
    id="passes",
    boundaries=(BoundaryRule(capability="net.fetch", action="pass"),),
    allow_passthrough=True,
)


def test_a_slow_server_that_is_really_asked_is_no_standstill(server: str, tmp_path: Path) -> None:
    """Its thread does nothing for longer than the patience, and the others wait for it."""
    found: list[Any] = []

    def program(path: str) -> None:
        done = threading.Event()

        def first() -> None:
            found.append(_fetch(f"{server}{path}"))
            found.append(say("first"))
            done.set()

        def second() -> None:
            if path == "/quick":
                done.wait()
            found.append(say("second"))

        _threads(first, second)

    with reenact.session(capture=tmp_path / "c", mode="record", policy=PASSES):
        program("/quick")
    with reenact.session(capture=tmp_path / "c", strict=True, policy=PASSES, patience=BRIEF):
        program("/slow")
    assert found == [b"ok", "first", "second"] * 2


def test_a_slow_tool_that_passes_is_no_standstill_of_a_loop(tmp_path: Path) -> None:
    rule = BoundaryRule(capability="tool.call", operation="slow", action="pass")
    policy = Policy(id="passes", boundaries=(rule,), allow_passthrough=True)

    @reenact.tool
    async def slow(seconds: float) -> str:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        threading.Timer(seconds, loop.call_soon_threadsafe, [done.set_result, "ok"]).start()
        return str(await done)

    @reenact.boundary
    async def ask_later(what: str) -> str:
        return what

    async def program(seconds: float) -> list[str]:
        first = asyncio.Event()

        async def one() -> str:
            found = await slow(seconds)
            await ask_later("one")
            first.set()
            return found

        async def other() -> str:
            if not seconds:
                await first.wait()
            return await ask_later("other")

        return list(await asyncio.gather(one(), other()))

    with reenact.session(capture=tmp_path / "c", mode="record", policy=policy):
        assert asyncio.run(program(0)) == ["ok", "other"]
    with reenact.session(capture=tmp_path / "c", strict=True, policy=policy, patience=BRIEF):
        assert asyncio.run(program(LONGER)) == ["ok", "other"]


def test_a_slow_answer_is_recorded_whatever_the_patience(server: str, tmp_path: Path) -> None:
    found: list[Any] = []

    def program() -> None:
        _threads(
            lambda: found.append(_fetch(f"{server}/slow")),
            lambda: found.append(ask("other").encode()),
        )

    with reenact.session(capture=tmp_path / "c", mode="record", patience=BRIEF):
        program()
    with reenact.session(capture=tmp_path / "c", strict=True, patience=BRIEF):
        program()
    assert found == [b"other", b"ok"] * 2
