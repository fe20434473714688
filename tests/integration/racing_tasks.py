"""Programs of tasks: the ways in which asyncio and anyio spawn, wait, give up and cancel."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import anyio

from tests.integration.racing import NEAR, Program, World

__all__ = ["PROGRAMS"]

PROGRAMS: list[Program] = []
"""Each is a function of the world; its result must be the same in every replay."""


def _synchronous(program: Program) -> Program:
    PROGRAMS.append(program)
    return program


def _program(main: Callable[[World], Awaitable[Any]]) -> Program:
    """A coroutine function that is the whole program."""

    @wraps(main)
    def run(world: World) -> Any:
        return asyncio.run(main(world))  # type: ignore[arg-type]

    PROGRAMS.append(run)
    return run


async def _outcome(awaitable: Awaitable[Any]) -> Any:
    try:
        return await awaitable
    except TimeoutError:
        return "time is up"


# Spawning and waiting


@_program
async def gather(world: World) -> Any:
    return await asyncio.gather(*(world.aget(i) for i in range(8)))


@_program
async def completion_order(world: World) -> Any:
    seen: list[Any] = []

    async def one(i: int) -> None:
        seen.append(await world.aget(i))
        seen.append(await world.aget(i))

    await asyncio.gather(*(one(i) for i in range(6)))
    return seen


@_program
async def as_completed(world: World) -> Any:
    return [await one for one in asyncio.as_completed([world.aget(i) for i in range(8)])]


@_program
async def first_completed(world: World) -> Any:
    seen = []
    pending = {asyncio.create_task(world.aget(i)) for i in range(8)}
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        seen.append([task.result() for task in done])
    return seen


@_program
async def sets_of_tasks(world: World) -> Any:
    done, _ = await asyncio.wait([asyncio.create_task(world.aget(i)) for i in range(9)])
    return [task.result() for task in done]


@_program
async def task_group(world: World) -> Any:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(world.aget(i)) for i in range(6)]
    return [task.result() for task in tasks]


@_program
async def nested_groups(world: World) -> Any:
    seen = []

    async def branch(depth: int) -> None:
        seen.append((depth, await world.aget(depth)))
        if depth:
            async with asyncio.TaskGroup() as group:
                for _ in range(2):
                    group.create_task(branch(depth - 1))

    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(branch(2))
    return seen


@_program
async def failing_group(world: World) -> Any:
    seen = []

    async def one(i: int) -> None:
        try:
            seen.append(await world.aget(i))
        except asyncio.CancelledError:
            seen.append(("cancelled", i))
            raise
        if i == 3:
            raise ValueError("three")

    try:
        async with asyncio.TaskGroup() as group:
            for i in range(6):
                group.create_task(one(i))
    except* ValueError as errors:
        seen.append(str(errors.exceptions[0]))
    return seen


@_program
async def fifty_identical_calls(world: World) -> Any:
    return await asyncio.gather(*(world.aget(i) for i in range(50)))


@_program
async def two_answers_in_one_select(world: World) -> Any:
    """Both live halves end in the same turn of the loop; the loser is cancelled."""
    seen = []
    for _ in range(6):
        both = asyncio.Event()

        async def live(tag: int, both: asyncio.Event = both) -> Any:
            if tag:
                both.set()
            await both.wait()
            return [tag, world.chance.random()]

        def call(tag: int, live: Callable[[int], Any] = live) -> Any:
            return world.session.aio.call("pair", {}, lambda: live(tag), capability="net.fetch")

        pair = [asyncio.create_task(call(tag)) for tag in (0, 1)]
        done, pending = await asyncio.wait(pair, return_when=asyncio.FIRST_COMPLETED)
        seen.append((len(done), [task.result() for task in done]))
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    return seen


@_program
async def tasks_with_a_context(world: World) -> Any:
    variable = contextvars.ContextVar("variable", default=0)
    contexts = [contextvars.copy_context() for _ in range(4)]
    for i, context in enumerate(contexts):
        context.run(variable.set, i)

    async def one() -> Any:
        return variable.get(), await world.aget(variable.get())

    tasks = [asyncio.create_task(one(), context=context) for context in contexts]
    foreign = contextvars.Context()
    tasks.append(asyncio.create_task(one(), context=foreign))
    return await asyncio.gather(*tasks)


@_program
async def own_task_factory(world: World) -> Any:
    loop = asyncio.get_running_loop()
    made: list[int] = []

    def factory(loop: Any, coro: Any, **kwargs: Any) -> Any:
        made.append(len(made))
        return asyncio.Task(coro, loop=loop, **kwargs)

    loop.set_task_factory(factory)
    return await asyncio.gather(*(world.aget(i) for i in range(4))), made


if sys.version_info >= (3, 12):

    @_program
    async def eager_tasks(world: World) -> Any:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        seen = []

        async def one(i: int) -> Any:
            seen.append((i, await world.aget(i)))
            seen.append(await asyncio.gather(world.aget(i), world.aget(i)))

        await asyncio.gather(*(one(i) for i in range(4)))
        return seen


# Loops


@_synchronous
def several_runs(world: World) -> Any:
    async def main() -> Any:
        return [await world.aget("first"), *await asyncio.gather(world.aget(), world.aget())]

    return [world.get("before"), asyncio.run(main()), asyncio.run(main()), world.get("after")]


@_synchronous
def runner(world: World) -> Any:
    async def main() -> Any:
        return await asyncio.gather(*(world.aget(i) for i in range(3)))

    with asyncio.Runner() as runner:
        return [runner.run(main()), runner.run(world.aget()), runner.run(main())]


@_synchronous
def run_until_complete(world: World) -> Any:
    loop = asyncio.new_event_loop()

    async def main() -> Any:
        return await asyncio.gather(*(world.aget(i) for i in range(3)))

    try:
        return [loop.run_until_complete(main()), loop.run_until_complete(world.aget())]
    finally:
        loop.close()


@_synchronous
def tasks_before_the_loop_runs(world: World) -> Any:
    loop = asyncio.new_event_loop()
    seen: list[Any] = []

    async def one(i: int) -> None:
        seen.append(await world.aget(i))

    tasks = [loop.create_task(one(i)) for i in range(4)]
    loop.call_later(0.002, seen.append, "timer")
    try:
        loop.run_until_complete(asyncio.wait(tasks))
        loop.run_until_complete(asyncio.sleep(0.003))
    finally:
        loop.close()
    return seen


# Timers, and giving up


@_program
async def polling(world: World) -> Any:
    seen: list[Any] = []

    async def poll() -> None:
        while True:
            await asyncio.sleep(0.002)
            seen.append("tick")

    poller = asyncio.create_task(poll())
    for i in range(6):
        seen.append(await world.aget(i))
    poller.cancel()
    return seen


@_program
async def wait_for(world: World) -> Any:
    world.hesitate()
    return [await _outcome(asyncio.wait_for(world.aget(i), NEAR)) for i in range(4)]


@_program
async def timeout(world: World) -> Any:
    world.hesitate()
    seen: list[Any] = []
    for i in range(4):
        try:
            async with asyncio.timeout(NEAR):
                seen.append(await world.aget(i))
                seen.append(await world.aget(i))
        except TimeoutError:
            seen.append("time is up")
    return seen


@_program
async def timeouts_side_by_side(world: World) -> Any:
    """Many races end within the same millisecond."""
    world.hesitate()
    seen: list[Any] = []

    async def one(i: int) -> None:
        for _ in range(2):
            seen.append((i, await _outcome(asyncio.wait_for(world.aget(i), NEAR))))

    await asyncio.gather(*(one(i) for i in range(12)))
    return seen


@_program
async def rescheduled_timeout(world: World) -> Any:
    world.hesitate()
    seen: list[Any] = []
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(NEAR) as scope:
            for i in range(6):
                scope.reschedule(loop.time() + NEAR)
                seen.append(await world.aget(i))
    except TimeoutError:
        seen.append("time is up")
    return seen


@_program
async def loop_clock(world: World) -> Any:
    """What the loop's clock says never goes back, and a deadline is past when its timer fires."""
    loop = asyncio.get_running_loop()
    seen: list[Any] = []
    times = [loop.time()]
    for i in range(4):
        deadline = loop.time() + 0.002
        await asyncio.gather(asyncio.sleep(0.002), world.aget(i))
        times.append(loop.time())
        seen.append(times[-1] >= deadline)
    return seen, times == sorted(times)


