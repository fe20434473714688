"""End of a session: finish the recording, list unused recorded calls, and report the outcome.

:class:`Report` is the machine-readable result. Its status is ``diverged`` if anything differed or
was left over.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import msgspec

from reenact.engine._lazy import lazy_module
from reenact.engine.call import CHUNK, SCHEDULE
from reenact.engine.divergence.model import Divergence
from reenact.engine.scheduling.scheduler import Scheduler
from reenact.engine.session.resources import SessionResources
from reenact.engine.session.settings import Settings
from reenact.engine.update.changes import NO_CHANGES, UpdateOutcome
from reenact.errors import DivergenceError, ReenactError
from reenact.format.manifest import Manifest
from reenact.policy.model import SessionMode

if TYPE_CHECKING:
    from reenact.engine.decision.machine import Machine
    from reenact.engine.fork.forked_run import ForkedRun
    from reenact.engine.update.merger import RecordingMerger

__all__ = [
    "Report",
    "SessionEnd",
]

VERSION = 1
_text = lazy_module("reenact.engine.divergence.text_renderer")


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Version 1. ``status`` is ``diverged`` when anything differed or was left over."""

    mode: str
    status: Literal["ok", "diverged"]
    served: int
    live: int
    passed: dict[str, int]
    unused: int
    divergences: list[Divergence]
    more_divergences: int = 0
    outcome: UpdateOutcome = NO_CHANGES
    """Of an update."""

    @property
    def kept(self) -> int:
        """Of an update: calls that stay as they were."""
        return self.outcome.kept

    @property
    def changed(self) -> list[Divergence]:
        """Of an update: for each call that was made in the place of a recorded one, what differs."""
        return self.outcome.changed

    @property
    def added(self) -> list[Divergence]:
        """Of an update: calls that the recording did not have."""
        return self.outcome.added

    @property
    def dropped(self) -> list[Divergence]:
        """Of an update: recorded calls that were not made."""
        return self.outcome.dropped

    @classmethod
    def of(
        cls,
        machine: Machine,
        left_over: list[Divergence],
        unused: int,
        mode: str,
        outcome: UpdateOutcome = NO_CHANGES,
    ) -> Self:
        """Return the report of a session in its present state."""
        found = [*machine.divergences, *left_over]
        return cls(
            mode=mode,
            status="diverged" if found else "ok",
            served=machine.served,
            live=machine.live,
            passed=dict(sorted(machine.passed.items())),
            unused=unused,
            divergences=found,
            more_divergences=machine.more_divergences,
            outcome=outcome,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON, in its stable form."""
        update = self.outcome.to_json() if self.mode == "update" else {}
        return {
            "version": VERSION,
            "mode": self.mode,
            "status": self.status,
            "counts": {
                "served": self.served,
                "live": self.live,
                "passed": self.passed,
                "divergences": len(self.divergences) + self.more_divergences,
                "unused": self.unused,
            },
            "divergences": [one.to_json() for one in self.divergences],
            **update,
        }


_SHOWN = 20


class EndingSession(Protocol):
    """Parts of a session that its end uses."""

    failed_with: Divergence | None
    fork: ForkedRun | None
    given_up: str
    machine: Machine
    merger: RecordingMerger | None
    mode: SessionMode
    scheduler: Scheduler
    settings: Settings

    @property
    def lock(self) -> AbstractContextManager[Any]: ...
    def divergences(self) -> list[Divergence]: ...
    def warn(self, text: str) -> None: ...


class SessionEnd:
    """Actions at the end of a session.

    ``left_over`` are the first of ``count`` unused recorded calls. It holds no reference to its
    session, so that a session is freed without the garbage collector.
    """

    def __init__(self) -> None:
        self.left_over: list[Divergence] = []
        self.count = 0
        self.manifest: Manifest | None = None
        """Of what was written."""
        self.outcome: UpdateOutcome | None = None
        """Changes that an update has made."""

    def come(
        self,
        session: EndingSession,
        parts: SessionResources,
        error: BaseException | None,
        *,
        forked: bool,
    ) -> None:
        """Close ``parts`` of ``session``; ``error`` is what the body raised.

        Raises :class:`DivergenceError` for what a replay has to complain about.
        """
        if session.mode == "update":
            with session.lock:
                self.outcome = session.machine.outcome()
        if session.fork is not None:
            self._end_branch(session, parts, session.fork, error, forked=forked)
            return
        if session.mode != "replay":
            self._finish(session, parts, error, forked=forked)
            return
        try:
            if error is None and not forked:
                self._look_for_left_overs(session)
        finally:
            self._finish(session, parts, error or self._complaint(session), forked=forked)
        complaint = self._complaint(session)
        if complaint is not None:
            raise complaint
        if session.divergences():
            session.warn(self._summary(session))

    def _end_branch(
        self,
        session: EndingSession,
        parts: SessionResources,
        fork: ForkedRun,
        error: BaseException | None,
        *,
        forked: bool,
    ) -> None:
        """End a forked run. If it did not reach the point, its recording is discarded."""
        if forked or (fork.turned and session.failed_with is None):
            left = [] if forked or error is not None else fork.left_behind()
            self._finish(session, parts, error, forked=forked)
            if left:
                raise DivergenceError(left[0], _text.render_divergences(left))
            return
        try:
            if parts.sink is not None:
                parts.sink.discard()
            if error is not None and session.failed_with is None:
                session.warn(f"the program failed before {fork.branch.point.line()}: no fork")
                return
            with session.lock:
                problem = session.failed_with or fork.not_reached()
        finally:
            parts.close()
        raise DivergenceError(problem, _text.render_divergence(problem))

    def _look_for_left_overs(self, session: EndingSession) -> None:
        if session.settings.unused == "allow" or session.failed_with is not None:
            return
        with session.lock:
            self.left_over, self.count = session.machine.left_over(_SHOWN)

    def _complaint(self, session: EndingSession) -> DivergenceError | None:
        if session.failed_with is not None:
            return DivergenceError(
                session.failed_with, _text.render_divergence(session.failed_with)
            )
        if self.left_over and session.settings.unused == "error":
            return DivergenceError(self.left_over[0], self._summary(session))
        return None

    def _summary(self, session: EndingSession) -> str:
        text = _text.render_divergences(session.divergences())
        more = self.count - len(self.left_over)
        return f"{text}\n… and {more:,} more recorded calls that were not made" if more else text

    def _finish(
        self,
        session: EndingSession,
        parts: SessionResources,
        error: BaseException | None,
        *,
        forked: bool,
    ) -> None:
        """Finish the recording. A failed write is a warning, because the program has run."""
        try:
            if parts.sink is not None and forked:
                parts.sink.leave()
            elif parts.sink is not None:
                self._finish_sink(session, parts, parts.sink, error)
        except ReenactError as problem:
            hint = f"; hint: {problem.hint}" if problem.hint else ""
            session.warn(f"{problem.message}{hint}")
        finally:
            parts.close()

    def _finish_sink(
        self,
        session: EndingSession,
        parts: SessionResources,
        sink: Any,
        error: BaseException | None,
    ) -> None:
        keeps = session.mode not in ("rewrite", "update") and session.settings.keeps_failed
        if (error is not None or session.given_up) and not keeps:
            path = session.settings.path
            there = path is not None and path.exists()
            sink.discard()
            kept = "stays as it was" if there else "was not written"
            session.warn(f"{path} {kept}, because {session.given_up or 'the run failed'}")
            return
        if session.merger is not None:
            with session.lock:
                session.merger.settle()
        if parts.copier is not None:
            parts.copier.rest(_has_happened(session, parts))
        failed = None if error is None else type(error).__name__
        self.manifest = sink.finalize("ok" if failed is None else "error", failed)


def _has_happened(session: EndingSession, parts: SessionResources) -> Callable[[int], bool]:
    """Return a function that reports whether a replay has re-enacted event ``seq``."""
    with session.lock:
        left = list(session.machine.unused())
    unused = {event.seq for one in left for event in (one.opening, one.closing) if event}
    unread = {(one.lane, f"{CHUNK}:{one.position}") for one in left}
    order = session.scheduler.order if session.settings.policy.match == "lane" else None

    def has_happened(seq: int) -> bool:
        if seq in unused or order is None or parts.reader is None:
            return seq not in unused
        event = parts.reader.at(seq)
        if event.type != "nondeterministic" or event.data.get("source") != SCHEDULE:
            return True
        name = str(event.data.get("key"))
        if (event.lane, name.rpartition(":")[0]) in unread:
            return False
        return not order.is_ahead((event.lane, name))

    return has_happened
