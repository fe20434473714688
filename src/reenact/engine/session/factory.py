"""Factories of a session: its resources, machine, comparer, recorded calls and draws.

:func:`open_resources` opens the recording that is read and starts the one that is written. The
code that writes (``recording.sinks``) and the code that explains divergences are loaded only when
needed. The same applies to readers, and to the machine and its parts: the parent process of a recording only opens
resources. Comparers are cached, because an app opens a session for each request with the same rules
and the same redactor.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from reenact._system import start_clock
from reenact.engine._lazy import LazyObject
from reenact.engine.divergence.model import Remedies
from reenact.engine.recording.budget import RecordingBudget, count_recorded_calls, recorded_size
from reenact.engine.session.resources import SessionResources
from reenact.engine.session.settings import ADDING_MODES, READING_MODES, Settings
from reenact.errors import RecordingMissing, UsageError
from reenact.format.event import Data, Event
from reenact.policy.access import KNOWN, Access, over_bytes, over_entries
from reenact.policy.model import DEFAULT
from reenact.policy.paths import rrbin_of
from reenact.store.files import unwritable

if TYPE_CHECKING:
    from reenact.engine.decision.machine import Machine
    from reenact.engine.decision.recorded_calls import EventReader, RecordedCalls
    from reenact.engine.divergence.diagnosis import Diagnosis
    from reenact.engine.draws import Draws
    from reenact.engine.fork.forked_run import ForkedRun, ForkSession
    from reenact.policy.matching import Comparer, Rules
    from reenact.policy.redaction.redactor import Redactor
    from reenact.store.seal import Seal
    from reenact.store.sinks.copy import CopyOnWriteSink
    from reenact.store.source import LogSource, SeekableSource

__all__ = [
    "make_comparer",
    "make_draws",
    "make_machine",
    "make_script",
    "open_resources",
]


def open_resources(settings: Settings) -> SessionResources:
    """Open the recording that is read and start the one that is written.

    Everything that can be refused is refused here, before the body of the session runs.
    """
    clock = start_clock()
    if settings.mode == "off" or settings.path is None:
        return SessionResources(clock, settings.redactor())
    try:
        source = _source(settings, settings.path)
    except OSError as error:  # a folder that must not be listed, a name that is too long
        from reenact.store.reader import unreadable

        reads = settings.mode == "replay"
        raise (unreadable if reads else unwritable)(settings.path, error) from None
    profile = source.manifest().redaction.profile if source is not None else None
    parts = SessionResources(clock, settings.redactor(profile), source, seal=_own_key(source))
    try:
        parts.budget = _room(settings, settings.path, source)
        if settings.fork is not None and source is not None:
            from reenact.engine.fork.plan import make_fork_plan

            parts.fork_plan = make_fork_plan(source, settings.fork, parts.seal, settings.alter)
        if settings.mode != "replay" or settings.into is not None:
            from reenact.engine.recording.session_sinks import start_recording

            start_recording(settings, settings.path, parts)
    except BaseException:
        parts.close()
        raise
    return parts


def _own_key(source: SeekableSource | None) -> Seal | None:
    """Return the user's key if the recording has sealed values."""
    if source is None or source.manifest().sealed is None:
        return None
    from reenact.store.seal import Seal, key_path, load_key

    key = load_key(key_path(dict(os.environ)))
    return None if key is None else Seal(key)


def _source(settings: Settings, path: Path) -> LogSource | None:
    if path.exists() and settings.tape == path.is_dir():
        if settings.tape:
            message, option = f"{path} is a directory, and a tape is a file", "capture"
        else:
            message, option = f"{path} is a file, and a capture is a directory", "tape"
        raise UsageError(message, hint=f"session({option}={str(path)!r}), or another path")
    if settings.mode == "replay":
        return _open(path)
    wanted = settings.mode in ADDING_MODES or settings.append
    if not wanted:
        return None
    from reenact.store.reader import part_path

    # An unfinished tape counts as existing: opening it raises with a hint.
    exists = path.exists() or (settings.tape and part_path(path).exists())
    is_new = not settings.tape and path.is_dir() and not any(path.iterdir())
    return _open(path) if exists and not is_new else None


def _open(path: Path) -> LogSource:
    from reenact.store.reader import open_recording

    try:
        return open_recording(path)
    except RecordingMissing as error:
        x07 = rrbin_of(path)
        hint = f"record it first: mode='record'; {error.hint}"
        if x07 is not None:
            to = "" if x07.parent == path.parent else f" -o {path}"
            hint = f"reenact import {x07}{to}, or open {x07.name} with reenact.rr"
        raise RecordingMissing(error.message, hint=hint) from None


