"""Protocol of the session that carries out calls, so that this package does not import it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from reenact.engine.decision.machine import Machine
from reenact.engine.draws import Draws
from reenact.engine.lanes import Lanes
from reenact.engine.recording.recorder import Recorder
from reenact.engine.scheduling.scheduler import Scheduler
from reenact.engine.scheduling.waiters import Runner
from reenact.engine.session.call_decisions import CallDecisions
from reenact.engine.session.divergences import DivergenceReporter
from reenact.engine.session.in_flight import InFlightCalls
from reenact.engine.session.settings import Settings
from reenact.errors import BudgetExceeded, PolicyRefused
from reenact.policy.model import SessionMode

if TYPE_CHECKING:
    from reenact.engine.scheduling.loop_scheduler import LoopScheduler

__all__ = ["ExecutingSession"]


class ExecutingSession(Protocol):
    """Parts of a session that carrying out its calls uses."""

    decisions: CallDecisions
    draws: Draws
    full: BudgetExceeded | None
    in_flight: InFlightCalls
    lanes: Lanes
    last_clock: float | None
    machine: Machine
    mode: SessionMode
    recorder: Recorder
    replays_order: bool
    reporter: DivergenceReporter
    run_seed: str
    scheduler: Scheduler
    settings: Settings
    tracks_order: bool
    writes: bool

    @property
    def lock(self) -> AbstractContextManager[Any]: ...
    @property
    def is_active(self) -> bool: ...
    def check_open(self) -> None: ...
    def is_late(self) -> bool: ...
    def redacted(self, error: PolicyRefused) -> PolicyRefused: ...
    def redacted_text(self, text: str) -> str: ...
    def runner(self) -> Runner: ...
    def running_loop_scheduler(self) -> LoopScheduler: ...
    def waiting_elsewhere(self) -> AbstractContextManager[None]: ...
