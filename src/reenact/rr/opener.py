"""Opening a cassette: what a session would open, with the errors in numbers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from msgspec import structs

from reenact.engine.session.factory import open_resources
from reenact.engine.session.resources import SessionResources
from reenact.engine.session.settings import Settings, resolve_settings
from reenact.errors import (
    PathRefused,
    RecordingDamaged,
    RecordingError,
    RecordingExists,
    ReenactError,
    RrError,
    SinkError,
)
from reenact.format.event import Draft
from reenact.policy.access import Access
from reenact.policy.model import Budgets, SessionMode
from reenact.policy.paths import FIXTURES, cassette_path, find_root, rrbin_path
from reenact.rr.config import Config, MatchMode, tighter
from reenact.rr.entries import Entry
from reenact.rr.error_codes import CFG_INVALID, ENTRY_INVALID, OPEN_FAILED, TRUNCATED
from reenact.rr.rrbin import SUFFIX, encode, is_cut_short
from reenact.store.sinks.base import Status
from reenact.store.warning import print_warning

__all__ = ["EntrySink", "Ready", "failed", "prepare_cassette"]

_CLOSING = b'{"closed":'


class EntrySink(Protocol):
    """The part of :class:`reenact.store.sinks.base.Sink` that writes entries."""

    def append(self, event: Draft) -> int:
        """Redact and write one entry. Return 0 if it was not written."""

    def finalize(self, status: Status = "ok", error: str | None = None) -> object:
        """Complete the cassette."""

    def leave(self) -> None:
        """In a forked child: write nothing more."""

    def discard(self) -> None:
        """Remove what was written."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Opened cassette with its settings. ``access`` contains the kinds and operations of the index."""

    mode: SessionMode
    match_mode: MatchMode
    path: Path
    budgets: Budgets
    access: Access
    settings: Settings
    parts: SessionResources
    sink: EntrySink | None

    def give_up(self) -> None:
        """Remove what was to be written and close what was opened."""
        if self.sink is not None:
            self.sink.discard()
        self.parts.close()

    def size_of(self, entry: Entry, payload: bytes, number: int) -> int:
        """Return the size of ``entry`` for the budgets: of its frame, as entry ``number`` of an X07
        cassette, or of the event's ``payload`` on a tape."""
        return len(encode(entry, number)) if self.path.suffix == SUFFIX else len(payload)


def prepare_cassette(config: Config) -> Ready:
    """Open what ``config`` names.

    Raises :class:`RrError` 2000, 2002 or 2014. A mode or world that the index forbids is a
    :class:`PolicyRefused`, a policy that cannot be read a :class:`PolicyInvalid`, as everywhere.
    """
    settings = _settled(config)
    policy = settings.policy
    path = settings.path
    assert path is not None  # the cfg has one
    matches: MatchMode = "transcript" if policy.match == "transcript" else "lookup"
    # Our meter counts from here on: the same bytes when an entry is written and when it is read.
    unmetered = structs.replace(policy, budgets=Budgets())
    unlimited = structs.replace(settings.pinned, policy=unmetered)
    settings = structs.replace(settings, pinned=unlimited)
    budgets = tighter(config.budgets, policy.budgets)
    parts, sink = _opened(settings, path, budgets)
    return Ready(
        mode=settings.mode,
        match_mode=matches,
        path=path,
        budgets=budgets,
        access=Access(settings.pinned),
        settings=settings,
        parts=parts,
        sink=sink,
    )


def _settled(config: Config) -> Settings:
    root = find_root(Path.cwd(), os.environ)
    fixtures = config.fixture_root
    if fixtures is None:
        fixtures = os.environ.get(FIXTURES) or None
    is_x07 = config.path.endswith(SUFFIX)
    try:
        place = rrbin_path(root, config.path, fixture_root=fixtures) if is_x07 else None
        settings = resolve_settings(
            None if is_x07 else config.path,
            capture=None,
            tape=place,
            mode=config.mode,
            policy=config.policy,
            strict=True,
            unused="allow",
            match=config.match_mode,
            ignore=None,
            root=root,
            fixture_root=fixtures,
            warn=print_warning,
            append=config.append,
            overwrite=config.overwrite,
            seal=False,
        )
        if place is not None and settings.mode == "replay" and not place.exists():
            imported = cassette_path(root, config.path, fixture_root=fixtures, writing=False)
            if imported.exists():
                return structs.replace(settings, path=imported)
        return settings
    except PathRefused as error:
        hint = error.hint.partition(";")[0]  # a session could open a file anywhere
        raise RrError(CFG_INVALID, error.message, hint=hint) from None


def _opened(
    settings: Settings, path: Path, budgets: Budgets
) -> tuple[SessionResources, EntrySink | None]:
    if settings.mode != "off" and path.is_dir():
        raise RrError(
            OPEN_FAILED,
            f"{path} is a folder, not a cassette",
            hint="a capture directory is opened with reenact.session(capture=PATH)",
        )
    try:
        if path.suffix != SUFFIX:
            parts = open_resources(settings)
            return parts, parts.sink
        from reenact.rr.rrbin_files import open_rrbin  # few programs have X07 cassettes

        return open_rrbin(settings, path, budgets.cassette_bytes)
    except (RecordingError, SinkError) as error:
        raise failed(path, error) from None
    except OSError as error:
        raise RrError(
            OPEN_FAILED, f"{path} cannot be opened: {error.strerror}", hint="check the path"
        ) from None


def failed(path: Path, error: ReenactError) -> RrError:
    """``error`` of the store, in our numbers."""
    if path.suffix == SUFFIX and isinstance(error, RecordingDamaged):
        number = TRUNCATED if is_cut_short(error) else ENTRY_INVALID
        return RrError(number, error.message, hint=error.hint or "copy the file again")
    if isinstance(error, RecordingDamaged) and _is_cut_short(path):
        return RrError(
            TRUNCATED,
            f"{path} is cut short: {error.message}",
            hint="restore the cassette from a copy, or record it again with the mode rewrite",
        )
    hint = error.hint
    if isinstance(error, RecordingExists) and path.exists():
        hint = (
            "the mode rewrite replaces it and record_missing adds to it; a cfg that is a mapping "
            "may also say append or overwrite"
        )
    return RrError(OPEN_FAILED, error.message, hint=hint)


def _is_cut_short(path: Path) -> bool:
    """Does the tape end before its closing line does?"""
    last = b""
    try:
        with path.open("rb") as file:
            for line in file:
                last = line
    except OSError:  # an unreadable file is a different problem
        return False
    return not (last.startswith(_CLOSING) and last.endswith(b"\n"))
