"""Opening what a session reads and writes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from reenact._system import Clock, start_clock
from reenact.engine.call import SCHEDULE
from reenact.engine.lanes import Lane
from reenact.engine.resuming import root_after
from reenact.engine.room import Room, recorded_calls, recorded_size
from reenact.engine.settings import Settings
from reenact.errors import RecordingMissing, SinkError, UsageError
from reenact.format.event import Event
from reenact.format.manifest import Origin, PolicyRef, Seed
from reenact.policy.access import over_bytes, over_entries
from reenact.policy.capabilities import KNOWN
from reenact.policy.redaction import Redactor
from reenact.policy.rules import DEFAULT
from reenact.store.copying import Copier, LateSink
from reenact.store.directory import DirectorySink
from reenact.store.joining import GuestSink, read_open
from reenact.store.layout import EVENTS
from reenact.store.reading import open_recording
from reenact.store.recording import make_seed, own_seal
from reenact.store.seal import Seal, key_path, load_key
from reenact.store.sink import CopySink, Options
from reenact.store.source import LogSource, SeekableSource
from reenact.store.tape import part_path
from reenact.store.tape_sink import TapeSink

__all__ = ["Opened", "open_guest", "open_parts"]


@dataclass(slots=True)
class Opened:
    """The outside of a session. ``late`` and ``copier`` take events of ``source``: where a
    recording is added to, and where a replay is recorded."""

    clock: Clock
    redactor: Redactor
    source: SeekableSource | None = None
    sink: CopySink | LateSink | None = None
    late: LateSink | None = None
    copier: Copier | None = None
    seal: Seal | None = None
    reader: SeekableSource | None = None
    """The second reader of ``source``, from which ``copier`` copies."""
    room: Room = field(default_factory=lambda: Room(DEFAULT))
    root: Lane | None = None
    """The root lane of the program, where a recording goes on."""

    def give_up(self) -> None:
        """The session will not open: nothing is left of what was to be written."""
        if self.sink is not None:
            self.sink.discard()
        self.close()

    def close(self) -> None:
        """Close what is read."""
        for source in (self.source, self.reader):
            if source is not None:
                source.close()


def open_parts(settings: Settings) -> Opened:
    """Open the recording that is read and start the one that is written.

    Everything that can be refused is refused here, before the body of the session runs.
    """
    clock = start_clock()
    if settings.mode == "off" or settings.path is None:
        return Opened(clock, settings.redactor())
    source = _source(settings, settings.path)
    profile = source.manifest().redaction.profile if source is not None else None
    parts = Opened(clock, settings.redactor(profile), source, seal=_own_key(source))
    try:
        parts.room = _room(settings, settings.path, source)
        _start_writing(settings, settings.path, parts)
    except BaseException:
        parts.close()
        raise
    return parts


def _own_key(source: SeekableSource | None) -> Seal | None:
    """The user's key, where the recording has values that it opens."""
    if source is None or source.manifest().sealed is None:
        return None
    key = load_key(key_path(dict(os.environ)))
    return None if key is None else Seal(key)


def _source(settings: Settings, path: Path) -> LogSource | None:
    if path.exists() and settings.tape == path.is_dir():
        said, is_ = ("tape", "capture") if settings.tape else ("capture", "tape")
        raise UsageError(f"{path} is a {is_}, not a {said}", hint=f"session({is_}={str(path)!r})")
    if settings.mode == "replay":
        return _open(path)
    wanted = settings.mode == "record_missing" or settings.append
    # One that was never finished is not nothing: opening it says what to do.
    exists = path.exists() or (settings.tape and part_path(path).exists())
    is_new = not settings.tape and path.is_dir() and not any(path.iterdir())
    return _open(path) if wanted and exists and not is_new else None


def _open(path: Path) -> LogSource:
    try:
        return open_recording(path)
    except RecordingMissing as error:
        raise RecordingMissing(
            error.message, hint=f"record it first: mode='record'; {error.hint}"
        ) from None


def _room(settings: Settings, path: Path, source: LogSource | None) -> Room:
    """What the policy leaves to be recorded. Raises :class:`BudgetExceeded` for a recording that
    is over its budgets: it is not replayed, either."""
    policy = settings.policy
    if source is None:
        return Room(policy)
    size = recorded_size(path, source.manifest())
    # Reading every event takes long, and often the number of events says enough.
    entries = source.manifest().event_count
    if policy.budgets.entries is not None and entries > policy.budgets.entries:
        entries = recorded_calls(source)
    refusal = over_bytes(policy, size) or over_entries(policy, entries)
    if refusal is not None:
        raise refusal
    return Room(DEFAULT if settings.mode == "replay" else policy, entries=entries, size=size)


def _start_writing(settings: Settings, path: Path, parts: Opened) -> None:
    mode = settings.mode
    if mode == "replay":
        if settings.into is not None:
            parts.sink = _sink(settings, settings.into, parts, replace=False)
            parts.sink.start(_seed(settings, parts, into=True))
            assert parts.source is not None
            parts.reader = parts.source.reopen()
            parts.copier = Copier(parts.reader, parts.sink, parts.seal)
        return
    replace = mode in ("rewrite", "record_missing") or settings.overwrite or settings.append
    sink = _sink(settings, path, parts, replace=replace)
    if mode == "record_missing" or settings.append:
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
        if settings.append and parts.source is not None:
            parts.root = root_after(parts.source)
            for seq in range(1, len(parts.source) + 1):
                parts.late.copy(seq)
        return
    sink.start(_seed(settings, parts))
    parts.sink = sink


def _is_delivery(event: Event) -> bool:
    """Deliveries are recorded anew, at the places where they happen now."""
    return event.type == "nondeterministic" and event.data.get("source") == SCHEDULE


def _is_tape(settings: Settings, path: Path) -> bool:
    return settings.tape if path == settings.path else path.suffix == ".jsonl"


def _sink(settings: Settings, path: Path, parts: Opened, *, replace: bool) -> CopySink:
    tape = _is_tape(settings, path)
    options = _options(settings, parts.redactor, tape=tape)
    if tape:
        return TapeSink(path, clock=parts.clock, options=options, replace=replace)
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
    """The same for a process that writes to a capture which another one has started."""
    path = settings.path
    begun = None if path is None else read_open(path)
    if path is None or begun is None:
        raise SinkError(
            f"{path} is not being recorded", hint="a process joins while the recording is open"
        )
    redactor = settings.redactor(begun.seed.redaction.profile)
    sink = GuestSink(path, _options(settings, redactor, tape=False))
    sink.start(begun.seed)
    return Opened(begun.clock, redactor, sink=sink, room=Room(settings.policy))


def _seed(settings: Settings, parts: Opened, *, into: bool = False) -> Seed:
    path = settings.into if into else settings.path
    assert path is not None
    origin = None
    if into and parts.source is not None:
        manifest = parts.source.manifest()
        origin = Origin(manifest.capture_id, manifest.event_count)
    return make_seed(
        clock=parts.clock,
        redactor=parts.redactor,
        log="tape" if _is_tape(settings, path) else EVENTS,
        policy=PolicyRef(settings.policy.id, settings.pinned.digest),
        parent=origin,
        mode="replay" if into else "capture",
        capability_set=KNOWN.capability_set_hash(),
    )
