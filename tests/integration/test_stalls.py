"""A replay that stands still: found, told with both sides, and never a hang.

A huge patience proves that a stall was found by what is known, not by waiting for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

import reenact
from reenact import DivergenceError
from tests.integration.racing import CAPABILITY, Program, World, record, replay

EXACT = 100_000
"""Seconds of patience that no test has."""

SHORT = 0.2


class Script:
    """A program of two lanes whose second one may be led astray."""

    def __init__(self) -> None:
        self.astray = False


def _stall(program: Program, path: Path, **options: Any) -> DivergenceError:
    with pytest.raises(DivergenceError) as raised:
        replay(program, path, **options)
    divergence = _divergence(raised.value)
    assert divergence.code == "event_missing"
    assert "stalled" in divergence.flags
    return raised.value


def _divergence(error: BaseException) -> reenact.Divergence:
    assert isinstance(error, DivergenceError)
    assert isinstance(error.divergence, reenact.Divergence)
    return error.divergence


# One loop


def _two_tasks(script: Script) -> Program:
    """The slow task is answered last; astray, the quick one never asks."""

    async def quick(world: World) -> Any:
        if script.astray:
            await asyncio.Event().wait()  # here it stands
        return await world.session.aio.call("quick", {}, _at_once, capability=CAPABILITY)

    async def slow(world: World, answered: asyncio.Event) -> Any:
        async def live() -> str:
            await answered.wait()
            return "slow"

        return await world.session.aio.call("slow", {}, live, capability=CAPABILITY)

    async def main(world: World) -> Any:
        answered = asyncio.Event()
        second = asyncio.create_task(slow(world, answered))
        first = asyncio.create_task(quick(world))
        first.add_done_callback(lambda _: answered.set())
        return [await second, await first]

    return lambda world: asyncio.run(main(world))


async def _at_once() -> str:
    return "quick"


def test_a_loop_that_stands_is_found_at_once_and_both_sides_are_named(tmp_path: Path) -> None:
    script = Script()
    record(_two_tasks(script), tmp_path / "c")
    script.astray = True
    error = _stall(_two_tasks(script), tmp_path / "c", patience=EXACT)
    message = str(error)
    assert "quick" in message  # what comes next, and nobody asks for it
    assert "slow" in message  # what waits
    assert _divergence(error).lane == "0.1"
    assert "here it stands" in message


def test_nothing_is_found_where_nothing_stands(tmp_path: Path) -> None:
    script = Script()
    expected = record(_two_tasks(script), tmp_path / "c")
    assert replay(_two_tasks(script), tmp_path / "c", patience=0.001) == expected


def test_a_lenient_replay_drops_the_head_and_goes_on(tmp_path: Path) -> None:
    script = Script()

    async def main(world: World) -> Any:
        tasks = [asyncio.create_task(world.aget(i)) for i in range(3)]
        if script.astray:
            tasks[1].cancel()
            await asyncio.wait(tasks)
            return [task.result() for task in tasks if not task.cancelled()]
        return [await task for task in tasks]

    def program(world: World) -> Any:
        return asyncio.run(main(world))

    expected = record(program, tmp_path / "c")
    script.astray = True
    with reenact.session(
        capture=tmp_path / "c",
        mode="replay",
        strict=False,
        patience=EXACT,
        unused="allow",
        warn=lambda text: None,
    ) as session:
        assert program(World(session)) == [expected[0], expected[2]]
    assert {one.code for one in session.divergences()} <= {"event_missing"}


def test_a_call_that_was_cancelled_then_and_is_not_now_is_a_stall(tmp_path: Path) -> None:
    script = Script()

    async def main(world: World) -> Any:
        call = asyncio.create_task(
            world.session.aio.call("call", {}, asyncio.Event().wait, capability=CAPABILITY)
        )
        await asyncio.sleep(0)
        if not script.astray:
            call.cancel()
        await asyncio.wait([call])

    record(lambda world: asyncio.run(main(world)), tmp_path / "c")
    script.astray = True
    error = _stall(lambda world: asyncio.run(main(world)), tmp_path / "c", patience=EXACT)
    assert "call" in str(error)


def test_a_timer_that_is_not_set_any_more_is_a_stall(tmp_path: Path) -> None:
    script = Script()

    async def main(world: World) -> Any:
        if not script.astray:
            await asyncio.sleep(0.001)
        return await world.aget()

    def program(world: World) -> Any:
        return asyncio.run(main(world))

    record(program, tmp_path / "c")
    script.astray = True
    assert "timer:1" in str(_stall(program, tmp_path / "c", patience=EXACT))


def test_a_loop_that_listens_to_a_file_is_given_time(tmp_path: Path) -> None:
    """Somebody outside could still wake it: that takes patience."""
    script = Script()
    inner = _two_tasks(script)

    async def listening(world: World) -> Any:
        loop = asyncio.get_running_loop()
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        try:
            return await loop.run_in_executor(None, inner, world)
        finally:
            server.close()

    def program(world: World) -> Any:
        return asyncio.run(listening(world))

    record(program, tmp_path / "c")
    script.astray = True
    assert _divergence(_stall(program, tmp_path / "c", patience=SHORT)).lane


# Threads


def _two_threads(script: Script, stand: Callable[[], Any]) -> Program:
    """Two threads make a call each, one after the other; astray, the first one does not."""

    def program(world: World) -> Any:
        seen: list[Any] = []
        gone = threading.Event()

        def first() -> None:
            if script.astray:
                stand()
            else:
                seen.append(world.get("first"))
            gone.set()

        def second() -> None:
            def live() -> str:
                gone.wait()
                return "second"

            seen.append(world.session.call("second", {}, live, capability=CAPABILITY))

        threads = [threading.Thread(target=target) for target in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return seen

    return program


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_threads_that_all_wait_are_found_at_once(tmp_path: Path) -> None:
    """The first thread ended without its call, the main one waits for the second."""
    script = Script()
    program = _two_threads(script, stand=lambda: None)
    record(program, tmp_path / "c")
    script.astray = True
    error = _stall(program, tmp_path / "c", patience=EXACT)
    assert _divergence(error).lane == "0.2"  # who waits
    assert "nondeterministic network get, lane 0.1" in str(error)  # what comes next


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_waits_for_what_is_not_seen_takes_patience(tmp_path: Path) -> None:
    script = Script()
    lock = threading.Lock()
    lock.acquire()
    program = _two_threads(script, stand=lambda: lock.acquire(timeout=EXACT))
    record(program, tmp_path / "c")
    script.astray = True
    watcher = _WhenPoisoned(lock.release)
    session = reenact.session(capture=tmp_path / "c", mode="replay", strict=True, patience=SHORT)
    with pytest.raises(DivergenceError) as raised, session:
        watcher.watch(session)
        program(World(session))
    assert "lock.acquire" in str(raised.value)  # the stack of the lane that owes the head
    watcher.join()


class _WhenPoisoned:
    """Lets a program go on that stands where nobody else can help it."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act
        self._thread: threading.Thread | None = None

    def watch(self, session: Any) -> None:
        def look() -> None:
            while not session.divergences():
                threading.Event().wait(0.01)
            self._act()

        self._thread = threading.Thread(target=look)
        session.gateway.outside(self._thread.start)

    def join(self) -> None:
        assert self._thread is not None
        self._thread.join()


