"""Sessions that keep their recording in memory, and a clock that moves only on request."""

from __future__ import annotations

import threading
from typing import Literal

import msgspec

from reenact._system import Clock
from reenact.engine.call import RECORDED_DRAW_SOURCES, SCHEDULE
from reenact.engine.recording.budget import RecordingBudget
from reenact.engine.scheduling.scheduler import STALL_SECONDS
from reenact.engine.session.resources import SessionResources
from reenact.engine.session.session import Session
from reenact.engine.session.settings import (
    ADDING_MODES,
    READING_MODES,
    PaceMode,
    Settings,
    Unused,
    mode_named,
)
from reenact.errors import UsageError
from reenact.format.event import Event
from reenact.policy.model import DEFAULT, Ignore, Pinned, Policy, SessionMode
from reenact.policy.redaction.redactor import Profile, Redactor
from reenact.store.sinks.base import Options
from reenact.store.sinks.copy import CopyOnWriteSink
from reenact.store.sinks.memory import MemorySink, MemorySource, memory_seed
from reenact.store.warning import Warn

__all__ = ["MemorySession", "VirtualClock", "memory_session"]

_START = 1_700_000_000_000
_NANOSECONDS = 1_000_000
_moving = threading.Lock()


class _Anchored(Clock, frozen=True, kw_only=True):
    wall_ns: int = 0
    monotonic_ns: int = 0


class VirtualClock(_Anchored, frozen=True):
    """Clock that shows a set time, and moves by ``tick`` milliseconds per reading. Thread-safe.

    ``clock()`` is the time in milliseconds since the epoch, as with a real clock.
    """

    start: int = _START
    tick: int = 0
    _now: list[int] = msgspec.field(default_factory=list)
    """A clock is a frozen value; what moves is kept in a list that it owns."""

    def __post_init__(self) -> None:
        _check(self.tick)
        msgspec.structs.force_setattr(self, "wall_ns", self.start * _NANOSECONDS)
        self._now.append(self.start)

    def __call__(self) -> int:
        return self._move(self.tick)

    def advance(self, milliseconds: int) -> None:
        """Let time pass. Raises :class:`UsageError` for going back."""
        _check(milliseconds)
        self._move(milliseconds)

    def _move(self, milliseconds: int) -> int:
        """Move the clock; return its time before."""
        with _moving:
            now = self._now[0]
            self._now[0] += milliseconds
            return now


def _check(milliseconds: int) -> None:
    if milliseconds < 0:
        raise UsageError(
            f"a clock does not go back ({milliseconds} ms)", hint="start another one earlier"
        )


class MemorySession(Session):
    """A session as any other. Made by :func:`memory_session`."""

    def __init__(
        self,
        settings: Settings,
        parts: SessionResources,
        sink: MemorySink | None,
        warnings: list[str],
    ) -> None:
        super().__init__(settings, parts)
        self.warnings = warnings
        """Warnings of the session, unless they are sent elsewhere."""
        self._sink = sink
        self._source = parts.source

    def recorded(self) -> MemorySource:
        """Return the recording, to be replayed.

        Raises :class:`UsageError` before the end of the session, and in modes that do not record.
        """
        if self._sink is None:
            raise UsageError(
                f"a session in the mode {self.mode} records nothing",
                hint="memory_session(mode='record')",
            )
        if self.manifest is None:
            raise UsageError(
                "this session has not ended, or its recording was given up",
                hint="read the recording after the with block",
            )
        old = self._source
        if isinstance(old, MemorySource) and self.manifest is old.manifest():
            return old.reopen()  # nothing was missing
        return self._sink.source()


def memory_session(
    source: MemorySource | None = None,
    *,
    mode: str | int | None = None,
    policy: Policy = DEFAULT,
    strict: bool | None = None,
    unused: Unused | None = None,
    match: Literal["lane", "transcript", "lookup"] | None = None,
    ignore: Ignore | None = None,
    redaction: Profile | Redactor | None = None,
    clock: Clock | None = None,
    patience: float = STALL_SECONDS,
    pace: PaceMode = "instant",
    warn: Warn | None = None,
) -> MemorySession:
    """Create a session without files that replays ``source``, or records if it is None.

    The arguments have the meaning that they have for :func:`reenact.session`, but nothing depends
    on the environment. The session is strict by default. It reads no file and no environment
    variable. Its timestamps come from a :class:`VirtualClock`. ``source`` can be replayed any
    number of times. Warnings are collected in ``session.warnings`` unless ``warn`` is given.
    """
    said = {"match": match, "ignore": ignore}
    changes = {name: value for name, value in said.items() if value is not None}
    policy = msgspec.structs.replace(policy, **changes)
    is_strict = policy.strictness != "lenient" if strict is None else strict
    warnings: list[str] = []
    settings = Settings(
        mode=_mode(mode, policy, source),
        pinned=Pinned.of(policy),
        strict=is_strict,
        unused=unused or policy.unused or ("error" if is_strict else "warn"),
        path=None,
        tape=False,
        warn=warn or warnings.append,
        redaction=redaction,
        patience=patience,
        pace=pace,
    )
    parts, sink = _parts(settings, source, clock or VirtualClock(tick=1))
    return MemorySession(settings, parts, sink, warnings)


def _mode(mode: str | int | None, policy: Policy, source: MemorySource | None) -> SessionMode:
    chosen = policy.mode if mode is None else mode_named(mode)
    if chosen is None:
        return "record" if source is None else "replay"
    if chosen == "replay" and source is None:
        raise UsageError(
            "there is nothing to replay", hint="memory_session(source), or mode='record'"
        )
    return chosen


def _parts(
    settings: Settings, source: MemorySource | None, clock: Clock
) -> tuple[SessionResources, MemorySink | None]:
    old = source.reopen() if source is not None and settings.mode in READING_MODES else None
    redactor = _redactor(settings, old)
    parts = SessionResources(
        clock, redactor, old, budget=RecordingBudget(settings.policy, entries=len(old or ()))
    )
    if settings.mode in ("off", "replay"):
        return parts, None
    sink = MemorySink(options=Options(redactor=redactor, warn=settings.warn))
    parts.sink = sink
    if settings.mode in ADDING_MODES:
        parts.sink = parts.copy_sink = CopyOnWriteSink(
            sink,
            old,
            warn=settings.warn,
            is_kept=lambda event: not _is_delivery(event),
            rest_fields={"position": None},
        )
    seed = memory_seed(redactor.profile)
    parts.run_id = seed.run_id
    parts.sink.start(msgspec.structs.replace(seed, environment=RECORDED_DRAW_SOURCES))
    return parts, sink


def _redactor(settings: Settings, old: MemorySource | None) -> Redactor:
    """Return the redactor of the recording, else the one of the settings. Ignores the environment."""
    said = settings.redaction or settings.policy.redaction or "default"
    if old is not None:
        said = old.manifest().redaction.profile
    redactor = said if isinstance(said, Redactor) else Redactor(said)
    return redactor.comparing(settings.policy.key_headers)


def _is_delivery(event: Event) -> bool:
    """Return whether ``event`` is a delivery. Deliveries are recorded again where they happen."""
    return event.type == "nondeterministic" and event.data.get("source") == SCHEDULE
