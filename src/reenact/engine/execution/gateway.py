"""Gateway between boundaries and the engine: carries out the decision about a call.

The core is written once: ``Gateway.steps`` returns a generator that does everything that needs no
waiting, and yields a step of :mod:`.steps` for everything else. Two thin shells perform the steps:
:meth:`Gateway.run` for threads and :meth:`Gateway.run_async` for tasks. They return or raise what
the program receives::

    call ─> recorded and its turn now? ──yes──> result, without any step
              │ no: decide
              ├─ Serve ──────> WaitForTurn, or HandOver if an update keeps the call ──> result
              ├─ GoLive ─────> LiveCall; a tool: RunTool ─> HandOver ─────────────────> result
              ├─ Reexecute ──> RunTool ─> WaitForTurn | HandOver ─> compare ──────────> result
              ├─ Pass ───────> PassThrough ───────────────────────────────────────────> result
              └─ Refuse ─────> error, or a synthetic value

A fork with a changed result uses that preset result instead of a live call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from reenact.engine._lazy import lazy_module
from reenact.engine.call import Call, Decision, Entry, GoLive, Pass, Reexecute, Refuse, Serve
from reenact.engine.codecs import (
    PLAIN_CODEC,
    BufferedResponse,
    ResultCodec,
    dump_exception,
    error_fields,
)
from reenact.engine.draws import synthetic_value
from reenact.engine.execution.ports import ExecutingSession
from reenact.engine.execution.steps import (
    Delay,
    HandOver,
    LiveCall,
    Outcome,
    PassThrough,
    RunTool,
    ServeNow,
    Steps,
    WaitForTurn,
)
from reenact.engine.lanes import Lane
from reenact.engine.recording.budget import is_full_refusal
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.scheduling.waiters import Waiter
from reenact.engine.session.context import OUTSIDE, enter_session, leave_session
from reenact.errors import PolicyRefused, ToolNotRecorded
from reenact.format.event import Data

if TYPE_CHECKING:
    import asyncio

    from reenact.engine.execution import live_tasks
else:
    asyncio, live_tasks = lazy_module("asyncio"), lazy_module("reenact.engine.execution.live_tasks")

__all__ = ["Gateway", "GatewaySession"]

AsyncLive = Callable[[], Awaitable[Any]]


class Gateway:
    """Entry point of boundaries into one session.

    ``call`` and ``acall`` take a call and the function that makes it live. They return or raise
    what the program receives.
    """

    def __init__(self, session: ExecutingSession) -> None:
        self._session = session

    def call(self, call: Call, live: Callable[[], Any], codec: ResultCodec = PLAIN_CODEC) -> Any:
        """Return the recorded result of ``call``, or make it and record it, or refuse it."""
        if self._session.mode == "off" or self._session.is_late():
            return self.outside(live)
        session = self._session
        if session.replays_order and call.is_simple:
            entry = session.decisions.serve_now(call)
            if entry is not None and entry.closing is not None:
                return codec.load(call, entry.closing.data)
        decision, opened = session.decisions.decide(call, blocks=True)
        return self.run(self.steps(decision, opened, live, codec))

    async def acall(self, call: Call, live: AsyncLive, codec: ResultCodec = PLAIN_CODEC) -> Any:
        """Async variant of :meth:`call`. ``live`` runs in a task of its own, in no session."""
        if self._session.mode == "off" or self._session.is_late():
            return await live()
        session = self._session
        if session.replays_order and call.is_simple:
            entry = await session.running_loop_scheduler().serve_now(call)
            if entry is not None and entry.closing is not None:
                return codec.load(call, entry.closing.data)
        decision, opened = session.decisions.decide(call, blocks=False)
        return await self.run_async(self.steps(decision, opened, live, codec))

    # Shell for threads

    def run(self, steps: Steps) -> Any:
        """Perform ``steps`` in this thread. Return or raise the outcome of the call."""
        session = self._session
        reply: Any = None
        try:
            while True:
                step = steps.send(reply)
                reply, data = None, None
                if isinstance(step, HandOver):
                    data, opened = step.data, step.opened
                elif isinstance(step, LiveCall):
                    opened = step.opened
                    reply = self._finish(opened, step.codec, self._attempt_outside(step))
                    data = reply[0]
                elif isinstance(step, WaitForTurn):
                    if not session.in_flight.is_now(step.token):
                        session.scheduler.wait(self._waiter(step))
                elif isinstance(step, ServeNow):
                    reply = session.decisions.serve_now(step.call)
                elif isinstance(step, RunTool):
                    with session.lanes.inside(Lane(step.inner)):
                        reply = _attempt(step.live)
                elif isinstance(step, PassThrough):
                    if step.inside:
                        reply = _attempt(step.live)
                    else:
                        with session.scheduler.going_outside():
                            reply = self._attempt_outside(step)
                elif isinstance(step, Delay):
                    step.pace.wait()
                else:
                    reply = Outcome(step.stream.pieces(step.live))
                if data is not None:
                    # The lock is held from the turn to the end of the event, so that events are
                    # written in the order of the turns.
                    with session.lock:
                        ordered = session.tracks_order and not opened.call.instant
                        runner = session.runner() if ordered else 0
                        if ordered:
                            session.scheduler.take_turn(runner)
                        if session.in_flight.end(opened):
                            session.recorder.complete(opened, data)
                        if ordered:
                            session.scheduler.given(runner)
        except StopIteration as stop:
            outcome: Outcome = stop.value
        error = outcome.error
        if error is None:
            return outcome.value
        try:
            raise error
        finally:
            # The traceback of the error refers to this frame: leave no cycle to the collector.
            del error, outcome, reply, steps

    def outside(self, live: Callable[[], Any]) -> Any:
        """Call ``live`` in no session."""
        token = enter_session(OUTSIDE)
        try:
            return live()
        finally:
            leave_session(token)

    def _attempt_outside(self, step: LiveCall | PassThrough) -> Outcome:
        live = partial(_collect, step.live) if step.collects else step.live
        token = enter_session(OUTSIDE)
        try:
            return Outcome(live())
        except BaseException as error:  # noqa: BLE001 - raised at the end of `run`
            return Outcome(error=error)
        finally:
            leave_session(token)

    def _waiter(self, step: WaitForTurn) -> Waiter:
        session, opened = self._session, step.opened
        return Waiter(
            step.token,
            opened.lane.name,
            session.runner(),
            describe=lambda: session.machine.describe(opened.call, opened.key, opened.lane.name),
        )

    # Shell for tasks

    async def run_async(self, steps: Steps) -> Any:
        """Perform ``steps`` in this task. Return or raise the outcome of the call."""
        session = self._session
        reply: Any = None
        try:
            while True:
                step = steps.send(reply)
                reply = None
                if isinstance(step, HandOver):
                    await self._hand_over_async(step)
                elif isinstance(step, LiveCall):
                    reply = await self._live_async(step)
                elif isinstance(step, WaitForTurn):
                    await self._wait_async(step)
                elif isinstance(step, ServeNow):
                    if session.replays_order:
                        reply = await session.running_loop_scheduler().serve_now(step.call)
                elif isinstance(step, RunTool):
                    with session.lanes.inside(Lane(step.inner)):
                        reply = await _attempt_async(step.live)
                elif isinstance(step, PassThrough):
                    reply = await (
                        _attempt_async(step.live) if step.inside else self._pass_async(step)
                    )
                elif isinstance(step, Delay):
                    await step.pace.wait_async()
                else:
                    reply = Outcome(step.stream.pieces_async(step.live))
        except StopIteration as stop:
            outcome: Outcome = stop.value
        error = outcome.error
        if error is None:
            return outcome.value
        try:
            raise error
        finally:
            del error, outcome, reply, steps  # as in `run`

    async def _wait_async(self, step: WaitForTurn) -> None:
        session = self._session
        try:
            await session.running_loop_scheduler().wait(self._waiter(step))
        except asyncio.CancelledError:
            if step.token is None:
                await live_tasks.take_turns(_turns(step.entry))
            else:  # the recorded call had a result and was not cancelled
                session.reporter.cancelled_early(step.opened, step.entry)
            raise

    def _live_async(self, step: LiveCall) -> Awaitable[tuple[Data, Outcome]]:
        session, opened = self._session, step.opened

        def finish(inner: asyncio.Future[Any]) -> tuple[Data, Outcome]:
            """Complete the call in its turn."""
            reply = self._finish(opened, step.codec, live_tasks.outcome_of(inner))
            session.in_flight.complete(opened, reply[0])
            return reply

        def cancelled(turns: int) -> None:
            session.in_flight.cancel(opened, turns=turns)

        return live_tasks.live_call(
            session.running_loop_scheduler(),
            partial(_collect_async, step.live) if step.collects else step.live,
            finish,
            cancelled,
            paced=session.tracks_order and not opened.call.instant,
        )

    async def _hand_over_async(self, step: HandOver) -> None:
        session, opened = self._session, step.opened
        complete = partial(session.in_flight.complete, opened, step.data)
        if opened.call.instant or not session.tracks_order:
            complete()
            return
        try:
            await session.running_loop_scheduler().hand_over(complete)
        except asyncio.CancelledError:
            session.in_flight.cancel(opened)
            raise

    async def _pass_async(self, step: PassThrough) -> Outcome:
        session = self._session
        live = partial(_collect_async, step.live) if step.collects else step.live
        with session.scheduler.going_outside():
            outcome: Outcome = await live_tasks.live_call(
                session.running_loop_scheduler(),
                live,
                live_tasks.outcome_of,
                lambda _: None,
                paced=False,
            )
        return outcome

    # Core

    def steps(
        self,
        decision: Decision,
        opened: InFlightCall,
        live: Callable[[], Any],
        codec: ResultCodec,
        *,
        collects: bool = False,
    ) -> Steps:
        """Steps of a call about which ``decision`` was made.

        With ``collects``, ``live`` returns an iterator, and the result is all its chunks.
        """
        if isinstance(decision, Serve):
            return self._serve(opened, decision.entry, codec)
        if isinstance(decision, GoLive):
            return self._go_live(opened, decision, live, codec, collects)
        if isinstance(decision, Reexecute):
            return self._run_again(opened, decision.entry, live, codec)
        return self._pass_or_refuse(opened, decision, live, collects)

    def _serve(self, opened: InFlightCall, entry: Entry, codec: ResultCodec) -> Steps:
        session = self._session
        token, data = session.in_flight.claim(opened, entry)
        if data is not None and session.in_flight.keep(opened, data):
            yield HandOver(opened, data)
        elif session.tracks_order and not opened.call.instant:
            yield WaitForTurn(opened, entry, token)
        return self._recorded(opened.call, data, codec)

    def _recorded(self, call: Call, data: Data | None, codec: ResultCodec) -> Outcome:
        """Return the recorded outcome in ``data``; None is the result of an observed call."""
        if data is None:
            return Outcome()
        failure = data.get("error")
        if failure is None:
            return Outcome(None if call.observed else codec.load(call, data))
        error = codec.load_error(call, failure)
        if not isinstance(error, PolicyRefused):
            if call.returns_failure:
                return Outcome(codec.load(call, data))
            if call.observed:
                return Outcome()
        if is_full_refusal(error):
            self._session.full = error  # type: ignore[assignment]
        return Outcome(error=error)

    def _go_live(
        self,
        opened: InFlightCall,
        decision: GoLive,
        live: Callable[[], Any],
        codec: ResultCodec,
        collects: bool,
    ) -> Steps:
        session = self._session
        session.in_flight.begin(opened)
        outcome: Outcome
        if decision.answer is not None:
            outcome = _preset(opened.call, decision.answer, codec)
        elif opened.inner is None:
            data, outcome = yield LiveCall(opened, live, codec, collects)
            return _returned(opened, codec, data, outcome)
        else:
            outcome = yield RunTool(opened.inner, live)
        if outcome.cancelled:
            session.in_flight.cancel(opened)
            return outcome
        data, outcome = self._finish(opened, codec, outcome)
        yield HandOver(opened, data)
        return _returned(opened, codec, data, outcome)

    def _finish(
        self, opened: InFlightCall, codec: ResultCodec, outcome: Outcome
    ) -> tuple[Data, Outcome]:
        """Return the completing event of a live call, and the outcome for the program.

        That is a refusal if the result is over budget, and an error if it cannot be recorded.
        """
        session, error = self._session, outcome.error
        recorder = session.recorder
        if error is None:
            try:
                data = recorder.completing(opened, codec.dump(opened.call, outcome.value))
            except BaseException as failure:  # noqa: BLE001 - raised by the shell
                codec, error = PLAIN_CODEC, failure
                outcome = Outcome(error=error)
            else:
                refusal = None
                if recorder.budget.measures:
                    with session.lock:
                        refusal = recorder.budget.over_budget(data)
                if refusal is None:
                    return data, outcome
                return self._refused(opened, refusal), Outcome(error=refusal)
        return recorder.completing(opened, _failure(opened, error, codec)), outcome

    def _run_again(
        self, opened: InFlightCall, entry: Entry, live: Callable[[], Any], codec: ResultCodec
    ) -> Steps:
        """Run the code of a recorded tool again. Calls inside it are served in its lane."""
        session = self._session
        token, recorded = session.in_flight.claim(opened, entry, stub=False)
        kept = recorded is not None and session.in_flight.keep(opened, recorded)
        assert opened.inner is not None
        outcome: Outcome = yield RunTool(opened.inner, live)
        if outcome.error is not None and not isinstance(outcome.error, Exception):
            return outcome  # cancelled, or the program ends: nothing to compare
        if outcome.error is None:
            try:
                fields = codec.dump(opened.call, outcome.value)
            except Exception as failure:  # noqa: BLE001 - compared below, raised by the shell
                outcome = Outcome(error=failure)
        if outcome.error is not None:
            fields = _failure(opened, outcome.error, codec)
        if kept:
            yield HandOver(opened, session.in_flight.kept_or_new(opened, fields))
        else:
            if session.tracks_order:
                yield WaitForTurn(opened, entry, token)
            session.reporter.compare_result(opened, entry, fields, recorded)
        return _returned(opened, codec, fields, outcome)

    def _pass_or_refuse(
        self,
        opened: InFlightCall,
        decision: Pass | Refuse,
        live: Callable[[], Any],
        collects: bool,
    ) -> Steps:
        if isinstance(decision, Refuse):
            return Outcome(self.refuse(opened, decision))
        outcome: Outcome = yield PassThrough(live, decision.inside, collects)
        return outcome

    def refuse(self, opened: InFlightCall, refusal: Refuse) -> Any:
        """Record the refusal and raise it. A lenient draw gets a synthetic value instead."""
        session = self._session
        if refusal.error is not None:
            self._record_refusal(opened, refusal, refusal.error)
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

    def _record_refusal(self, opened: InFlightCall, refusal: Refuse, error: PolicyRefused) -> None:
        session = self._session
        if refusal.entry is not None:
            self._step_over(opened, refusal.entry)
        elif session.writes and session.decisions.is_recorded(opened.call, refusal):
            session.in_flight.begin(opened, brief=is_full_refusal(error))
            session.in_flight.complete(opened, self._refused(opened, error))

    def _refused(self, opened: InFlightCall, error: PolicyRefused) -> Data:
        """Return the completing event of a refusal; a full recording omits a large request."""
        fields = error_fields(opened.call, dump_exception(error))
        return self._session.recorder.completing(opened, fields, brief=is_full_refusal(error))

    def _step_over(self, opened: InFlightCall, entry: Entry) -> None:
        """Keep a recorded result that the program does not wait for, or skip its delivery."""
        session = self._session
        token, data = session.in_flight.claim(opened, entry)
        if data is not None and session.in_flight.keep(opened, data):
            session.in_flight.complete(opened, data)
        elif token is not None:
            session.scheduler.skip(token)

    # Calls that the program makes itself

    def observe(self, decision: Decision, opened: InFlightCall) -> Entry | None:
        """Begin a call that the program makes itself; return the recorded call, if there is one."""
        session = self._session
        if isinstance(decision, (Serve, Reexecute)):
            self._step_over(opened, decision.entry)
            return decision.entry
        if isinstance(decision, GoLive):
            session.in_flight.begin(opened)
        elif isinstance(decision, Refuse):
            self.refuse(opened, decision)
        return None

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


def _preset(call: Call, answer: Data, codec: ResultCodec) -> Outcome:
    """Return the outcome in ``answer``, which a fork has instead of the outcome of a live call."""
    failure = answer.get("error")
    if failure is not None:
        return Outcome(error=codec.load_error(call, failure))
    return Outcome(codec.load(call, answer))


def _failure(opened: InFlightCall, error: BaseException, codec: ResultCodec) -> Data:
    return error_fields(opened.call, codec.dump_error(opened.call, error))


def _returned(opened: InFlightCall, codec: ResultCodec, data: Data, outcome: Outcome) -> Outcome:
    """Return the outcome of a recorded call for the program, which gets its result by value."""
    if outcome.error is None:
        outcome.value = codec.returned(opened.call, outcome.value, data)
    return outcome


def _attempt(live: Callable[[], Any]) -> Outcome:
    try:
        return Outcome(live())
    except BaseException as error:  # noqa: BLE001 - raised at the end of `Gateway.run`
        return Outcome(error=error)


async def _attempt_async(live: AsyncLive) -> Outcome:
    try:
        return Outcome(await live())
    except GeneratorExit as error:  # the task is not run any more, so nothing can be awaited
        return Outcome(error=error, cancelled=True)
    except BaseException as error:  # noqa: BLE001 - raised at the end of `Gateway.run_async`
        return Outcome(error=error, cancelled=live_tasks.is_cancelled(error))


def _collect(live: Callable[[], Any]) -> BufferedResponse:
    answer = BufferedResponse()
    try:
        answer.pieces.extend(live())
    except Exception as error:
        if not answer.pieces:
            raise
        answer.error = error
    return answer


async def _collect_async(live: Callable[[], Any]) -> BufferedResponse:
    answer = BufferedResponse()
    try:
        async for piece in live():
            if isinstance(piece, BufferedResponse):
                return piece
            answer.pieces.append(piece)
    except Exception as error:
        if not answer.pieces:
            raise
        answer.error = error
    return answer


def _turns(entry: Entry) -> int:
    """Return the recorded number of loop turns until a cancelled call had unwound."""
    timing = entry.closing.data.get("timing") if entry.closing is not None else None
    turns = timing.get("turns") if isinstance(timing, dict) else None
    return turns if isinstance(turns, int) else 0


class GatewaySession(ExecutingSession, Protocol):
    """A session together with its gateway."""

    gateway: Gateway
