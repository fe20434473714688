"""``reenact.run_agent``: a small and complete agent loop over a model and tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from reenact.agents.aborting import Abort, Signal
from reenact.agents.bus import Bus, Subscriber
from reenact.agents.compaction import Compaction
from reenact.agents.config import ReplayConfig
from reenact.agents.effects import Model
from reenact.agents.failing import Backoff, Classify, classify
from reenact.agents.loop import Plan
from reenact.agents.mapping import Adapter
from reenact.agents.messages import Message
from reenact.agents.performing import Performer
from reenact.agents.result import AgentResult
from reenact.agents.running import Asked, Run
from reenact.agents.toolbox import Toolbox
from reenact.errors import UsageError
from reenact.tools.wrapping import Tool

__all__ = ["run_agent", "run_agent_async"]

_BACKOFF = Backoff()
_COMPACTION = Compaction()


class _Wishes(msgspec.Struct, kw_only=True):
    """The arguments of both functions."""

    model: Model
    input: str | Message
    tools: Sequence[Tool[..., Any] | Callable[..., Any]]
    instructions: str
    messages: Sequence[Message | Mapping[str, Any]]
    params: Mapping[str, Any] | None
    fallbacks: Sequence[Model]
    max_turns: int
    parallel: bool
    backoff: Backoff
    compaction: Compaction | None
    classify: Classify
    abort: Signal | None
    bus: Bus | None
    observers: Sequence[Subscriber]
    adapters: Mapping[str, Adapter] | None
    session_key: str
    run_id: str
    replay: ReplayConfig | Mapping[str, Any] | None
    grace: float

    def asked(self, toolbox: Toolbox) -> Asked:
        """What the run is asked to do. Raises :class:`UsageError`."""
        for model in (self.model, *self.fallbacks):
            if not callable(model):
                raise UsageError(
                    f"a {type(model).__qualname__} is no model: it cannot be called",
                    hint="a function that takes a ModelRequest, or reenact.agents.OpenAIChat(client, …)",
                )
        if self.max_turns < 1:
            raise UsageError("max_turns is at least 1", hint="50 unless it is given")
        plan = Plan(
            models=(self.model, *self.fallbacks),
            tools=toolbox.specs,
            instructions=self.instructions,
            params=dict(self.params or {}),
            max_turns=self.max_turns,
            backoff=self.backoff,
            compaction=self.compaction,
            classify=self.classify,
            aborted=Abort(self.abort),
        )
        return Asked(
            plan=plan,
            input=self.input,
            earlier=self.messages,
            bus=Bus() if self.bus is None else self.bus,
            observers=tuple(self.observers),
            adapters=dict(self.adapters or {}),
            session_key=self.session_key,
            run_id=self.run_id,
            config=ReplayConfig.read(self.replay),
        )


def run_agent(
    model: Model,
    input: str | Message,
    *,
    tools: Sequence[Tool[..., Any] | Callable[..., Any]] = (),
    instructions: str = "",
    messages: Sequence[Message | Mapping[str, Any]] = (),
    params: Mapping[str, Any] | None = None,
    fallbacks: Sequence[Model] = (),
    max_turns: int = 50,
    parallel: bool = True,
    backoff: Backoff = _BACKOFF,
    compaction: Compaction | None = _COMPACTION,
    classify: Classify = classify,
    abort: Signal | None = None,
    bus: Bus | None = None,
    observers: Sequence[Subscriber] = (),
    adapters: Mapping[str, Adapter] | None = None,
    session_key: str = "",
    run_id: str = "",
    replay: ReplayConfig | Mapping[str, Any] | None = None,
    grace: float = 1.0,
) -> AgentResult:
    """Ask ``model`` about ``input`` and call the ``tools`` that it asks for, until it is done.

    ``messages`` is the conversation before (``result.messages`` of an earlier run). A model call
    that fails is tried again as ``backoff`` says, then the ``fallbacks`` are asked; a conversation
    that is too long is made shorter as ``compaction`` says. What a tool raises, the model is told.
    Tools of one turn run side by side unless ``parallel`` is false. ``abort`` stops the run before
    its next step. ``observers`` get every event of the run; it waits for them ``grace`` seconds at
    most. With ``replay`` the run is recorded or replayed in a session of its own; otherwise it is
    part of the session that is open, if there is one.

    What ends a run without an answer is in ``result.error``, and ``result.check()`` raises it. Raises
    :class:`UsageError` and its kin for arguments that make no sense, what opening a recording
    raises, and :class:`DivergenceError` in a strict replay.
    """
    wishes = _Wishes(**{name: item for name, item in locals().items() if name != "wishes"})
    toolbox = Toolbox(tools)
    run = Run(wishes.asked(toolbox))
    try:
        with run:
            aborted = run.asked.plan.aborted
            run.drive(Performer(toolbox, run.teller, aborted, parallel=parallel))
    finally:
        run.asked.bus.flush(grace)
        run.leave_observers()
    return run.result()


async def run_agent_async(
    model: Model,
    input: str | Message,
    *,
    tools: Sequence[Tool[..., Any] | Callable[..., Any]] = (),
    instructions: str = "",
    messages: Sequence[Message | Mapping[str, Any]] = (),
    params: Mapping[str, Any] | None = None,
    fallbacks: Sequence[Model] = (),
    max_turns: int = 50,
    parallel: bool = True,
    backoff: Backoff = _BACKOFF,
    compaction: Compaction | None = _COMPACTION,
    classify: Classify = classify,
    abort: Signal | None = None,
    bus: Bus | None = None,
    observers: Sequence[Subscriber] = (),
    adapters: Mapping[str, Adapter] | None = None,
    session_key: str = "",
    run_id: str = "",
    replay: ReplayConfig | Mapping[str, Any] | None = None,
    grace: float = 1.0,
) -> AgentResult:
    """The same for tasks: see :func:`run_agent`. Models and tools may be asynchronous; an
    ``asyncio.Event`` as ``abort`` also cancels what is under way. A run whose task is cancelled
    has ended as aborted, and the cancellation goes on."""
    wishes = _Wishes(**{name: item for name, item in locals().items() if name != "wishes"})
    import asyncio

    from reenact.agents.performing_async import AsyncPerformer

    toolbox = Toolbox(tools)
    run = Run(wishes.asked(toolbox))
    signal = abort if isinstance(abort, asyncio.Event) else None
    try:
        with run:
            aborted = run.asked.plan.aborted
            perform = AsyncPerformer(toolbox, run.teller, aborted, parallel=parallel, signal=signal)
            await run.drive_async(perform)
    finally:
        for wait in run.asked.bus.waiting(grace):
            wait()
            await asyncio.sleep(0)  # others go on meanwhile
        run.leave_observers()
    return run.result()
