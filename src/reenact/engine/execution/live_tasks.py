"""Live asynchronous calls: each runs in its own task outside the session.

Its result is delivered to the program's task in turn.

The program's task waits for a single future, both while recording and in a replay, so a
cancellation takes effect at the same moment in both. The loop turns that the live task needs to
unwind after a cancellation are counted, and a replay takes the same number of turns. Loaded
together with ``asyncio``.
"""

from __future__ import annotations

from asyncio import CancelledError, Future, Task, current_task, sleep, wait
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from reenact.engine.codecs import BufferedResponse
from reenact.engine.execution.steps import END, Outcome
from reenact.engine.patches import unpatched_loop
from reenact.engine.scheduling.loop_scheduler import LoopScheduler
from reenact.engine.session.context import context_outside_sessions

__all__ = ["AsyncPump", "is_cancelled", "live_call", "outcome_of", "take_turns"]

_MOST_TURNS = 100
"""More are not counted: something else than the loop is waited for."""


async def live_call(
    loop_scheduler: LoopScheduler,
    live: Callable[[], Awaitable[Any]],
    finish: Callable[[Future[Any]], Any],
    cancelled: Callable[[int], None],
    *,
    paced: bool,
) -> Any:
    """Await ``live()`` and return the result of ``finish(task)`` in its turn.

    If the program cancels the call, the live half is cancelled and awaited. Then ``cancelled`` is
    called with the number of loop turns that this took.
    """
    inner = _start(loop_scheduler, _awaited(live))
    return await _delivered(loop_scheduler, inner, inner, finish, cancelled, paced)


def _start(loop_scheduler: LoopScheduler, coro: Any) -> Task[Any]:
    return unpatched_loop.create_task(
        loop_scheduler.loop, coro, name="reenact live", context=context_outside_sessions()
    )


async def _delivered(
    loop_scheduler: LoopScheduler,
    answer: Future[Any],
    inner: Task[Any],
    finish: Callable[[Future[Any]], Any],
    cancelled: Callable[[int], None],
    paced: bool,
) -> Any:
    done: Future[Any] = loop_scheduler.loop.create_future()

    def take_turn() -> bool:
        if done.done():
            return False
        try:
            done.set_result(finish(answer))
        except BaseException as error:  # noqa: BLE001 - raised where the call is awaited
            done.set_exception(error)
        return True

    def arrived(_: Future[Any]) -> None:
        if paced:
            loop_scheduler.submit(take_turn)
        else:
            take_turn()

    answer.add_done_callback(arrived, context=loop_scheduler.own_context)
    try:
        return await done
    except CancelledError:
        if done.cancelled():
            cancelled(await _unwind(inner, loop_scheduler))
        raise


class AsyncPump:
    """Source of a live asynchronous iterator, which runs in one task of its own."""

    returned = None
    """An asynchronous generator has no return value."""

    def __init__(
        self, loop_scheduler: LoopScheduler, live: Callable[[], AsyncIterator[Any]], *, paced: bool
    ) -> None:
        self._loop_scheduler = loop_scheduler
        self._live = live
        self._paced = paced
        self._asked: Future[Future[Any]] = loop_scheduler.loop.create_future()
        self._task = _start(loop_scheduler, self._run())

    async def next(
        self, finish: Callable[[Future[Any]], Any], cancelled: Callable[[int], None]
    ) -> Any:
        """Return ``finish(piece)`` in its turn, see :func:`live_call`; ``END`` is the last piece."""
        answer: Future[Any] = self._loop_scheduler.loop.create_future()
        self._asked.set_result(answer)
        return await _delivered(
            self._loop_scheduler, answer, self._task, finish, cancelled, self._paced
        )

    async def close_async(self) -> None:
        """Cancel the iterator and wait for its end."""
        if not self._task.done():
            await _unwind(self._task, self._loop_scheduler)

    async def _run(self) -> None:
        answer = await self._asked
        pieces: Any = None
        try:
            pieces = self._live()
            iterator = aiter(pieces)
            while (piece := await anext(iterator, END)) is not END:
                _settle(answer, piece)
                if isinstance(piece, BufferedResponse):
                    return
                self._asked = self._loop_scheduler.loop.create_future()
                answer = await self._asked
            _settle(answer, END)
        except CancelledError:
            answer.cancel()
            raise
        except BaseException as error:  # noqa: BLE001 - raised where the piece is awaited
            if not answer.done():
                answer.set_exception(error)
        finally:
            if hasattr(pieces, "aclose"):
                await pieces.aclose()


def _settle(answer: Future[Any], piece: Any) -> None:
    if not answer.done():
        answer.set_result(piece)


async def _awaited(live: Callable[[], Awaitable[Any]]) -> Any:
    return await live()  # a task needs a coroutine, and an awaitable can be something else


async def _unwind(inner: Task[Any], loop_scheduler: LoopScheduler) -> int:
    """Cancel the live half of a call and wait for its end. Until then the loop is not quiescent.

    Return the number of loop turns that this took.
    """
    turns = 0
    inner.cancel()
    loop_scheduler.unwinding += 1
    try:
        while not inner.done():
            turns += 1
            try:
                await (sleep(0) if turns < _MOST_TURNS else wait([inner]))
            except CancelledError:
                continue  # asked again; the live half is on its way out already
    finally:
        loop_scheduler.unwinding -= 1
    if not inner.cancelled():
        inner.exception()  # retrieved, to avoid the warning of asyncio
    return turns


def outcome_of(inner: Future[Any]) -> Outcome:
    """Return the result of a future that is done, or its exception."""
    try:
        return Outcome(inner.result())
    except BaseException as error:  # noqa: BLE001 - raised where the program waits
        return Outcome(error=error)


def is_cancelled(error: BaseException) -> bool:
    """Return whether the task was cancelled, rather than its awaitable raising the error."""
    task = current_task()
    return isinstance(error, CancelledError) and task is not None and bool(task.cancelling())


async def take_turns(turns: int) -> None:
    """Let as many loop turns pass as the live half of a recorded call took to unwind."""
    for _ in range(min(turns, _MOST_TURNS)):
        try:
            await sleep(0)
        except CancelledError:
            continue
