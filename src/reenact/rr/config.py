"""Configuration of a cassette, and opening the cassette that it names.

A configuration is an X07 cfg document or a mapping with the same fields. Opening follows the rules
of a session, with the errors in numbers.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final, Literal, Protocol

import msgspec
from msgspec import structs

from reenact.engine.session.factory import open_resources
from reenact.engine.session.resources import SessionResources
from reenact.engine.session.settings import MODES, Settings, mode_named, resolve_settings
from reenact.errors import (
    PathRefused,
    RecordingDamaged,
    RecordingError,
    RecordingExists,
    ReenactError,
    RrError,
    SinkError,
    UsageError,
    did_you_mean,
)
from reenact.format.event import Draft
from reenact.policy.access import Access
from reenact.policy.model import Budgets, Mode, SessionMode
from reenact.policy.paths import FIXTURES, cassette_path, find_root, rrbin_path
from reenact.rr.entries import (
    CFG_INVALID,
    CFG_VERSION,
    ENTRY_INVALID,
    OPEN_FAILED,
    TRUNCATED,
    Entry,
)
from reenact.rr.rrbin import SUFFIX, encode, is_cut_short
from reenact.store.sinks.base import Status
from reenact.store.warning import print_warning

__all__ = [
    "LIMITS",
    "MATCH_MODES",
    "Cfg",
    "Config",
    "EntrySink",
    "MatchMode",
    "Ready",
    "failed",
    "prepare_cassette",
    "read_cfg",
    "tighter",
]

Cfg = bytes | bytearray | memoryview | Mapping[str, Any]

MatchMode = Literal["lookup", "transcript"]
MATCH_MODES: Final[tuple[MatchMode, ...]] = ("lookup", "transcript")
"""In the order of their X07 numbers."""

LIMITS: Final = {
    "max_cassette_bytes": "cassette_bytes",
    "max_entries": "entries",
    "max_req_bytes": "request_bytes",
    "max_resp_bytes": "response_bytes",
    "max_key_bytes": "key_bytes",
}
"""The budgets of a cfg, in the order of the document, and what a policy calls them."""

_MAGIC = b"X7RC"
_VERSION = 1
_DOCUMENT = struct.Struct("<4sHHBBHQ5I")
"""Magic, version, 0, mode, match mode, 0, the five budgets, the length of the path behind it."""

_HINT = "see docs/guides/low-level.md for the fields"


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Parsed configuration. For None, the policy decides, then the default.

    ``path`` is not checked yet. ``budgets`` without a number are unlimited.
    """

    path: str
    mode: Mode | None = None
    match_mode: MatchMode | None = None
    budgets: Budgets = Budgets()
    append: bool = False
    overwrite: bool = False
    fixture_root: str | None = None
    policy: str | None = None


def read_cfg(cfg: Cfg, policy: str | bytes | None = None) -> Config:
    """Read a cfg. ``policy`` is the id of the policy, unless the cfg itself has it.

    Raises :class:`RrError` 2000 for an invalid cfg, 2001 for an unknown version.
    """
    config = _read(cfg)
    if policy is None:
        return config
    named = _policy(policy)
    if config.policy not in (None, named):
        raise _invalid(
            f"the cfg has the policy {config.policy!r:.64}, and the argument is {named!r:.64}",
            "give the policy once",
        )
    return msgspec.structs.replace(config, policy=named)


def _read(cfg: Cfg) -> Config:
    if isinstance(cfg, (bytes, bytearray, memoryview)):
        return _from_document(bytes(cfg))
    if isinstance(cfg, Mapping):
        return _from_mapping(cfg)
    raise _invalid(f"a cfg is bytes or a mapping, not {type(cfg).__name__}")


def _from_document(document: bytes) -> Config:
    if not document.startswith(_MAGIC) or len(document) < _DOCUMENT.size:
        raise _invalid(
            f"a cfg document starts with {_MAGIC.decode()} and has {_DOCUMENT.size} bytes and a "
            f"path; this one has {len(document)} bytes"
        )
    _, version, zero, mode, match, other_zero, *limits, length = _DOCUMENT.unpack_from(document)
    _check_version(version)
    if zero or other_zero:
        raise _invalid("the bytes 6, 7, 10 and 11 of a cfg document are 0")
    path = document[_DOCUMENT.size :]
    if len(path) != length:
        raise _invalid(f"the path has {length} bytes, and {len(path)} follow")
    return Config(
        path=_path(path),
        mode=_mode(mode),
        match_mode=_match_mode(match),
        budgets=Budgets(**dict(zip(LIMITS.values(), limits, strict=True))),
    )


