"""Opening a cassette: what a session would open, with the errors in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from reenact.engine.opening import Opened, open_parts
from reenact.engine.settings import Settings, settle
from reenact.errors import (
    PathRefused,
    RecordingDamaged,
    RecordingError,
    RecordingExists,
    ReenactError,
    RrError,
    SinkError,
)
from reenact.policy.access import Access
from reenact.policy.rules import Budgets, Pinned, SessionMode
from reenact.rr.cfg import Config, MatchMode
from reenact.rr.meter import tighter
from reenact.rr.numbers import CFG_INVALID, OPEN_FAILED, TRUNCATED
from reenact.store.warning import print_warning

__all__ = ["Ready", "failed", "prepare_cassette"]

_CLOSING = b'{"closed":'


@dataclass(frozen=True, slots=True)
class Ready:
    """Everything that was decided and opened. ``access`` knows the kinds and ops of the index."""

    mode: SessionMode
    match_mode: MatchMode
    path: Path
    budgets: Budgets
    access: Access
    settings: Settings
    parts: Opened


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
    return Ready(
        mode=settings.mode,
        match_mode=matches,
        path=path,
        budgets=tighter(config.budgets, policy.budgets),
        access=_access(settings.pinned),
        settings=settings,
        parts=_opened(settings, path),
    )


def _settled(config: Config) -> Settings:
    try:
        return settle(
            config.path,
            capture=None,
            tape=None,
            mode=config.mode,
            policy=None,
            strict=True,
            unused="allow",
            match=config.match_mode,
            ignore=None,
            root=None,
            fixture_root=config.fixture_root,
            warn=print_warning,
            append=config.append,
            overwrite=config.overwrite,
            seal=False,
        )
    except PathRefused as error:
        hint = error.hint.partition(";")[0]  # a session could open a file anywhere
        raise RrError(CFG_INVALID, error.message, hint=hint) from None


def _access(pinned: Pinned) -> Access:
    """Kinds and ops only. What a program may *do* is asked where it does it, which is not here."""
    free = structs.replace(pinned.policy, capabilities=None, boundaries=())
    return Access(structs.replace(pinned, policy=free))


def _opened(settings: Settings, path: Path) -> Opened:
    if settings.mode != "off" and path.is_dir():
        raise RrError(
            OPEN_FAILED,
            f"{path} is a folder, not a cassette",
            hint="a capture directory is opened with reenact.session(capture=PATH)",
        )
    try:
        return open_parts(settings)
    except (RecordingError, SinkError) as error:
        raise failed(path, error) from None
    except OSError as error:
        raise RrError(
            OPEN_FAILED, f"{path} cannot be opened: {error.strerror}", hint="check the path"
        ) from None


def failed(path: Path, error: ReenactError) -> RrError:
    """``error`` of the store, in our numbers."""
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
    except OSError:  # not readable is another problem than cut short
        return False
    return not (last.startswith(_CLOSING) and last.endswith(b"\n"))
