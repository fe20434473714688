"""One exchange from its beginning to its end: a session for its calls, a flow for its steps.

Nothing that goes wrong here is the app's business: what cannot be recorded is served all the same,
and the exchange says why it cannot be replayed.
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
"""Makes and enters the session of an exchange."""


_MOST_TOLD = 100
"""Divergences of a replay."""


class SessionWarnings:
    """What a session warns about: nobody sits at the screen of an app."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, text: str) -> None:
        if len(self.lines) < 100:
            self.lines.append(text)


class ExchangeStart(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an exchange when it begins."""

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
    """How it ended. ``unfit`` says why its start cannot be replayed."""

    start: Payload
    result: Payload | None = None
    error: BaseException | None = None
    failed: ErrorFacts | None = None
    """It failed, and no exception says so."""
    unfit: str = ""


def new_exchange_id(now: Now) -> str:
    """Sorts by time."""
    return f"ex_{now():012x}{id_bytes(10).hex()}"


class ActiveExchange:
    """Opened once, and closed once, in the same context."""

    def __init__(
        self, begun: ExchangeStart, cleaner: ExchangeRedactor, now: Now, open_session: OpenSession
    ) -> None:
        self.begun = begun
        self._cleaner = cleaner
        self._now = now
        self._open_session = open_session
        self._notes = SessionWarnings()
        self._reason = ""
        self._token: Token[Position | None] | None = None
        self._around: RunningProcessor | None = None
        self.session: Session | None = None
        self.flow = Lineage(
            begun.exchange_id,
            begun.trace,
            now=now,
            describe=cleaner.error,
            correlation_id=begun.correlation_id,
            is_replay=begun.replay is not None,
            check=begun.check,
        )

    def open(self) -> None:
        """It begins: what runs here belongs to it. Raises only in a replay."""
        self._started_at, self._began = self._now(), monotonic()
        outer = current_position()
        if self.begun.replay is not None:
            self.session = self._open_session(self._notes)
        elif outer is not None:
            self._around = outer.flow.begin(outer, self.begun.route_id)
            self._reason = f"it ran inside of exchange {outer.flow.exchange_id}: replay that one"
            self.flow.is_replay = outer.flow.is_replay
        elif current() is not None:
            self._reason = "it ran in a session that was open already"
        elif not self._reason:
            self._try_to_open()
        self.flow.session = self.session if outer is None else outer.flow.session
        self._token = POSITION.set(Position(self.flow))

    def _try_to_open(self) -> None:
        try:
            self.session = self._open_session(self._notes)
        except Exception as error:  # noqa: BLE001 - whatever it is, the app goes on
            self._reason = f"its calls could not be recorded: {self._cleaner.text(str(error))}"

    def close(self, outcome: ExchangeEnd) -> Exchange:
        """It is over. Gives what is kept of it. Raises nothing but for values that no payload can
        have, which whoever makes them has to keep out."""
        duration = round((monotonic() - self._began) * 1_000, 3)
        diverged = self._close_session()
        self._restore()
        if self._around is not None:
            self._around.end("completed" if outcome.error is None else "failed", outcome.error)
        processors = self._cleaner.processors(self.flow.close())
        clean, result = self._cleaner.payloads(outcome.start, outcome.result, self.begun.filled)
        error = outcome.error or diverged
        failed = outcome.failed if error is None else self._cleaner.error(error)
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
            correlation_id=self._cleaner.text(self.begun.correlation_id),
            replay=self._replayed(),
        )

    def refuse(self, reason: str) -> None:
        """Its calls cannot be re-enacted."""
        self._reason = self._reason or reason

    def _close_session(self) -> DivergenceError | None:
        if self.session is None:
            return None
        try:
            self.session.__exit__(None, None, None)
        except DivergenceError as error:
            return error
        except Exception as error:  # noqa: BLE001 - whatever it is, the app goes on
            self.refuse(f"its calls could not be recorded: {self._cleaner.text(str(error))}")
            return None
        if self.session.writes and self.session.manifest is None:
            said = self._notes.lines[-1] if self._notes.lines else "nothing was written"
            self.refuse(f"its calls could not be recorded: {self._cleaner.text(said)}")
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
                self._cleaner.value(one.to_json()) for one in report.divergences[:_MOST_TOLD]
            ),
            live_calls=report.live,
            served_calls=report.served,
            unused_calls=report.unused,
        )