def _room(settings: Settings, path: Path, source: LogSource | None) -> RecordingBudget:
    """Return the budget that the policy leaves.

    Raises :class:`BudgetExceeded` for a recording that is over its budgets, also in a replay.
    """
    policy = settings.policy
    if source is None:
        return RecordingBudget(policy)
    size = recorded_size(path, source.manifest())
    # Reading every event takes long, and often the number of events is enough.
    entries = source.manifest().event_count
    if policy.budgets.entries is not None and entries > policy.budgets.entries:
        entries = count_recorded_calls(source)
    refusal = over_bytes(policy, size) or over_entries(policy, entries)
    if refusal is not None:
        raise refusal
    return RecordingBudget(
        DEFAULT if settings.mode == "replay" and settings.fork is None else policy,
        entries=entries,
        size=size,
        counts_kept=settings.mode == "update",
    )


def make_comparer(settings: Settings, parts: SessionResources) -> Comparer:
    """Return the comparer of the policy. Raises :class:`PolicyInvalid` for an invalid rule."""
    from reenact.policy.matching import Rules

    policy = settings.policy
    rules = Rules(
        ignore_paths=policy.ignore.paths,
        ignore_headers=policy.ignore.headers,
        ignore_query=policy.ignore.query,
        volatile=policy.volatile,
    )
    return _comparer(rules, parts.redactor)


@lru_cache(maxsize=4)
def _comparer(rules: Rules, redactor: Redactor) -> Comparer:
    """Return a cached comparer: the sessions of an app share their rules and their redactor."""
    from reenact.policy.matching import Comparer

    return Comparer(rules, redactor)


def make_script(
    settings: Settings, parts: SessionResources, lane: str | None, events: EventReader | None = None
) -> RecordedCalls | None:
    """Return the recorded calls in modes that read, with ``lane`` only those below it.

    ``events`` are the events to read, if they are known.
    """
    if parts.source is None or settings.mode not in READING_MODES:
        return None
    from reenact.engine.decision.passthrough import pass_through_rules
    from reenact.engine.decision.recorded_calls import RecordedCalls

    by_lane = settings.policy.match != "transcript"
    script = RecordedCalls(
        events or parts.source,
        by_lane=by_lane,
        ledger=settings.ledger,
        whole=_restoring(parts.source, parts),
        let_by=pass_through_rules(settings.policy) if settings.mode == "replay" else None,
    )
    if lane is not None:
        script.keep_to(lane)
    if parts.fork_plan is not None:
        script.order.limit = parts.fork_plan.point.cut
    return script


def _restoring(source: SeekableSource, parts: SessionResources) -> Callable[[Event], Data]:
    def data_of(event: Event) -> Data:
        data = event.data
        return source.restored(event, parts.seal).data if "redacted" in data else data

    return data_of


def make_machine(
    settings: Settings, parts: SessionResources, comparer: Comparer, script: RecordedCalls | None
) -> Machine:
    """Return the machine that decides about the calls of a session."""
    from reenact.engine.decision.machine import Machine

    make: Callable[..., Machine] = Machine
    if parts.fork_plan is not None:
        from reenact.engine.fork.forked_run import ForkMachine

        make = partial(ForkMachine, parts.fork_plan.point, parts.fork_plan.live)
    return make(
        settings.mode,
        settings.policy,
        Access(settings.pinned, KNOWN),
        comparer,
        _late_diagnosis(comparer, parts.redactor, settings.ways),
        script=script,
        strict=settings.strict or parts.fork_plan is not None,
        only=settings.only,
    )


def _late_diagnosis(comparer: Comparer, redactor: Redactor, ways: Remedies) -> Diagnosis:
    """Few replays diverge: what explains a divergence is loaded with the first one."""

    def make() -> Diagnosis:
        from reenact.engine.divergence.diagnosis import Diagnosis

        return Diagnosis(comparer, redactor, ways)

    return cast("Diagnosis", LazyObject(make))


if TYPE_CHECKING:

    class DrawingSession(ForkSession, Protocol):
        """Parts of a session that decide how its draws are made."""

        fork: ForkedRun | None

        @property
        def copy_sink(self) -> CopyOnWriteSink | None: ...


def make_draws(session: DrawingSession) -> Draws:
    """Return how ``session``, which is being opened, makes and stores draws."""
    from reenact.engine.draws import LiveDraws, RecordedDraws, ReplayedDraws

    if session.mode == "off":
        return LiveDraws()
    if session.fork is not None:
        from reenact.engine.fork.forked_run import ForkDraws  # few runs are forked

        return ForkDraws(session, session.fork)
    if session.mode in ADDING_MODES:
        from reenact.engine.update.updated_draws import UpdateDraws

        assert session.copy_sink is not None
        return UpdateDraws(session, session.copy_sink)
    return RecordedDraws(session) if session.writes else ReplayedDraws(session)