@_program
async def cancelling(world: World) -> Any:
    seen: list[Any] = []

    async def one(i: int) -> None:
        try:
            seen.append(await world.aget(i))
        except asyncio.CancelledError:
            seen.append(("cancelled", i))
            seen.append(await world.aget("clean-up"))
            raise

    tasks = [asyncio.create_task(one(i)) for i in range(5)]
    await asyncio.sleep(0.002)
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    return seen, [type(result).__name__ for result in results]


@_program
async def shield(world: World) -> Any:
    world.hesitate()
    seen: list[Any] = []
    for i in range(4):
        inner = asyncio.create_task(world.aget(i))
        seen.append(await _outcome(asyncio.wait_for(asyncio.shield(inner), NEAR)))
        seen.append(await inner)
    return seen


@_program
async def first_wins(world: World) -> Any:
    """The losers of each round are cancelled while their live halves are under way."""
    seen = []
    for _ in range(4):
        tasks = [asyncio.create_task(world.aget(i)) for i in range(4)]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        seen.append([task.result() for task in done])
    return seen


@_program
async def queues_between_tasks(world: World) -> Any:
    queue: asyncio.Queue[Any] = asyncio.Queue(2)
    seen: list[Any] = []

    async def produce(i: int) -> None:
        for _ in range(3):
            await queue.put(await world.aget(i))

    async def consume(name: str) -> None:
        while True:
            seen.append((name, await queue.get()))
            queue.task_done()

    consumers = [asyncio.create_task(consume(name)) for name in "ab"]
    await asyncio.gather(*(produce(i) for i in range(4)))
    await queue.join()
    for consumer in consumers:
        consumer.cancel()
    return seen


