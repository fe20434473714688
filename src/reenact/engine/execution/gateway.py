"""Gateway between boundaries and the engine: carries out the decision about a call.

Two thin shells, one for threads (``call``) and one for tasks (``acall``). Both take a call and
the function that makes it live, and return or raise what the program receives. A fork with a
changed result serves that preset result instead of a live call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from reenact.engine._lazy import lazy_module
from reenact.engine.call import Call, Decision, Entry, GoLive, Pass, Reexecute, Refuse, Serve
from reenact.engine.codecs import (
    PLAIN_CODEC,
    ResultCodec,
    StreamCodec,
    dump_exception,
    error_fields,
    result_field,
)
from reenact.engine.draws import synthetic_value
from reenact.engine.execution.ports import ExecutingSession
from reenact.engine.execution.stream_chunks import raise_recorded, returned
from reenact.engine.recording.budget import is_full_refusal
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.scheduling.delivery_order import DeliveryToken
from reenact.engine.scheduling.waiters import Waiter
from reenact.engine.session.context import OUTSIDE, enter_session, leave_session
from reenact.errors import BudgetExceeded, PolicyRefused, ToolNotRecorded
from reenact.format.event import Data


def preset_result(call: Call, data: Data, codec: ResultCodec) -> Callable[[], Any]:
    """Return a live function that gives the result in ``data``, a completing event."""

    def live() -> Any:
        error = data.get("error")
        if error is not None:
            raise codec.load_error(call, error)
        return codec.load(call, data)

    return live


def preset_result_async(call: Call, data: Data, codec: ResultCodec) -> Callable[[], Awaitable[Any]]:
    """Async variant of :func:`preset_result`."""
    known = preset_result(call, data, codec)

    async def live() -> Any:
        return known()

    return live


def preset_stream(
    call: Call, data: Data, codec: StreamCodec
) -> Callable[[], Generator[Any, Any, Any]]:
    """Variant of :func:`preset_result` for a stream."""

    def live() -> Generator[Any, Any, Any]:
        yield from codec.load(data.get(result_field(call)))
        raise_recorded(codec, call, data)
        return returned(call, data)

    return live


def preset_stream_async(
    call: Call, data: Data, codec: StreamCodec
) -> Callable[[], AsyncIterator[Any]]:
    """Async variant of :func:`preset_stream`."""

    async def live() -> AsyncIterator[Any]:
        for piece in codec.load(data.get(result_field(call))):
            yield piece
        raise_recorded(codec, call, data)

    return live


if TYPE_CHECKING:
    import asyncio

    from reenact.engine.execution import live_tasks
    from reenact.engine.scheduling.loop_scheduler import LoopScheduler
else:
    asyncio, live_tasks = lazy_module("asyncio"), lazy_module("reenact.engine.execution.live_tasks")

__all__ = [
    "Gateway",
    "GatewaySession",
    "preset_stream",
    "preset_stream_async",
]

Live = Callable[[], Any]
AsyncLive = Callable[[], Awaitable[Any]]


class Gateway:
    """One session's way in for boundaries. ``call`` and ``acall`` take a call and the function
    that makes it for real; they return or raise what the program gets."""

    def __init__(self, session: ExecutingSession) -> None:
        self._session = session

    # Threads

    def call(self, call: Call, live: Live, codec: ResultCodec = PLAIN_CODEC) -> Any:
        """Answer ``call`` from the recording, or make it and record it, or refuse it."""
        if self._session.mode == "off" or self._session.is_late():
            return self._outside(live)
        decision, opened = self._session.decisions.decide(call, blocks=True, serves_now=True)
        return self.carry_out(decision, opened, live, codec)

    def carry_out(
        self, decision: Decision, opened: InFlightCall, live: Live, codec: ResultCodec
    ) -> Any:
        """Carry out a decision; second half of :meth:`call`."""
        if isinstance(decision, Serve):
            data = self._take_turn(opened, decision)
            return self.answer(opened, data, codec)
        if isinstance(decision, GoLive):
            if decision.answer is not None:
                live = preset_result(opened.call, decision.answer, codec)
            return self._go_live(opened, live, codec)
        if isinstance(decision, Pass):
            return live() if decision.inside else self._pass_by(live)
        if isinstance(decision, Reexecute):
            return self._run_again(opened, decision.entry, live, codec)
        return self.refuse(opened, decision)

    def _take_turn(self, opened: InFlightCall, served: Serve) -> Data | None:
        """Wait until the recorded answer may be handed over; None for an observation."""
        session, entry = self._session, served.entry
        if served.delivered:
            assert entry.closing is not None
            return entry.closing.data
        token, data = session.in_flight.claim(opened, entry)
        if data is not None and session.in_flight.keep(opened, data):
            self._complete(opened, data)
        elif (
            not opened.call.instant and session.tracks_order and not session.in_flight.is_now(token)
        ):
            session.scheduler.wait(self._waiter(opened, token))
        return data

    def _waiter(self, opened: InFlightCall, token: DeliveryToken | None) -> Waiter:
        return Waiter(
            token,
            opened.lane.name,
            self._session.runner(),
            ask=lambda: self._session.machine.ask(opened.call, opened.key, opened.lane.name),
        )

    def answer(self, opened: InFlightCall, data: Data | None, codec: ResultCodec) -> Any:
        """Return or raise the recorded result in ``data``."""
        call = opened.call
        if data is None:
            return None
        recorded = data.get("error")
        if recorded is None:
            return None if call.observed else codec.load(call, data)
        error = codec.load_error(call, recorded)
        if call.returns_failure and not isinstance(error, PolicyRefused):
            return codec.load(call, data)
        if call.observed and not isinstance(error, PolicyRefused):
            return None
        if is_full_refusal(error):
            self._session.full = error  # type: ignore[assignment]
        raise error

    def _go_live(self, opened: InFlightCall, live: Live, codec: ResultCodec) -> Any:
        session = self._session
        session.in_flight.begin(opened)
        try:
            result = self._live(opened, live)
        except BaseException as error:
            data = session.recorder.completing(opened, self._failure(opened, error, codec))
            self._complete(opened, data)
            raise
        data, refusal = self._completing(opened, result, codec)
        # As in _complete, without its frame: this is the path of every recorded call.
        write = partial(session.in_flight.complete, opened, data)
        if session.tracks_order and not opened.call.instant:
            session.scheduler.hand_over(session.runner(), write)
        else:
            write()
        if refusal is not None:
            raise refusal
        return codec.returned(opened.call, result, data)

    def _live(self, opened: InFlightCall, live: Live) -> Any:
        if opened.inner is None:
            return self._outside(live)
        with self._session.in_flight.in_lane(opened):
            return live()

    def _outside(self, live: Live) -> Any:
        token = enter_session(OUTSIDE)
        try:
            return live()
        finally:
            leave_session(token)

    def _pass_by(self, live: Live) -> Any:
        with self._session.scheduler.going_outside():
            return self._outside(live)

    def _complete(self, opened: InFlightCall, data: Data) -> None:
        session = self._session
        write = partial(session.in_flight.complete, opened, data)
        if session.tracks_order and not opened.call.instant:
            session.scheduler.hand_over(session.runner(), write)
        else:
            write()

    def _completing(
        self, opened: InFlightCall, result: Any, codec: ResultCodec
    ) -> tuple[Data, BudgetExceeded | None]:
        """Return the completing event, or the event of a refusal if the result is over budget."""
        recorder = self._session.recorder
        try:
            data = recorder.completing(opened, codec.dump(opened.call, result))
        except BaseException as error:
            failed = recorder.completing(opened, self._failure(opened, error, PLAIN_CODEC))
            self._session.in_flight.complete(opened, failed)
            raise
        with self._session.lock:
            refusal = recorder.budget.over_budget(data)
        if refusal is not None:
            data = self._refused(opened, refusal)
        return data, refusal

    def _refused(self, opened: InFlightCall, error: PolicyRefused) -> Data:
        """The completing event of a refusal; a full recording does not take a large request."""
        fields = error_fields(opened.call, dump_exception(error))
        return self._session.recorder.completing(opened, fields, brief=is_full_refusal(error))

    def _failure(self, opened: InFlightCall, error: BaseException, codec: ResultCodec) -> Data:
        return error_fields(opened.call, codec.dump_error(opened.call, error))

    def _run_again(self, opened: InFlightCall, entry: Entry, live: Live, codec: ResultCodec) -> Any:
        """The code of the call runs again in its lane; what it calls is served from there."""
        session = self._session
        token, recorded = session.in_flight.claim(opened, entry, stub=False)
        kept = recorded is not None and session.in_flight.keep(opened, recorded)
        error: BaseException | None = None
        result: Any = None
        try:
            with session.in_flight.in_lane(opened):
                result = live()
            fields = codec.dump(opened.call, result)
        except Exception as failure:  # noqa: BLE001 - compared with the recorded one, raised below
            error, fields = failure, self._failure(opened, failure, codec)
        if kept:
            self._complete(opened, session.in_flight.kept_or_new(opened, fields))
        else:
            if session.tracks_order and not session.in_flight.is_now(token):
                session.scheduler.wait(self._waiter(opened, token))
            session.reporter.compare_result(opened, entry, fields, recorded)
        if error is not None:
            raise error
        return codec.returned(opened.call, result, fields)

    def refuse(self, opened: InFlightCall, refusal: Refuse) -> Any:
        """Write the refusal down and raise it. A lenient draw gets a derived value instead."""
        session = self._session
        if refusal.error is not None:
            self._note_refusal(opened, refusal, refusal.error)
            raise session.redacted(refusal.error)
        assert refusal.divergence is not None
        if not session.machine.strict and opened.call.draws:
            value = synthetic_value(opened.call, session.run_seed, opened.lane, session.last_clock)
            if value is not None:
                if opened.call.source == "clock":
                    session.last_clock = value
                return value
        if not session.machine.strict and opened.call.type == "tool_call":
            name = session.redacted_text(opened.call.operation)
            raise ToolNotRecorded(name, refusal.divergence)
        raise session.reporter.diverged(refusal.divergence)

    def _note_refusal(self, opened: InFlightCall, refusal: Refuse, error: PolicyRefused) -> None:
        session = self._session
        if refusal.entry is not None:
            self._step_over(opened, refusal.entry)
        elif session.writes and session.decisions.is_recorded(opened.call, refusal):
            session.in_flight.begin(opened, brief=is_full_refusal(error))
            session.in_flight.complete(opened, self._refused(opened, error))

    def _step_over(self, opened: InFlightCall, entry: Entry) -> None:
        """Keep a recorded result that the program does not wait for, or skip its delivery."""
        session = self._session
        token, data = session.in_flight.claim(opened, entry)
        if data is not None and session.in_flight.keep(opened, data):
            session.in_flight.complete(opened, data)
        elif token is not None:
            session.scheduler.skip(token)

    def close(self, opened: InFlightCall, data: Data) -> None:
        """Complete a call that the program made itself. Raises if its result is over budget."""
        session = self._session
        with session.lock:
            refusal = session.recorder.budget.over_budget(data)
        session.in_flight.complete(
            opened, data if refusal is None else self._refused(opened, refusal)
        )
        if refusal is not None:
            raise refusal

    def observe(self, decision: Decision, opened: InFlightCall) -> Entry | None:
        """Begin a call that the program makes itself; return the recorded one, if there is one."""
        session = self._session
        if isinstance(decision, (Serve, Reexecute)):
            self._step_over(opened, decision.entry)
            return decision.entry
        if isinstance(decision, GoLive):
            session.in_flight.begin(opened)
        elif isinstance(decision, Refuse):
            self.refuse(opened, decision)
        return None

    # Tasks

    async def acall(self, call: Call, live: AsyncLive, codec: ResultCodec = PLAIN_CODEC) -> Any:
        """Async variant of :meth:`call`. ``live`` runs in a task of its own, in no session."""
        if self._session.mode == "off" or self._session.is_late():
            return await live()
        decision, opened = self._session.decisions.decide(call, blocks=False)
        return await self.carry_out_async(decision, opened, live, codec)

    async def carry_out_async(
        self, decision: Decision, opened: InFlightCall, live: AsyncLive, codec: ResultCodec
    ) -> Any:
        """Carry out a decision; second half of :meth:`acall`."""
        if isinstance(decision, Serve):
            data = await self._take_turn_async(opened, decision)
            return self.answer(opened, data, codec)
        if isinstance(decision, GoLive):
            if decision.answer is not None:
                live = preset_result_async(opened.call, decision.answer, codec)
            return await self._go_live_async(opened, live, codec)
        if isinstance(decision, Pass):
            return await (live() if decision.inside else self._pass_by_async(live))
        if isinstance(decision, Reexecute):
            return await self._run_again_async(opened, decision.entry, live, codec)
        return self.refuse(opened, decision)

    async def _pass_by_async(self, live: AsyncLive) -> Any:
        session = self._session
        with session.scheduler.going_outside():
            return await live_tasks.live_call(
                session.running_loop_scheduler(),
                live,
                asyncio.Future.result,
                lambda _: None,
                paced=False,
            )

    async def _take_turn_async(self, opened: InFlightCall, served: Serve) -> Data | None:
        session = self._session
        token, data = session.in_flight.claim(opened, served.entry)
        if data is not None and session.in_flight.keep(opened, data):
            await self._complete_or_cancel(opened, data)
        elif session.tracks_order and not opened.call.instant:
            await self._wait_async(opened, served.entry, token)
        return data

    async def _complete_or_cancel(self, opened: InFlightCall, data: Data) -> None:
        session = self._session
        try:
            await self._complete_async(opened, data, session.running_loop_scheduler())
        except asyncio.CancelledError:
            session.in_flight.complete(opened, session.in_flight.unanswered(opened, "cancelled"))
            raise

    async def _wait_async(
        self, opened: InFlightCall, entry: Entry, token: DeliveryToken | None
    ) -> None:
        session = self._session
        try:
            await session.running_loop_scheduler().wait(self._waiter(opened, token))
        except asyncio.CancelledError:
            if token is None:
                await live_tasks.take_turns(_turns(entry))
            else:  # it was answered in the recording, and not cancelled
                session.reporter.cancelled_early(opened, entry)
            raise

    async def _go_live_async(
        self, opened: InFlightCall, live: AsyncLive, codec: ResultCodec
    ) -> Any:
        if opened.inner is not None:
            return await self._run_tool_async(opened, live, codec)
        session = self._session
        session.in_flight.begin(opened)

        def finish(inner: asyncio.Future[Any]) -> Any:
            """In our turn: write what the live half came to, and return or raise it."""
            try:
                result = inner.result()
            except BaseException as error:
                failed = session.recorder.completing(opened, self._failure(opened, error, codec))
                session.in_flight.complete(opened, failed)
                raise
            data, refusal = self._completing(opened, result, codec)
            session.in_flight.complete(opened, data)
            if refusal is not None:
                raise refusal
            return codec.returned(opened.call, result, data)

        def cancelled(turns: int) -> None:
            session.in_flight.complete(
                opened, session.in_flight.unanswered(opened, "cancelled", turns=turns)
            )

        paced = session.tracks_order and not opened.call.instant
        return await live_tasks.live_call(
            session.running_loop_scheduler(), live, finish, cancelled, paced=paced
        )

    async def _run_tool_async(
        self, opened: InFlightCall, live: AsyncLive, codec: ResultCodec
    ) -> Any:
        """A tool runs in its caller's task, in a lane of its own."""
        session = self._session
        session.in_flight.begin(opened)
        loop_scheduler = session.running_loop_scheduler()
        try:
            with session.in_flight.in_lane(opened):
                result = await live()
            data, refusal = self._completing(opened, result, codec)
            await self._complete_async(opened, data, loop_scheduler)
        except BaseException as error:
            await self._fail_async(opened, error, codec, loop_scheduler)
            raise
        if refusal is not None:
            raise refusal
        return codec.returned(opened.call, result, data)

    async def _fail_async(
        self,
        opened: InFlightCall,
        error: BaseException,
        codec: ResultCodec,
        loop_scheduler: LoopScheduler,
    ) -> None:
        """Write how a tool failed, or that it was cancelled, unless it is written already."""
        session = self._session
        if not session.in_flight.is_open(opened):
            return
        if not live_tasks.is_cancelled(error):
            failed = session.recorder.completing(opened, self._failure(opened, error, codec))
            try:
                await self._complete_async(opened, failed, loop_scheduler)
            except asyncio.CancelledError:
                session.in_flight.complete(
                    opened, session.in_flight.unanswered(opened, "cancelled")
                )
                raise
        else:
            session.in_flight.complete(opened, session.in_flight.unanswered(opened, "cancelled"))

    async def _complete_async(
        self, opened: InFlightCall, data: Data, loop_scheduler: LoopScheduler
    ) -> None:
        session = self._session
        if session.tracks_order and not opened.call.instant:
            await loop_scheduler.hand_over(lambda: session.in_flight.complete(opened, data))
        else:
            session.in_flight.complete(opened, data)

    async def _run_again_async(
        self, opened: InFlightCall, entry: Entry, live: AsyncLive, codec: ResultCodec
    ) -> Any:
        session = self._session
        token, recorded = session.in_flight.claim(opened, entry, stub=False)
        kept = recorded is not None and session.in_flight.keep(opened, recorded)
        error: BaseException | None = None
        result: Any = None
        try:
            with session.in_flight.in_lane(opened):
                result = await live()
            fields = codec.dump(opened.call, result)
        except Exception as failure:  # noqa: BLE001 - compared with the recorded one, raised below
            error, fields = failure, self._failure(opened, failure, codec)
        if kept:
            await self._complete_or_cancel(opened, session.in_flight.kept_or_new(opened, fields))
        else:
            if session.tracks_order:
                await self._wait_async(opened, entry, token)
            session.reporter.compare_result(opened, entry, fields, recorded)
        if error is not None:
            raise error
        return codec.returned(opened.call, result, fields)


def _turns(entry: Entry) -> int:
    """Return the recorded number of loop turns until a cancelled call had unwound."""
    timing = entry.closing.data.get("timing") if entry.closing is not None else None
    turns = timing.get("turns") if isinstance(timing, dict) else None
    return turns if isinstance(turns, int) else 0


class GatewaySession(ExecutingSession, Protocol):
    """A session together with its gateway."""

    gateway: Gateway
