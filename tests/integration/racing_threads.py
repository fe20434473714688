"""Programs of threads and executors, and of loops that work together with them."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from concurrent.futures import as_completed as completed
from functools import partial, wraps
from multiprocessing.pool import ThreadPool
from typing import Any

import anyio.from_thread
import anyio.to_thread

from tests.clocks import pause
from tests.integration.racing import NEAR, Program, World

__all__ = ["PROGRAMS"]

PROGRAMS: list[Program] = []


def _synchronous(program: Program) -> Program:
    PROGRAMS.append(program)
    return program


def _program(main: Callable[[World], Awaitable[Any]]) -> Program:
    @wraps(main)
    def run(world: World) -> Any:
        return asyncio.run(main(world))  # type: ignore[arg-type]

    PROGRAMS.append(run)
    return run


def _run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# Threads


@_synchronous
def threads(world: World) -> Any:
    seen: list[Any] = []

    def work(i: int) -> None:
        for step in range(3):
            seen.append((i, step, world.get(i)))

    _run_all([threading.Thread(target=work, args=(i,)) for i in range(5)])
    return seen


@_synchronous
def threads_that_start_threads(world: World) -> Any:
    seen: list[Any] = []

    def work(depth: int) -> None:
        seen.append((depth, world.get(depth)))
        if depth:
            _run_all([threading.Thread(target=work, args=(depth - 1,)) for _ in range(2)])

    _run_all([threading.Thread(target=work, args=(2,)) for _ in range(2)])
    return seen


@_synchronous
def subclassed_threads(world: World) -> Any:
    class Worker(threading.Thread):
        answer: Any = None

        def run(self) -> None:
            self.answer = world.get(self.name)

    workers = [Worker(name=f"worker {i}") for i in range(4)]
    _run_all(list(workers))
    return [worker.answer for worker in workers]


# Executors


@_synchronous
def executor_map(world: World) -> Any:
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(world.get, range(9)))


@_synchronous
def executor_as_completed(world: World) -> Any:
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(world.get, i) for i in range(8)]
        return [future.result() for future in completed(futures)]


@_synchronous
def executor_first_completed(world: World) -> Any:
    seen = []
    with ThreadPoolExecutor(4) as pool:
        pending = {pool.submit(world.get, i) for i in range(6)}
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            seen += [future.result() for future in done]
            seen.append(world.get("round"))
    return sorted(seen, key=str)


@_synchronous
def nested_submits(world: World) -> Any:
    with ThreadPoolExecutor(8) as pool:

        def outer(i: int) -> Any:
            first = world.get(i)
            inner = [pool.submit(world.get, (i, j)) for j in range(2)]
            return first, [future.result() for future in inner]

        return [future.result() for future in [pool.submit(outer, i) for i in range(3)]]


@_synchronous
def submits_after_the_last_ones(world: World) -> Any:
    """How many workers there are depends on timing; the lanes do not."""
    seen = []
    with ThreadPoolExecutor(5) as pool:
        for i in range(5):
            seen.append(pool.submit(world.get, i).result())
        thread = threading.Thread(target=lambda: seen.append(world.get("thread")))
        thread.start()
        thread.join()
    return seen


@_synchronous
def job_that_fails(world: World) -> Any:
    def work(i: int) -> Any:
        answer = world.get(i)
        if i % 2:
            raise ValueError(i)
        return answer

    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(work, i) for i in range(6)]
        return [str(future.exception() or future.result()) for future in futures]


@_synchronous
def thread_pool_of_multiprocessing(world: World) -> Any:
    with ThreadPool(3) as pool:
        seen = [pool.map(world.get, range(5)), pool.apply(world.get, ("one",))]
        seen.append(pool.starmap(world.get, [(i, "other") for i in range(3)]))
        seen.append(list(pool.imap(world.get, range(4))))
        seen.append([result.get() for result in [pool.apply_async(world.get, (i,)) for i in "ab"]])
        seen.append(world.get("end"))
        pool.close()
        pool.join()
    return seen


# Timed waits


@_synchronous
def queue_with_a_timeout(world: World) -> Any:
    things: queue.Queue[Any] = queue.Queue()

    def produce() -> None:
        for i in range(5):
            things.put(world.get(i))

    producer = threading.Thread(target=produce)
    producer.start()
    seen: list[Any] = []
    while len(seen) - seen.count("empty") < 5:
        try:
            seen.append(things.get(timeout=0.0015))
        except queue.Empty:
            seen.append("empty")
    producer.join()
    return seen


@_synchronous
def event_with_a_timeout(world: World) -> Any:
    seen: list[Any] = []
    for i in range(6):
        event = threading.Event()

        def work(i: int = i, event: threading.Event = event) -> None:
            world.get(i)
            event.set()

        thread = threading.Thread(target=work)
        thread.start()
        seen.append(event.wait(0.002))
        thread.join()
    return seen


@_synchronous
def result_with_a_timeout(world: World) -> Any:
    seen: list[Any] = []
    with ThreadPoolExecutor(2) as pool:
        for i in range(6):
            future = pool.submit(world.get, i)
            try:
                seen.append(future.result(0.002))
            except TimeoutError:
                seen.append("time is up")
                seen.append(future.result())
    return seen


@_synchronous
def condition_with_a_timeout(world: World) -> Any:
    seen: list[Any] = []
    condition = threading.Condition()
    arrived: list[Any] = []

    def work() -> None:
        for i in range(4):
            answer = world.get(i)
            with condition:
                arrived.append(answer)
                condition.notify_all()

    def has(count: int) -> bool:
        return len(arrived) >= count

    thread = threading.Thread(target=work)
    thread.start()
    for count in range(1, 5):
        with condition:
            seen.append(condition.wait_for(partial(has, count), 0.002))
            seen.append(len(arrived))
    thread.join()
    return seen, arrived


@_synchronous
def as_completed_with_a_timeout(world: World) -> Any:
    seen: list[Any] = []
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(world.get, i) for i in range(4)]
        try:
            for future in completed(futures, timeout=0.002):
                seen.append(future.result())
        except TimeoutError:
            seen.append("time is up")
    return seen, [future.result() for future in futures]


@_synchronous
def timer_threads(world: World) -> Any:
    seen: list[Any] = []
    ring = threading.Timer(0.002, lambda: seen.append(("ring", world.get("ring"))))
    never = threading.Timer(5, seen.append, ["never"])
    ring.start()
    never.start()
    for i in range(4):
        seen.append(world.get(i))
    ring.join()
    never.cancel()
    never.join()
    return seen


# Loops with threads


@_program
async def calls_of_every_kind(world: World) -> Any:
    seen: list[Any] = []

    async def one(i: int) -> Any:
        first = world.get(i)
        second = await asyncio.to_thread(world.get, i)
        third = await asyncio.get_running_loop().run_in_executor(None, world.get, i)
        seen.append((i, second, third))
        return first, await world.aget(i)

    return await asyncio.gather(*(one(i) for i in range(6))), seen


@_program
async def jobs_without_calls(world: World) -> Any:
    """Jobs that end at once: their results may be there before anybody waits for them."""
    seen: list[Any] = []

    async def one(i: int) -> None:
        for step in range(4):
            seen.append(await asyncio.to_thread(divmod, i, step + 1))
        seen.append(await world.aget(i))

    for i in range(4):
        await one(i)
    return seen


@_program
async def executor_against_the_clock(world: World) -> Any:
    world.hesitate()
    seen: list[Any] = []
    for i in range(4):
        job = asyncio.ensure_future(asyncio.to_thread(world.get, i))
        done, _ = await asyncio.wait([job], timeout=NEAR)
        seen.append(bool(done))
        seen.append(await job)
    return seen


@_synchronous
def coroutines_from_a_thread(world: World) -> Any:
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    loop.call_soon(ready.set)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    ready.wait()
    try:
        futures = [asyncio.run_coroutine_threadsafe(world.aget(i), loop) for i in range(4)]
        seen = [future.result() for future in futures]
        seen.append(world.get("here"))
        seen.append(asyncio.run_coroutine_threadsafe(world.aget("there"), loop).result())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
    return seen


@_synchronous
def loops_in_threads(world: World) -> Any:
    seen: dict[int, Any] = {}

    async def main() -> Any:
        return await asyncio.gather(*(world.aget(i) for i in range(3)))

    def work(i: int) -> None:
        seen[i] = [world.get(i), asyncio.run(main()), asyncio.run(main())]

    _run_all([threading.Thread(target=work, args=(i,)) for i in range(3)])
    return sorted(seen.items())


@_program
async def posts_from_threads(world: World) -> Any:
    loop = asyncio.get_running_loop()
    seen: list[Any] = []
    everything = asyncio.Event()

    def arrive(answer: Any) -> None:
        seen.append(answer)
        if len(seen) == 9:
            everything.set()

    def work(i: int) -> None:
        for _ in range(3):
            loop.call_soon_threadsafe(arrive, world.get(i))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for worker in workers:
        worker.start()
    await everything.wait()
    for worker in workers:
        worker.join()
    return seen


@_program
async def anyio_threads(world: World) -> Any:
    seen: list[Any] = []

    async def one(i: int) -> None:
        seen.append(await world.aget(i))
        seen.append(await anyio.to_thread.run_sync(world.get, i))

    async with anyio.create_task_group() as group:
        for i in range(5):
            group.start_soon(one, i)
    return seen


@_program
async def anyio_from_threads(world: World) -> Any:
    seen: list[Any] = []

    def work(i: int) -> None:
        seen.append(world.get(i))
        seen.append(anyio.from_thread.run(world.aget, i))
        anyio.from_thread.run_sync(seen.append, i)

    async with anyio.create_task_group() as group:
        for i in range(3):
            group.start_soon(anyio.to_thread.run_sync, work, i)
    return seen


@_program
async def anyio_thread_that_is_given_up(world: World) -> Any:
    world.hesitate()
    seen: list[Any] = []
    for i in range(4):
        with anyio.move_on_after(NEAR):
            seen.append(await anyio.to_thread.run_sync(world.get, i))
        seen.append(i)
    return seen


# Client libraries


@_program
async def clients_with_tasks_and_threads(world: World) -> Any:
    """A live half that spawns as it likes: none of it takes a number."""

    async def request(i: int) -> Any:
        loop = asyncio.get_running_loop()
        helpers = [asyncio.create_task(asyncio.sleep(0)) for _ in range(world.chance.randint(1, 4))]
        await asyncio.gather(*helpers)
        await loop.run_in_executor(None, pause, 0.0005)
        thread = threading.Thread(target=pause, args=(0.0005,))
        thread.start()
        await asyncio.to_thread(thread.join)
        return await world.alive(i)

    async def one(i: int) -> Any:
        first = await world.session.aio.call(
            "client", {}, lambda: request(i), capability="net.fetch"
        )
        return [first, *await asyncio.gather(world.aget(i), world.aget(i))]

    return await asyncio.gather(*(one(i) for i in range(4)))


@_synchronous
def nested_boundaries(world: World) -> Any:
    """What a live half does at other boundaries is its own business: the outermost wins."""

    def outer(i: int) -> Any:
        with ThreadPoolExecutor(2) as pool:
            inner = list(pool.map(world.living, range(2)))
        return [world.living(i), *inner]

    def call(i: int) -> Any:
        return world.session.call("outer", {}, lambda: outer(i), capability="net.fetch")

    return [call(i) for i in range(3)], world.get("after")


# Streams


@_synchronous
def streams_side_by_side(world: World) -> Any:
    """Each piece is a delivery; some consumers stop early."""
    seen: list[Any] = []

    def pieces(i: int) -> Any:
        for number in range(5):
            yield [world.living(i), number]

    def read(i: int) -> None:
        for count, piece in enumerate(world.session.stream("pieces", {}, lambda: pieces(i))):
            seen.append(piece)
            if i % 2 and count == 2:
                return

    _run_all([threading.Thread(target=read, args=(i,)) for i in range(4)])
    return seen


@_program
async def streams_of_tasks(world: World) -> Any:
    seen: list[Any] = []

    async def pieces(i: int) -> Any:
        for number in range(5):
            yield [await world.alive(i), number]

    async def read(i: int) -> None:
        stream = world.session.aio.stream("pieces", {}, lambda: pieces(i))
        count = 0
        async for piece in stream:
            seen.append(piece)
            count += 1
            if i % 2 and count == 3:
                break

    await asyncio.gather(*(read(i) for i in range(4)))
    return seen
