"""Recorder of an app's exchanges: sampling, sessions, and delivery to the exporter."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from reenact._system import Now
from reenact.engine.divergence.model import OPERATOR_REMEDIES
from reenact.engine.recording.session_sinks import BufferedRecordings
from reenact.engine.session.session import Session
from reenact.engine.session.settings import Settings
from reenact.errors import UsageError
from reenact.exchange.active_exchange import (
    ActiveExchange,
    ExchangeEnd,
    ExchangeStart,
    SessionWarnings,
    new_exchange_id,
)
from reenact.exchange.client.interface import Exporter, ReplayJob
from reenact.exchange.containment import Declarations
from reenact.exchange.context import (
    correlation_id_of,
    current_position,
    sample_trace,
    start_trace,
    trace_from_headers,
    trace_headers,
)
from reenact.exchange.model import Exchange, Header, Kind, Payload, ReplayOf, Trace
from reenact.exchange.payload import clipped_body
from reenact.exchange.redaction import ExchangeRedactor
from reenact.exchange.route_revision import Definition
from reenact.policy.model import Policy
from reenact.scope import session
from reenact.store.files import folder_size
from reenact.store.sinks.buffered import BufferedSink, Contents
from reenact.store.warning import Warn, WarningRelay

__all__ = ["ExchangeRecorder", "RecordingLimits", "SampleRate"]

SampleRate = float | Callable[[str], float]
"""Fraction of exchanges to record, 0 to 1, or a function from a route id to a fraction."""

_PATIENCE: Final = 1.0
"""Seconds of inactivity after which a replay stops waiting for the next recorded call. An edited
payload can skip recorded calls."""


class RecordingLimits(msgspec.Struct, frozen=True):
    """Size limits in bytes: ``max_body`` for one body, ``max_recording`` for the calls of one
    exchange."""

    max_body: int = 1_048_576
    max_recording: int = 16_777_216


class _Target(msgspec.Struct, frozen=True):
    """Storage for the calls of an exchange: memory, and ``place`` if they are large."""

    exporter: Exporter
    place: Path
    sink: BufferedSink | None = None

    def capture(self) -> Path | Contents | None:
        """Return the recording, or None."""
        if self.sink is not None and self.sink.contents is not None:
            return self.sink.contents
        return self.place if self.place.is_dir() else None


class ExchangeRecorder:
    """Recorder shared by all adapters of an app. Thread-safe."""

    def __init__(
        self,
        exporter: Callable[[], Exporter],
        unstarted_exporter: Callable[[], Exporter],
        redactor: ExchangeRedactor,
        *,
        now: Now,
        warn: Warn,
        sample: SampleRate = 1.0,
        limits: RecordingLimits | None = None,
        policy: str | Policy | None = None,
        version: str = "",
        agent_id: Callable[[], str],
        declared: Declarations,
    ) -> None:
        self.limits = limits or RecordingLimits()
        self.version = version
        self.redactor = redactor
        self._exporter = exporter
        self._unstarted_exporter = unstarted_exporter
        """Returns the exporter without starting it, for exchanges that have ended."""
        self._now = now
        self._warn = warn
        self._sample = sample
        self._policy = policy
        self._agent_id = agent_id
        self._declared = declared
        self._targets: dict[str, _Target] = {}
        self._warned = False
        self._lock = threading.Lock()
        self._release: Callable[[], None] | None = None
        """Removes the patches of the first session, which later sessions share."""
        self._usual: Settings | None = None
        """Settings of every recording, except its path."""
        self._buffered: BufferedRecordings | None = None
        self._spare: list[tuple[Exporter, Path]] = []
        """Unused paths, because the recording stayed in memory."""

    # Recording

    def sampled(self, parent: str, state: str, route_id: Callable[[], str]) -> Trace | None:
        """Return the trace of a new exchange with these W3C headers, or None if it is not sampled.
        An exchange inside another one is always sampled."""
        self._exporter()  # the agent starts with the first request, sampled or not
        sample = self._sample
        if current_position() is not None:
            return sample_trace(parent, state, 1)
        return sample_trace(parent, state, sample(route_id()) if callable(sample) else sample)

    def begin(
        self,
        route_id: str,
        kind: Kind,
        headers: Sequence[Header],
        trace: Trace,
        correlation_id: str = "",
    ) -> ActiveExchange:
        """Return a new exchange that is not open yet."""
        said = correlation_id or correlation_id_of(headers)
        outer = current_position()
        if outer is not None and not trace.parent_span_id:
            trace = trace_from_headers(tuple(trace_headers(outer.lineage.trace, "").items()))
            said = said or outer.lineage.correlation_id
        begun = ExchangeStart(
            route_id=route_id,
            kind=kind,
            trace=trace,
            correlation_id=said[:512],
            exchange_id=new_exchange_id(self._now),
        )
        return ActiveExchange(begun, self.redactor, self._now, self._recording(begun.exchange_id))

    def bounded(self, payload: Payload) -> tuple[Payload, str]:
        """Return ``payload`` without a body that is too large, and the reason why it cannot be
        replayed."""
        body, most = payload.body, self.limits.max_body
        size = max(len(body.base64) * 3 // 4, len(body.text))
        if size * 4 > most:  # it may be: characters are up to four bytes
            size = max(len(body.base64) * 3 // 4, len(body.text.encode("utf-8", "surrogatepass")))
        if size <= most:
            return payload, ""
        small = msgspec.structs.replace(payload, body=clipped_body(size, body.content_type))
        return small, f"its body has {size:,} bytes, and no more than {most:,} are kept"

    def finish(self, active: ActiveExchange, outcome: ExchangeEnd, definition: Definition) -> None:
        """Export an exchange that has ended. Never raises."""
        try:
            self._finish(active, outcome, definition)
        except Exception as error:  # noqa: BLE001 - a failed recording must not affect the app
            if not self._warned:
                self._warned = True
                self._warn(f"an exchange was lost: {type(error).__name__}")

    def _finish(self, active: ActiveExchange, outcome: ExchangeEnd, definition: Definition) -> None:
        target = self._targets.pop(active.begun.exchange_id, None)
        inside_replay = active.lineage.is_replay
        exchange = active.close(outcome)
        capture = None if target is None else target.capture()
        if target is not None and isinstance(capture, Contents):
            self._spare.append((target.exporter, target.place))
        if capture is not None:
            exchange, capture = self._bounded(exchange, capture)
        if not inside_replay:
            self._unstarted_exporter().offer(self._signed(exchange, definition), capture)

    def _bounded(
        self, exchange: Exchange, capture: Path | Contents
    ) -> tuple[Exchange, Path | Contents | None]:
        size = capture.size if isinstance(capture, Contents) else folder_size(capture)
        if size <= self.limits.max_recording and not exchange.not_replayable:
            return exchange, capture
        if isinstance(capture, Path):
            shutil.rmtree(capture, ignore_errors=True)
        if exchange.not_replayable:
            return exchange, None
        most = self.limits.max_recording
        reason = f"its calls take {size:,} bytes, and no more than {most:,} are kept"
        return msgspec.structs.replace(exchange, not_replayable=reason), None

    def _signed(self, exchange: Exchange, definition: Definition) -> Exchange:
        return msgspec.structs.replace(
            exchange,
            revision=definition.revision,
            code_version=self.version,
            agent_id=self._agent_id(),
        )

    def _recording(self, exchange_id: str) -> Callable[[SessionWarnings], Session]:
        def open_session(notes: SessionWarnings) -> Session:
            exporter = self._exporter()
            place = self._place(exporter)
            if self._usual is None:
                made = self._made(notes, self.redactor, capture=place, mode="record")
                self._usual = _undurable(made.settings) if self._policy is None else made.settings
            settings = _placed(self._usual, place, notes)
            if settings.policy.durability != "none":
                self._targets[exchange_id] = _Target(exporter, place)
                return self._entered(Session(settings))
            if self._buffered is None:
                self._buffered = BufferedRecordings(settings)
            parts, sink = self._buffered.open(settings)
            self._targets[exchange_id] = _Target(exporter, place, sink)
            return self._entered(Session(settings, parts))

        return open_session

    def _place(self, exporter: Exporter) -> Path:
        """Return a path at which nothing exists, if possible a spare one of ``exporter``.

        Making a path takes longer than writing an exchange to the log.
        """
        while self._spare:
            try:
                owner, place = self._spare.pop()
            except IndexError:  # another thread took the last one
                break
            if owner is exporter:
                return place
        return exporter.place()

    def _session(
        self, job: ReplayJob, notes: SessionWarnings, redactor: ExchangeRedactor, **how: Any
    ) -> Session:
        """Return the session of a replay."""
        usual = self._made(notes, redactor, **how).settings
        held: dict[str, Any] = {}
        if job.command.boundaries != "live":
            declared = self._declared
            held = {
                "allowed_drivers": usual.allowed_drivers | declared.allowed_drivers,
                "refuses_drivers": True,
                "scratch": declared.scratch if declared.files == "refuse" else None,
                "current_environment": job.command.environment_variables == "current",
            }
        return self._entered(
            Session(msgspec.structs.replace(usual, ways=OPERATOR_REMEDIES, **held))
        )

    def _made(self, notes: SessionWarnings, redactor: ExchangeRedactor, **how: Any) -> Session:
        return session(
            policy=self._policy,
            match="lane",
            redaction=redactor.redactor,
            seal=False,  # what is secret stays in the app, sealed or not
            warn=notes,
            **how,
        )

    def _entered(self, made: Session) -> Session:
        opened = made.__enter__()
        with self._lock:
            if self._release is None:
                self._release = opened.keep_patches()
        return opened

    def close(self) -> None:
        """Remove the patches, because no exchange follows."""
        with self._lock:
            release, self._release = self._release, None
        if release is not None:
            release()

    def after_fork(self) -> None:
        """Reset a forked child, because another thread can have held the lock."""
        self._lock = threading.Lock()
        self._spare.clear()  # they are the parent's

    # Replaying

    def replay(
        self,
        job: ReplayJob,
        kind: Kind,
        redactor: ExchangeRedactor,
        filled: tuple[str, ...],
        check: Callable[[], None],
    ) -> ActiveExchange:
        """Return the exchange of a replay that is not open yet."""
        command = job.command
        begun = ExchangeStart(
            route_id=command.route_id,
            kind=kind,
            trace=start_trace(command.trace_parent),
            correlation_id=correlation_id_of(job.payload.headers),
            exchange_id=new_exchange_id(self._now),
            replay=ReplayOf(
                replay_id=command.replay_id,
                source_exchange_id=command.source_exchange_id,
                depth=max(1, command.depth),
                boundaries=command.boundaries,
                strict=command.strict,
                environment_variables=command.environment_variables,
            ),
            check=check,
            filled=filled,
        )
        return ActiveExchange(
            begun, redactor, self._now, lambda notes: self._again(job, redactor, notes)
        )

    def replayed(self, exchange: Exchange, definition: Definition) -> Exchange:
        """Return the exchange of a replay in its final form, with drivers that were loaded while it
        ran."""
        if exchange.replay is not None:
            held = self._declared.containment(exchange.replay.boundaries)
            replay = msgspec.structs.replace(exchange.replay, containment=held)
            exchange = msgspec.structs.replace(exchange, replay=replay)
        return self._signed(exchange, definition)

    def _again(self, job: ReplayJob, redactor: ExchangeRedactor, notes: SessionWarnings) -> Session:
        command, into = job.command, job.into
        into.parent.mkdir(parents=True, exist_ok=True)
        if command.boundaries == "recorded":
            if job.capture is None:
                raise UsageError("the calls of this exchange were not recorded")
            return self._session(
                job,
                notes,
                redactor,
                capture=job.capture,
                mode="replay",
                strict=command.strict,
                unused="warn",
                into=into,
                patience=_PATIENCE,
            )
        if command.boundaries == "live" or job.capture is None:
            return self._session(job, notes, redactor, capture=into, mode="record")
        shutil.copytree(job.capture, into)
        return self._session(
            job, notes, redactor, capture=into, mode="record_missing", strict=command.strict
        )


def _undurable(settings: Settings) -> Settings:
    """Return settings without disk synchronisation. Recordings survive the process. A policy can
    require that they survive the machine."""
    policy = msgspec.structs.replace(settings.policy, durability="none")
    return msgspec.structs.replace(
        settings, pinned=msgspec.structs.replace(settings.pinned, policy=policy)
    )


def _placed(usual: Settings, place: Path, notes: SessionWarnings) -> Settings:
    return msgspec.structs.replace(usual, path=place, warn=WarningRelay(notes))
