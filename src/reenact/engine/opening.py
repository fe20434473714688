"""Opening what a session reads and writes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from reenact._system import Clock, start_clock
from reenact.engine.lanes import Lane
from reenact.engine.room import Room, recorded_calls, recorded_size
from reenact.engine.settings import ADDS, Settings
from reenact.errors import RecordingMissing, UsageError
from reenact.policy.access import over_bytes, over_entries
from reenact.policy.places import rrbin_of
from reenact.policy.redaction import Redactor
from reenact.policy.rules import DEFAULT
from reenact.store.files import unwritable
from reenact.store.reading import open_recording, unreadable
from reenact.store.seal import Seal, key_path, load_key
from reenact.store.source import LogSource, SeekableSource
from reenact.store.tape import part_path

if TYPE_CHECKING:
    from reenact.engine.branch import Branch
    from reenact.store.branching import BranchSink
    from reenact.store.copying import Copier, LateSink
    from reenact.store.sink import CopySink

__all__ = ["Opened", "open_parts"]


class Opened(msgspec.Struct):
    """The outside of a session. ``late`` and ``copier`` take events of ``source``: where a
    recording is added to, and where a replay is recorded."""

    clock: Clock
    redactor: Redactor
    source: SeekableSource | None = None
    sink: CopySink | LateSink | BranchSink | None = None
    late: LateSink | None = None
    copier: Copier | None = None
    seal: Seal | None = None
    reader: SeekableSource | None = None
    """The second reader of ``source``, from which ``copier`` copies."""
    room: Room = msgspec.field(default_factory=lambda: Room(DEFAULT))
    root: Lane | None = None
    """The root lane of the program, where a recording goes on."""
    run_id: str = ""
    """Of what is written."""
    branch: Branch | None = None
    """How the run is forked."""
    forks_to: BranchSink | None = None
    """What takes events of ``source`` there."""
    share: Callable[[], None] | None = None
    """Called before another process joins: puts what is written where that process finds it."""
    is_brief: bool = False
    """The session ends soon, and perhaps without a call: its parts are made when they are needed."""
    free: set[str] = msgspec.field(default_factory=set)
    """Sources whose draws the policy lets through, as far as that is known."""

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
    try:
        source = _source(settings, settings.path)
    except OSError as error:  # a folder that must not be listed, a name that is too long
        reads = settings.mode == "replay"
        raise (unreadable if reads else unwritable)(settings.path, error) from None
    profile = source.manifest().redaction.profile if source is not None else None
    parts = Opened(clock, settings.redactor(profile), source, seal=_own_key(source))
    try:
        parts.room = _room(settings, settings.path, source)
        if settings.fork is not None and source is not None:
            from reenact.engine.branch import make_branch

            parts.branch = make_branch(source, settings.fork, parts.seal, settings.alter)
        if settings.mode != "replay" or settings.into is not None:
            from reenact.engine.writing import start_writing

            start_writing(settings, settings.path, parts)
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
        if settings.tape:
            message, option = f"{path} is a directory, and a tape is a file", "capture"
        else:
            message, option = f"{path} is a file, and a capture is a directory", "tape"
        raise UsageError(message, hint=f"session({option}={str(path)!r}), or another path")
    if settings.mode == "replay":
        return _open(path)
    wanted = settings.mode in ADDS or settings.append
    # One that was never finished is not nothing: opening it says what to do.
    exists = path.exists() or (settings.tape and part_path(path).exists())
    is_new = not settings.tape and path.is_dir() and not any(path.iterdir())
    return _open(path) if wanted and exists and not is_new else None


def _open(path: Path) -> LogSource:
    try:
        return open_recording(path)
    except RecordingMissing as error:
        x07 = rrbin_of(path)
        hint = f"record it first: mode='record'; {error.hint}"
        if x07 is not None:
            to = "" if x07.parent == path.parent else f" -o {path}"
            hint = f"reenact import {x07}{to}, or open {x07.name} with reenact.rr"
        raise RecordingMissing(error.message, hint=hint) from None


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
    return Room(
        DEFAULT if settings.mode == "replay" and settings.fork is None else policy,
        entries=entries,
        size=size,
        counts_kept=settings.mode == "update",
    )
