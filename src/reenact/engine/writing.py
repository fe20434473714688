"""Starting what a session writes. Loaded where one writes: few replays do."""

from __future__ import annotations

from pathlib import Path

import msgspec

from reenact._system import start_clock
from reenact.engine.branch import Branch
from reenact.engine.call import SCHEDULE
from reenact.engine.drawing import SAYS_DRAWS
from reenact.engine.opening import Opened, open_parts
from reenact.engine.resuming import root_after
from reenact.engine.room import Room
from reenact.engine.settings import ADDS, Settings
from reenact.errors import SinkError
from reenact.format.event import Event
from reenact.format.manifest import Origin, PolicyRef, Seed
from reenact.policy.capabilities import KNOWN
from reenact.policy.redaction import Redactor
from reenact.store.branching import BranchSink
from reenact.store.buffered import BufferedSink, Recurring
from reenact.store.copying import Copier, LateSink
from reenact.store.directory import DirectorySink
from reenact.store.joining import GuestSink, read_open
from reenact.store.layout import EVENTS
from reenact.store.recording import again, make_seed
from reenact.store.seal import own_seal
from reenact.store.sink import CopySink, Options
from reenact.store.source import SeekableSource
from reenact.store.steady import as_before, header_of
from reenact.store.tape_sink import TapeSink

__all__ = [
    "Buffered",
    "branch_seed",
    "open_guest",
    "open_joined_branch",
    "open_unwritten",
    "start_writing",
]


def start_writing(settings: Settings, path: Path, parts: Opened) -> None:
    """Put into ``parts`` what is written, at ``path`` or, of a replay, where it is recorded."""
    mode = settings.mode
    if mode == "replay":
        if settings.into is not None and parts.branch is not None:
            _start_branch(settings, settings.into, parts, parts.branch)
        elif settings.into is not None:
            parts.sink = _sink(settings, settings.into, parts, replace=False)
            parts.sink.start(_seed(settings, parts, into=True))
            assert parts.source is not None
            parts.reader = parts.source.reopen()
            parts.copier = Copier(parts.reader, parts.sink, parts.seal)
        return
    replace = mode in ("rewrite", *ADDS) or settings.overwrite or settings.append
    sink = _sink(settings, path, parts, replace=replace)
    if mode in ADDS or settings.append:
        parts.late = LateSink(
            sink,
            parts.source,
            seal=parts.seal,
            warn=settings.warn,
            is_kept=lambda event: settings.append or not _is_delivery(event),
            rest_fields=None if settings.append else {"position": None},
        )
        parts.late.start(_seed(settings, parts))
        parts.sink = parts.late
        if mode in ADDS and parts.source is not None and _begins_as_run(parts.source):
            parts.late.copy(1)
        if settings.append and parts.source is not None:
            parts.root = root_after(parts.source)
            for seq in range(1, len(parts.source) + 1):
                parts.late.copy(seq)
        return
    sink.start(_seed(settings, parts))
    parts.sink = sink


class Buffered:
    """Opens the outside of sessions that record to memory first. All of them have the same policy and
    redactor: an app opens one for each request, so everything they share is made once."""

    def __init__(self, settings: Settings) -> None:
        self._redactor = settings.redactor()
        self._recurring = Recurring(self._redactor)
        self._free: set[str] = set()
        self._seed: Seed | None = None

    def open(self, settings: Settings) -> tuple[Opened, BufferedSink]:
        """The outside of one session, and its sink. ``settings.path`` is where the recording goes
        when memory does not suffice."""
        assert settings.path is not None
        clock = start_clock()
        options = Options(
            redactor=self._redactor, durability=settings.policy.durability, warn=settings.warn
        )
        sink = BufferedSink(settings.path, clock=clock, options=options, recurring=self._recurring)
        parts = Opened(
            clock,
            self._redactor,
            sink=sink,
            room=Room(settings.policy),
            share=sink.move_to_disk,
            is_brief=True,
            free=self._free,
        )
        sink.start(self._new_seed(settings, parts))
        return parts, sink

    def _new_seed(self, settings: Settings, parts: Opened) -> Seed:
        # A program may make more capabilities known while it runs.
        if self._seed is None or self._seed.capability_set != KNOWN.capability_set_hash():
            self._seed = _seed(settings, parts)
            return self._seed
        seed = again(self._seed, parts.clock)
        parts.run_id = seed.run_id
        return seed