def _from_mapping(cfg: Mapping[str, Any]) -> Config:
    for name in cfg:
        if name not in _FIELDS:
            raise _invalid(
                f"a cfg has no field {str(name)[:64]!r}", did_you_mean(str(name), _FIELDS)
            )
    _check_version(cfg.get("version", _VERSION))
    if "path" not in cfg:
        raise _invalid(
            "the cfg has no path", "a name below .reenact/cassettes, such as api/weather"
        )
    said = {name: read(cfg[name]) for name, read in _READERS.items() if name in cfg}
    budgets = {field: _limit(name, cfg.get(name)) for name, field in LIMITS.items()}
    config = Config(**said, budgets=Budgets(**budgets))
    _check_flags(config)
    return config


def _check_version(version: Any) -> None:
    if version != _VERSION:
        raise RrError(
            CFG_VERSION,
            f"this is a cfg of version {str(version)[:20]}; known is {_VERSION}",
            hint="update reenact, or write the cfg in version 1",
        )


def _check_flags(config: Config) -> None:
    if config.append and config.overwrite:
        raise _invalid("append and overwrite exclude each other", "say one of them")
    if (config.append or config.overwrite) and config.mode != "record":
        raise _invalid(
            "append and overwrite go with the mode record, and the cfg does not say it",
            "rewrite replaces, record_missing adds what is missing",
        )


def _path(path: Any) -> str:
    if not isinstance(path, (str, bytes)):
        raise _invalid(f"the path is text, not {type(path).__name__}")
    try:
        return path.decode() if isinstance(path, bytes) else path.encode().decode()
    except UnicodeError:
        raise _invalid("the path is not UTF-8") from None


def _policy(policy: Any) -> str:
    if not isinstance(policy, (str, bytes)):
        raise _invalid(
            f"the policy is the id of a pinned policy, not {type(policy).__name__}",
            "an id in .reenact/index.json, such as smoke_rr_v1",
        )
    return policy.decode("utf-8", "replace") if isinstance(policy, bytes) else policy


def _folder(path: Any) -> str | None:
    return None if path is None else _path(str(path) if isinstance(path, PurePath) else path)


def _mode(mode: Any) -> Mode:
    known = ", ".join(f"{number} {name}" for number, name in enumerate(MODES))
    try:
        named = mode_named(mode)
    except UsageError as error:
        raise _invalid(error.message, f"one of {known}") from None
    if named == "update":
        raise _invalid("the mode update is one of sessions", f"one of {known}")
    return named


def _match_mode(match: Any) -> MatchMode:
    for number, name in enumerate(MATCH_MODES):
        if match in (name, f"{name}_v1") or (type(match) is int and match == number):
            return name
    raise _invalid(f"there is no match mode {match!r:.64}", "one of 0 lookup, 1 transcript")


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _invalid(f"append and overwrite are True or False, not {type(value).__name__}")
    return value


def _limit(name: str, value: Any) -> int | None:
    if value is None or (type(value) is int and value >= 0):
        return value
    raise _invalid(
        f"{name} is {value!r:.64}, which is not a valid limit",
        "use a whole number; 0 means zero; omit it for unlimited",
    )


def _invalid(message: str, hint: str = _HINT) -> RrError:
    return RrError(CFG_INVALID, message, hint=hint)


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "path": _path,
    "mode": _mode,
    "match_mode": _match_mode,
    "append": _flag,
    "overwrite": _flag,
    "fixture_root": _folder,
    "policy": _policy,
}
_FIELDS = frozenset({"version", *_READERS, *LIMITS})


def tighter(one: Budgets, other: Budgets) -> Budgets:
    """Return the smaller limit of both for each budget."""
    both = ((field, getattr(one, field), getattr(other, field)) for field in LIMITS.values())
    return Budgets(
        **{field: min((n for n in pair if n is not None), default=None) for field, *pair in both}
    )


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
