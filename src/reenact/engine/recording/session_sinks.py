"""Sinks of a session: start, append to, join or buffer the recording that a session writes.

Appended events are numbered after the existing ones, as if one program had done both. Loaded only
by sessions that write: most replays do not. Rarely used sinks are imported on use.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from reenact._system import start_clock
from reenact.engine.call import DRAWS, PAIRS, RECORDED_DRAW_SOURCES, SCHEDULE
from reenact.engine.lanes import Lane
from reenact.engine.recording.budget import RecordingBudget
from reenact.engine.session.resources import SessionResources
from reenact.engine.session.settings import ADDING_MODES, Settings
from reenact.errors import SinkError
from reenact.format.event import ROOT_LANE, Event
from reenact.format.manifest import Origin, PolicyRef, Seed
from reenact.policy.access import KNOWN
from reenact.policy.redaction.redactor import Redactor
from reenact.store.files import EVENTS
from reenact.store.recording import again, make_seed
from reenact.store.seal import own_seal
from reenact.store.sinks.base import CopySink, Options
from reenact.store.sinks.directory import DirectorySink
from reenact.store.sinks.segments import SegmentSink, read_open
from reenact.store.source import SeekableSource

if TYPE_CHECKING:
    from reenact.engine.fork.plan import ForkPlan
    from reenact.store.sinks.buffered import BufferedSink

__all__ = [
    "BufferedRecordings",
    "fork_seed",
    "join_fork",
    "join_recording",
    "open_without_output",
    "resumed_root_lane",
    "start_recording",
]

_COUNTERS = {"timer": "timers", "post": "posts", "wait": "waits"}
_POSITIONS = frozenset((*PAIRS, "state_mutation", "nondeterministic"))


def resumed_root_lane(events: Iterable[Event]) -> Lane:
    """Return the root lane after ``events``, for a program that continues a recording.

    Actions without an event (a timer that never fired, a task without calls) are not counted.
    """
    root = Lane(ROOT_LANE)
    for event in events:
        name = event.lane if event.lane != ROOT_LANE else str(event.data.get("inner") or "")
        if name.startswith(f"{ROOT_LANE}."):
            root.spawned = max(root.spawned, _first_child(name))
        if event.lane == ROOT_LANE:
            _count(root, event)
    return root


def _first_child(name: str) -> int:
    number = name.split(".")[1]
    return int(number) if number.isdecimal() else 0


def _count(root: Lane, event: Event) -> None:
    if event.type == "nondeterministic" and event.data.get("source") == SCHEDULE:
        kind, _, number = str(event.data.get("key")).partition(":")
        counter = _COUNTERS.get(kind)
        if counter is not None and number.isdecimal():
            setattr(root, counter, max(getattr(root, counter), int(number)))
    elif event.type in _POSITIONS and event.data.get("aside") is not True:
        count = event.data.get("count", 1) if event.data.get("source") in DRAWS else 1
        root.calls += count
        root.logged += count


def start_recording(settings: Settings, path: Path, parts: SessionResources) -> None:
    """Put into ``parts`` what is written, at ``path`` or, of a replay, where it is recorded."""
    mode = settings.mode
    if mode == "replay":
        if settings.into is not None and parts.fork_plan is not None:
            _start_branch(settings, settings.into, parts, parts.fork_plan)
        elif settings.into is not None:
            parts.sink = _sink(settings, settings.into, parts, replace=False)
            parts.sink.start(_seed(settings, parts, into=True))
            assert parts.source is not None
            parts.reader = parts.source.reopen()
            from reenact.store.sinks.copy import Copier

            parts.copier = Copier(parts.reader, parts.sink, parts.seal)
        return
    replace = mode in ("rewrite", *ADDING_MODES) or settings.overwrite or settings.append
    sink = _sink(settings, path, parts, replace=replace)
    if mode in ADDING_MODES or settings.append:
        from reenact.store.sinks.copy import CopyOnWriteSink

        parts.copy_sink = CopyOnWriteSink(
            sink,
            parts.source,
            seal=parts.seal,
            warn=settings.warn,
            is_kept=lambda event: settings.append or not _is_delivery(event),
            rest_fields=None if settings.append else {"position": None},
        )
        parts.copy_sink.start(_seed(settings, parts))
        parts.sink = parts.copy_sink
        if mode in ADDING_MODES and parts.source is not None and _begins_as_run(parts.source):
            parts.copy_sink.copy(1)
        if settings.append and parts.source is not None:
            parts.root = resumed_root_lane(parts.source)
            for seq in range(1, len(parts.source) + 1):
                parts.copy_sink.copy(seq)
        return
    sink.start(_seed(settings, parts))
    parts.sink = sink


class BufferedRecordings:
    """Opens the outside of sessions that record to memory first. All of them have the same policy and
    redactor: an app opens one for each request, so everything they share is made once."""

    def __init__(self, settings: Settings) -> None:
        self._redactor = settings.redactor()
        from reenact.store.sinks.buffered import PreparedCache

        self._prepared_cache = PreparedCache(self._redactor)
        self._free: set[str] = set()
        self._seed: Seed | None = None

    def open(self, settings: Settings) -> tuple[SessionResources, BufferedSink]:
        """Return the resources of one session, and its sink.

        The recording moves to ``settings.path`` if it is too large for memory.
        """
        from reenact.store.sinks.buffered import BufferedSink

        assert settings.path is not None
        clock = start_clock()
        options = Options(
            redactor=self._redactor, durability=settings.policy.durability, warn=settings.warn
        )
        sink = BufferedSink(
            settings.path, clock=clock, options=options, prepared_cache=self._prepared_cache
        )
        parts = SessionResources(
            clock,
            self._redactor,
            sink=sink,
            budget=RecordingBudget(settings.policy),
            share=sink.move_to_disk,
            is_brief=True,
            free=self._free,
        )
        sink.start(self._new_seed(settings, parts))
        return parts, sink

    def _new_seed(self, settings: Settings, parts: SessionResources) -> Seed:
        # A program may make more capabilities known while it runs.
        if self._seed is None or self._seed.capability_set != KNOWN.capability_set_hash():
            self._seed = _seed(settings, parts)
            return self._seed
        seed = again(self._seed, parts.clock)
        parts.run_id = seed.run_id
        return seed


def _start_branch(
    settings: Settings, into: Path, parts: SessionResources, branch: ForkPlan
) -> None:
    from reenact.store.sinks.copy import BranchSink

    assert parts.source is not None
    parts.reader = parts.source.reopen()
    sink = _sink(settings, into, parts, replace=False)
    parts.forks_to = BranchSink(sink, parts.reader, branch.point.cut, seal=parts.seal)
    parts.forks_to.start(fork_seed(settings, parts, into, branch))
    parts.sink = parts.forks_to


def fork_seed(settings: Settings, parts: SessionResources, path: Path, branch: ForkPlan) -> Seed:
    """Return the seed of a fork. It holds the draws that its parent holds."""
    assert parts.source is not None
    parent = parts.source.manifest()
    seed = make_seed(
        clock=parts.clock,
        redactor=parts.redactor,
        log="tape" if _is_tape(settings, path) else EVENTS,
        policy=PolicyRef(settings.policy.id, settings.pinned.digest),
        parent=Origin(parent.capture_id, branch.point.seq),
        mode="capture",
        capability_set=KNOWN.capability_set_hash(),
    )
    said = {
        name: parent.environment[name]
        for name in RECORDED_DRAW_SOURCES
        if name in parent.environment
    }
    return msgspec.structs.replace(seed, environment={**seed.environment, **said})


def join_fork(settings: Settings, parts: SessionResources) -> SessionResources:
    """Let this process write to a fork that a different process has started.

    ``parts`` reads the forked recording. The new one is ``settings.into``.
    """
    from reenact.store.sinks.copy import BranchSink

    folder = settings.into
    begun = None if folder is None else read_open(folder)
    if folder is None or begun is None or parts.source is None:
        raise SinkError(
            f"{folder} is not being recorded", hint="a process joins while the recording is open"
        )
    parts.reader = parts.source.reopen()
    sink = SegmentSink(folder, _options(settings, parts.redactor, tape=False))
    parts.forks_to = BranchSink(sink, parts.reader, 0, seal=parts.seal)
    parts.forks_to.start(begun.seed)
    parts.sink, parts.clock = parts.forks_to, begun.clock
    return parts


def _begins_as_run(source: SeekableSource) -> bool:
    """Return whether ``reenact run`` has recorded the start of the program."""
    return len(source) > 0 and source.at(1).type == "run_start" and "hashSeed" in source.at(1).data


def _is_delivery(event: Event) -> bool:
    """Return whether ``event`` is a delivery. Deliveries are recorded again where they happen."""
    return event.type == "nondeterministic" and event.data.get("source") == SCHEDULE


def _is_tape(settings: Settings, path: Path) -> bool:
    return settings.tape if path == settings.path else path.suffix == ".jsonl"


def _sink(settings: Settings, path: Path, parts: SessionResources, *, replace: bool) -> CopySink:
    tape = _is_tape(settings, path)
    options = _options(settings, parts.redactor, tape=tape)
    if tape:
        keeps = settings.mode in ("rewrite", *ADDING_MODES)
        from reenact.store.sinks.tape import TapeSink

        return TapeSink(path, clock=parts.clock, options=options, replace=replace, keeps=keeps)
    return DirectorySink(path, clock=parts.clock, options=options, replace=replace)


def _options(settings: Settings, redactor: Redactor, *, tape: bool) -> Options:
    seals = settings.seal and not tape and redactor.profile != "none"
    return Options(
        redactor=redactor,
        seal=own_seal() if seals else None,
        durability=settings.policy.durability,
        warn=settings.warn,
    )


def join_recording(settings: Settings) -> SessionResources:
    """Return the resources of a process that writes to a capture started by a different one."""
    path = settings.path
    begun = None if path is None else read_open(path)
    if path is None or begun is None:
        raise SinkError(
            f"{path} is not being recorded", hint="a process joins while the recording is open"
        )
    redactor = settings.redactor(begun.seed.redaction.profile)
    sink = SegmentSink(path, _options(settings, redactor, tape=False))
    sink.start(begun.seed)
    room, run_id = RecordingBudget(settings.policy), begun.seed.run_id
    return SessionResources(begun.clock, redactor, sink=sink, budget=room, run_id=run_id)


def open_without_output(settings: Settings, reason: str) -> SessionResources:
    """Return the resources of a recording session that cannot write.

    The program runs. The final manifest of the session has the status ``error`` and ``reason``.
    """
    from reenact.store.sinks.memory import MemorySink  # few sessions need it

    clock, redactor = start_clock(), settings.redactor()
    options = Options(redactor=redactor, warn=settings.warn)
    parts = SessionResources(clock, redactor, budget=RecordingBudget(settings.policy))
    sink = MemorySink(options=options, failure=reason)
    sink.start(_seed(settings, parts))
    parts.sink = sink
    return parts


def _seed(settings: Settings, parts: SessionResources, *, into: bool = False) -> Seed:
    path = settings.into if into else settings.path
    assert path is not None
    origin = None
    if into and parts.source is not None:
        manifest = parts.source.manifest()
        origin = Origin(manifest.capture_id, manifest.event_count)
    seed = make_seed(
        clock=parts.clock,
        redactor=parts.redactor,
        log="tape" if _is_tape(settings, path) else EVENTS,
        policy=PolicyRef(settings.policy.id, settings.pinned.digest),
        parent=origin,
        mode="replay" if into else "capture",
        capability_set=KNOWN.capability_set_hash(),
    )
    if settings.only is None:
        seed = msgspec.structs.replace(
            seed, environment={**seed.environment, **RECORDED_DRAW_SOURCES}
        )
    old = None if into else _replaced(settings, parts, path)
    if old is not None:  # what was drawn is what was recorded of it before, where that is added to
        from reenact.store.sinks.tape import with_old_identity

        seed = with_old_identity(
            seed, old, *(RECORDED_DRAW_SOURCES if parts.source is not None else ())
        )
    parts.run_id = seed.run_id
    return seed


def _replaced(settings: Settings, parts: SessionResources, path: Path) -> Seed | None:
    """Return the seed of the recording that this one replaces and continues, if any.

    That is one that is added to, or a tape that is recorded again.
    """
    if parts.source is not None:
        return parts.source.manifest()
    rewrites = settings.mode == "rewrite" and settings.tape and path.exists()
    if not rewrites:
        return None
    from reenact.store.sinks.tape import header_of

    return header_of(path)