def _start_branch(settings: Settings, into: Path, parts: Opened, branch: Branch) -> None:
    assert parts.source is not None
    parts.reader = parts.source.reopen()
    sink = _sink(settings, into, parts, replace=False)
    parts.forks_to = BranchSink(sink, parts.reader, branch.point.cut, seal=parts.seal)
    parts.forks_to.start(branch_seed(settings, parts, into, branch))
    parts.sink = parts.forks_to


def branch_seed(settings: Settings, parts: Opened, path: Path, branch: Branch) -> Seed:
    """What is known of a fork when it starts. It holds the draws that its parent holds."""
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
    said = {name: parent.environment[name] for name in SAYS_DRAWS if name in parent.environment}
    return msgspec.structs.replace(seed, environment={**seed.environment, **said})


def open_joined_branch(settings: Settings) -> Opened:
    """The outside of a session for a process that takes part in a fork which another one has
    started: it reads the forked recording, and writes to the new one, ``into``."""
    parts = open_parts(msgspec.structs.replace(settings, into=None))
    folder = settings.into
    begun = None if folder is None else read_open(folder)
    if folder is None or begun is None or parts.source is None:
        raise SinkError(
            f"{folder} is not being recorded", hint="a process joins while the recording is open"
        )
    parts.reader = parts.source.reopen()
    sink = GuestSink(folder, _options(settings, parts.redactor, tape=False))
    parts.forks_to = BranchSink(sink, parts.reader, 0, seal=parts.seal)
    parts.forks_to.start(begun.seed)
    parts.sink, parts.clock = parts.forks_to, begun.clock
    return parts


def _begins_as_run(source: SeekableSource) -> bool:
    """Has ``reenact run`` said how the program was started? The program does not say it again."""
    return len(source) > 0 and source.at(1).type == "run_start" and "hashSeed" in source.at(1).data


def _is_delivery(event: Event) -> bool:
    """Deliveries are recorded anew, at the places where they happen now."""
    return event.type == "nondeterministic" and event.data.get("source") == SCHEDULE


def _is_tape(settings: Settings, path: Path) -> bool:
    return settings.tape if path == settings.path else path.suffix == ".jsonl"


def _sink(settings: Settings, path: Path, parts: Opened, *, replace: bool) -> CopySink:
    tape = _is_tape(settings, path)
    options = _options(settings, parts.redactor, tape=tape)
    if tape:
        keeps = settings.mode in ("rewrite", *ADDS)
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


def open_guest(settings: Settings) -> Opened:
    """The outside of a session for a process that writes to a capture which another one has
    started."""
    path = settings.path
    begun = None if path is None else read_open(path)
    if path is None or begun is None:
        raise SinkError(
            f"{path} is not being recorded", hint="a process joins while the recording is open"
        )
    redactor = settings.redactor(begun.seed.redaction.profile)
    sink = GuestSink(path, _options(settings, redactor, tape=False))
    sink.start(begun.seed)
    room, run_id = Room(settings.policy), begun.seed.run_id
    return Opened(begun.clock, redactor, sink=sink, room=room, run_id=run_id)


def open_unwritten(settings: Settings, reason: str) -> Opened:
    """The outside of a session that records, where nothing can be written: the program runs, and the
    manifest that the session has at its end has the status ``error`` and this ``reason``."""
    from reenact.store.memory import MemorySink  # few sessions need it

    clock, redactor = start_clock(), settings.redactor()
    options = Options(redactor=redactor, warn=settings.warn)
    parts = Opened(clock, redactor, room=Room(settings.policy))
    sink = MemorySink(options=options, failure=reason)
    sink.start(_seed(settings, parts))
    parts.sink = sink
    return parts


def _seed(settings: Settings, parts: Opened, *, into: bool = False) -> Seed:
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
        seed = msgspec.structs.replace(seed, environment={**seed.environment, **SAYS_DRAWS})
    old = None if into else _replaced(settings, parts, path)
    if old is not None:  # what was drawn is what was recorded of it before, where that is added to
        seed = as_before(seed, old, *(SAYS_DRAWS if parts.source is not None else ()))
    parts.run_id = seed.run_id
    return seed


def _replaced(settings: Settings, parts: Opened, path: Path) -> Seed | None:
    """What is known of the recording that this one takes the place of, if it is to stay the same
    recording: one that is added to, or a tape that is recorded again."""
    if parts.source is not None:
        return parts.source.manifest()
    rewrites = settings.mode == "rewrite" and settings.tape and path.exists()
    return header_of(path) if rewrites else None