def test_a_thread_that_computes_is_no_stall(tmp_path: Path) -> None:
    """It uses the processor for several times the patience before it makes its call."""

    def program(world: World) -> Any:
        seen: list[Any] = []
        gone = threading.Event()

        def compute() -> None:
            total = 0
            while total < 20_000_000 and world.live == 0:
                total += 1
            seen.append(world.get("computed"))
            gone.set()

        def live() -> str:
            gone.wait()
            return "waited"

        thread = threading.Thread(target=compute)
        thread.start()
        seen.append(world.session.call("wait", {}, live, capability=CAPABILITY))
        thread.join()
        return seen

    expected = record(program, tmp_path / "c")
    assert replay(program, tmp_path / "c", patience=0.3) == expected


@pytest.mark.soak
def test_thirty_replays_with_little_patience_give_no_false_alarm(
    tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    async def main(world: World) -> Any:
        async def one(i: int) -> Any:
            return [await asyncio.to_thread(world.get, i), await world.aget(i)]

        return await asyncio.gather(*(one(i) for i in range(5)))

    def program(world: World) -> Any:
        with ThreadPoolExecutor(2) as pool:
            return [asyncio.run(main(world)), list(pool.map(world.get, range(4)))]

    expected = record(program, tmp_path / "c")
    for _ in range(rounds(35, 1_000)):
        assert replay(program, tmp_path / "c", patience=0.5) == expected


def test_a_job_that_never_asks_is_found_while_the_loop_waits(tmp_path: Path) -> None:
    script = Script()
    stand = threading.Event()

    async def main(world: World) -> Any:
        def work() -> Any:
            if script.astray:
                stand.wait()
            return world.get("job")

        job = asyncio.create_task(asyncio.to_thread(work))

        async def live() -> str:
            await asyncio.wait([job])
            return "loop"

        call = world.session.aio.call("loop", {}, live, capability=CAPABILITY)
        try:
            return [await call, await job]
        finally:
            stand.set()

    def program(world: World) -> Any:
        return asyncio.run(main(world))

    record(program, tmp_path / "c")
    stand.clear()
    script.astray = True
    error = _stall(program, tmp_path / "c", patience=SHORT)
    assert "stand.wait()" in str(error)


# How it is raised


def test_strict_raises_in_the_waiter_with_the_lowest_seq(tmp_path: Path) -> None:
    """Of three that wait, the one whose answer came first."""
    script = Script()
    raised: list[int] = []

    async def one(world: World, i: int, turns: list[asyncio.Event]) -> Any:
        async def live() -> int:
            await turns[i].wait()
            if i + 1 < len(turns):
                turns[i + 1].set()
            return i

        if script.astray and i == 0:
            return None
        try:
            return await world.session.aio.call(f"call {i}", {}, live, capability=CAPABILITY)
        except DivergenceError:
            raised.append(i)
            raise

    async def main(world: World) -> Any:
        turns = [asyncio.Event() for _ in range(4)]
        turns[0].set()
        order = (3, 1, 0, 2)
        return await asyncio.gather(*(one(world, i, turns) for i in order))

    def program(world: World) -> Any:
        return asyncio.run(main(world))

    record(program, tmp_path / "c")
    script.astray = True
    _stall(program, tmp_path / "c", patience=EXACT)
    assert raised[0] == 1


async def _through_gather(calls: list[Any]) -> None:
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert any(isinstance(result, DivergenceError) for result in results)


async def _through_a_group(calls: list[Any]) -> None:
    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(call)


async def _through_anyio(calls: list[Any]) -> None:
    async def awaited(call: Any) -> None:
        await call

    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(awaited, call)


@pytest.mark.parametrize("way", [_through_gather, _through_a_group, _through_anyio])
def test_a_divergence_comes_through(way: Callable[[list[Any]], Any], tmp_path: Path) -> None:
    """Also where everything else is caught, or put into groups."""

    async def main(world: World, count: int) -> None:
        await way([world.aget(i) for i in range(count)])

    async def recorded(world: World) -> None:
        await asyncio.gather(*(world.aget(i) for i in range(2)))

    record(lambda world: asyncio.run(recorded(world)), tmp_path / "c")
    with pytest.raises((DivergenceError, BaseExceptionGroup)) as raised:
        replay(lambda world: asyncio.run(main(world, 4)), tmp_path / "c")
    error: BaseException = raised.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert _divergence(error).code == "event_unexpected"


def test_a_divergence_comes_through_an_executor_and_a_bare_except(tmp_path: Path) -> None:
    record(lambda world: world.get(), tmp_path / "c")

    def careless(world: World) -> Any:
        world.get()
        with ThreadPoolExecutor(1) as pool:
            try:
                return pool.submit(world.get).result()
            except BaseException:
                return None

    with pytest.raises(DivergenceError) as raised:
        replay(careless, tmp_path / "c")
    assert _divergence(raised.value).lane == "0.1"


def test_who_waits_at_the_end_of_a_session_is_told(tmp_path: Path) -> None:
    """A thread that the program forgot does not wait for ever."""
    told: list[BaseException] = []
    hold = threading.Lock()
    hold.acquire()

    def work(world: World) -> None:
        try:
            world.session.call("late", {}, hold.acquire, capability=CAPABILITY)
        except BaseException as error:
            told.append(error)

    def program(world: World) -> None:
        thread = threading.Thread(target=work, args=(world,))
        thread.start()
        threads.append(thread)
        world.get()

    threads: list[threading.Thread] = []
    record(program, tmp_path / "c", warn=lambda text: None)
    hold.release()
    threads.pop().join()
    replay(program, tmp_path / "c", unused="allow")
    threads.pop().join()
    assert [type(error).__name__ for error in told] == ["SessionClosed"]