@_program
async def locks_between_tasks(world: World) -> Any:
    lock, slots = asyncio.Lock(), asyncio.Semaphore(2)
    seen: list[Any] = []

    async def one(i: int) -> None:
        async with slots:
            first = await world.aget(i)
            async with lock:
                seen.append((first, await world.aget(i)))

    await asyncio.gather(*(one(i) for i in range(6)))
    return seen


# anyio


@_program
async def anyio_groups(world: World) -> Any:
    seen: list[Any] = []

    async def one(i: int) -> None:
        seen.append(await world.aget(i))

    async with anyio.create_task_group() as outer:
        for i in range(4):
            outer.start_soon(one, i)
        async with anyio.create_task_group() as inner:
            for i in range(4):
                inner.start_soon(one, i)
        seen.append("inner")
    return seen


@_program
async def anyio_fail_after(world: World) -> Any:
    world.hesitate()
    seen: list[Any] = []
    for i in range(4):
        try:
            with anyio.fail_after(NEAR):
                seen.append(await world.aget(i))
        except TimeoutError:
            seen.append("time is up")
    return seen


@_program
async def anyio_move_on_after(world: World) -> Any:
    world.hesitate()
    seen: list[Any] = []

    async def one(i: int) -> None:
        with anyio.move_on_after(NEAR) as scope:
            seen.append(await world.aget(i))
            seen.append(await world.aget(i))
        seen.append((i, scope.cancelled_caught))

    async with anyio.create_task_group() as group:
        for i in range(5):
            group.start_soon(one, i)
    return seen


@_program
async def anyio_cancel_scope(world: World) -> Any:
    """The first one cancels all the others."""
    seen: list[Any] = []

    async def one(i: int, group: anyio.abc.TaskGroup) -> None:
        seen.append(await world.aget(i))
        group.cancel_scope.cancel()

    for _ in range(3):
        async with anyio.create_task_group() as group:
            for i in range(4):
                group.start_soon(one, i, group)
    return seen
