"""Recording of one exchange, from its start to its end: the session of its calls and its lineage.

Failures of the recording do not affect the app. An exchange that cannot be recorded is served, and
states why it cannot be replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Token
from typing import TYPE_CHECKING

import msgspec

from reenact._system import Now, id_bytes, monotonic
from reenact.engine.session.current import current
from reenact.errors import DivergenceError
from reenact.exchange.context import POSITION, Lineage, Position, RunningProcessor, current_position
from reenact.exchange.model import ErrorFacts, Exchange, Kind, Payload, ReplayOf, Trace
from reenact.exchange.payload import payload_digest
from reenact.exchange.redaction import ExchangeRedactor

if TYPE_CHECKING:
    from reenact.engine.session.session import Session

__all__ = [
    "ActiveExchange",
    "ExchangeEnd",
    "ExchangeStart",
    "OpenSession",
    "SessionWarnings",
    "new_exchange_id",
]

OpenSession = Callable[["SessionWarnings"], "Session"]
"""Creates and enters the session of an exchange."""


_MOST_TOLD = 100
"""Maximum number of divergences of a replay that are stored."""


class SessionWarnings:
    """Collector of a session's warnings, which an app does not print."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, text: str) -> None:
        if len(self.lines) < 100:
            self.lines.append(text)


class ExchangeStart(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of an exchange, and the replay that it belongs to."""

    route_id: str
    kind: Kind
    trace: Trace
    correlation_id: str = ""
    exchange_id: str
    replay: ReplayOf | None = None
    check: Callable[[], None] | None = None
    filled: tuple[str, ...] = ()
    """Pointers of credentials that were put into the start payload."""


class ExchangeEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an exchange. ``unfit`` is the reason why its start payload cannot be replayed."""

    start: Payload
    result: Payload | None = None
    error: BaseException | None = None
    failed: ErrorFacts | None = None
    """Failure without an exception, such as an HTTP status of 500."""
    unfit: str = ""


def new_exchange_id(now: Now) -> str:
    """Return a new id. Ids sort by time."""
    return f"ex_{now():012x}{id_bytes(10).hex()}"


class ActiveExchange:
    """Exchange in progress. It is opened and closed once, in the same context."""

    def __init__(
        self, begun: ExchangeStart, redactor: ExchangeRedactor, now: Now, open_session: OpenSession
    ) -> None:
        self.begun = begun
        self._redactor = redactor
        self._now = now
        self._open_session = open_session
        self._notes = SessionWarnings()
        self._reason = ""
        self._token: Token[Position | None] | None = None
        self._around: RunningProcessor | None = None
        self.session: Session | None = None
        self.lineage = Lineage(
            begun.exchange_id,
            begun.trace,
            now=now,
            describe=redactor.error,
            correlation_id=begun.correlation_id,
            is_replay=begun.replay is not None,
            check=begun.check,
        )

    def open(self) -> None:
        """Start the exchange in the current context. Raises only in a replay."""
        self._started_at, self._began = self._now(), monotonic()
        outer = current_position()
        if self.begun.replay is not None:
            self.session = self._open_session(self._notes)
        elif outer is not None:
            self._around = outer.lineage.begin(outer, self.begun.route_id)
            self._reason = f"it ran inside of exchange {outer.lineage.exchange_id}: replay that one"
            self.lineage.is_replay = outer.lineage.is_replay
        elif current() is not None:
            self._reason = "it ran in a session that was open already"
        elif not self._reason:
            self._try_to_open()
        self.lineage.session = self.session if outer is None else outer.lineage.session
        self._token = POSITION.set(Position(self.lineage))

    def _try_to_open(self) -> None:
        try:
            self.session = self._open_session(self._notes)
        except Exception as error:  # noqa: BLE001 - a failed recording must not affect the app
            self._reason = f"its calls could not be recorded: {self._redactor.text(str(error))}"

    def close(self, outcome: ExchangeEnd) -> Exchange:
        """Return the stored form of the exchange. Raises if ``outcome`` contains values that a
        payload cannot hold."""
        duration = round((monotonic() - self._began) * 1_000, 3)
        diverged = self._close_session()
        self._restore()
        if self._around is not None:
            self._around.end("completed" if outcome.error is None else "failed", outcome.error)
        processors = self._redactor.processors(self.lineage.close())
        clean, result = self._redactor.payloads(outcome.start, outcome.result, self.begun.filled)
        error = outcome.error or diverged
        failed = outcome.failed if error is None else self._redactor.error(error)
        return Exchange(
            exchange_id=self.begun.exchange_id,
            route_id=self.begun.route_id,
            kind=self.begun.kind,
            started_at=self._started_at,
            duration=duration,
            status="completed" if failed is None else "failed",
            error=failed,
            start=clean.payload,
            start_digest=payload_digest(clean.payload),
            redacted=clean.pointers,
            not_replayable=clean.lost or outcome.unfit or self._reason,
            result=None if result is None or result.lost else result.payload,
            processors=processors,
            trace=self.begun.trace,
            correlation_id=self._redactor.text(self.begun.correlation_id),
            replay=self._replayed(),
        )

    def refuse(self, reason: str) -> None:
        """Mark the exchange as not replayable. The first reason counts."""
        self._reason = self._reason or reason

    def _close_session(self) -> DivergenceError | None:
        if self.session is None:
            return None
        try:
            self.session.__exit__(None, None, None)
        except DivergenceError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a failed recording must not affect the app
            self.refuse(f"its calls could not be recorded: {self._redactor.text(str(error))}")
            return None
        if self.session.writes and self.session.manifest is None:
            said = self._notes.lines[-1] if self._notes.lines else "nothing was written"
            self.refuse(f"its calls could not be recorded: {self._redactor.text(said)}")
        return None

    def _restore(self) -> None:
        before = None if self._token is None else self._token.old_value
        POSITION.set(None if before is Token.MISSING else before)

    def _replayed(self) -> ReplayOf | None:
        replay, session = self.begun.replay, self.session
        if replay is None or session is None:
            return replay
        report = session.report()
        return msgspec.structs.replace(
            replay,
            divergences=tuple(
                self._redactor.value(one.to_json()) for one in report.divergences[:_MOST_TOLD]
            ),
            live_calls=report.live,
            served_calls=report.served,
            unused_calls=report.unused,
        )
