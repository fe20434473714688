"""Cassettes of tests: mode, file and session; also cassettes that a class or module shares.

A shared cassette has one part per test. A part consists of the events of one lane. The lane number
is derived from the name of the test, and its first event contains the name. So a test can be
replayed and recorded independently of the others, in any order and process. Writers rewrite the
complete file, one at a time.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import msgspec
import pytest

from reenact._system import start_clock
from reenact.boundaries.registry import PATCHES
from reenact.engine.call import CAPABILITIES
from reenact.engine.divergence.model import TEST_REMEDIES
from reenact.engine.session.session import Session
from reenact.engine.session.settings import Settings, resolve_settings
from reenact.errors import PathRefused, RecordingExists, RecordingMissing, UsageError, did_you_mean
from reenact.format.event import ROOT_LANE, Data, Draft, Event, lane_order
from reenact.format.manifest import Manifest, Seed
from reenact.policy.paths import FIXTURES, find_root, has_policies, unsafe_reason
from reenact.policy.paths import cassette_path as project_cassette_path
from reenact.policy.redaction.redactor import Profile, Redactor
from reenact.pytest_plugin.cassette_marker import (
    CASSETTE_TESTS,
    MODES,
    CassetteRequest,
    request_of,
    scope_of,
)
from reenact.pytest_plugin.options import (
    allow_option,
    mode_option,
    only_option,
    policy_option,
    setting,
    strict_option,
)
from reenact.store.reader import open_recording
from reenact.store.sinks.base import Options
from reenact.store.sinks.copy import Copier
from reenact.store.sinks.tape import TapeSink
from reenact.store.source import LogSource

if TYPE_CHECKING:
    from reenact.pytest_plugin.item_session import ItemSession

__all__ = [
    "Choice",
    "Part",
    "cassette_path",
    "check_not_shared",
    "choose_for",
    "choose_mode",
    "command",
    "default_name",
    "key_of",
    "open_session",
    "path_from_root",
    "project_root",
    "tests_by_cassette",
]

_BEGIN = "run_start"


class Part:
    """Part of the test ``name`` in the tape ``path``, which can be missing."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        number = crc32(name.encode("utf-8", "surrogatepass")) + 1
        self.lane = f"{ROOT_LANE}.{number}"

    def _has(self, event: Event) -> bool:
        return event.lane == self.lane or event.lane.startswith(f"{self.lane}.")

    def is_there(self) -> bool:
        """Return True if the test has been recorded. Raises the errors of opening a recording."""
        if not self.path.exists():
            return False
        with open_recording(self.path) as source:
            return any(event.type == _BEGIN and self._has(event) for event in source)

    def profile(self) -> Profile | None:
        """Return the redaction profile of the cassette, which all parts must use; None if it is
        missing."""
        if not self.path.exists():
            return None
        with open_recording(self.path) as source:
            return source.manifest().redaction.profile

    def take_out(self, target: Path) -> None:
        """Copy the part to a separate tape."""
        with open_recording(self.path) as source:
            pieces = [_Piece(source, event) for event in source if self._has(event)]
            _write(target, pieces, source.manifest())

    def put_back(self, own: Path) -> None:
        """Replace the part with the tape ``own``. The other parts are unchanged."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(self.path), open_recording(own) as source:
            mine = [_Piece(source, event) for event in source]
            if not any(piece.event.type == _BEGIN for piece in mine):
                mine.insert(0, _Piece(None, self._beginning(source.manifest())))
            if not self.path.exists():
                _write(self.path, mine, source.manifest())
                return
            with open_recording(self.path) as old:
                others = [_Piece(old, event) for event in old if not self._has(event)]
                _write(self.path, _sorted([*others, *mine]), old.manifest())

    def _beginning(self, manifest: Manifest) -> Draft:
        data: Data = {"sessionKey": self.name}
        return Draft(type=_BEGIN, data=data, ts=manifest.created_at, lane=self.lane, op=_BEGIN)


class _Piece(msgspec.Struct, frozen=True):
    """Event of a recording, or a new event without a source."""

    source: LogSource | None
    event: Event | Draft


def _sorted(pieces: list[_Piece]) -> list[_Piece]:
    """Sort by part. The order inside a part is unchanged."""
    return sorted(pieces, key=lambda piece: lane_order(piece.event.lane)[:2])


def _write(target: Path, pieces: list[_Piece], like: Manifest) -> None:
    """Write events to a tape, without redaction, because they are already redacted."""
    values = {name: getattr(like, name) for name in Seed.__struct_fields__}
    options = Options(redactor=Redactor("none"))
    sink = TapeSink(target, clock=start_clock(), options=options, replace=True)
    sink.start(msgspec.structs.replace(Seed(**values), event_log_path="tape"))
    copiers: dict[int, Copier] = {}
    for piece in pieces:
        if piece.source is None or not isinstance(piece.event, Event):
            assert isinstance(piece.event, Draft)
            sink.append(piece.event)
            continue
        copier = copiers.get(id(piece.source)) or Copier(piece.source, sink)
        copiers[id(piece.source)] = copier
        copier.copy(piece.event.seq)
    sink.finalize("ok")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold an exclusive lock for writing. Its file is in the temporary folder of the system."""
    name = sha256(os.fsencode(path.absolute())).hexdigest()[:32]
    lock = Path(tempfile.gettempdir()) / f"reenact-{os.getuid()}-{name}.lock"
    with lock.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


_FOLDERS = frozenset({"tmp_path", "tmp_path_factory", "tmpdir", "tmpdir_factory"})
"""Fixtures that create temporary folders."""


def choose_for(item: pytest.Item) -> Choice:
    """Choose mode and file of the session of ``item``. Raises an error if it can have none."""
    choice = choose_mode(item, request_of(item))
    if choice.writes:
        check_not_shared(item, item.config.stash.get(CASSETTE_TESTS, {}))
    return choice


def open_session(
    item: pytest.Item, choice: Choice, tape: Path, item_session: ItemSession
) -> Session:
    """Open and activate the session of the test, with its cassette in the file ``tape``."""
    session = Session(_settings(item, choice, tape, item_session))
    session.__enter__()
    return session


def _settings(item: pytest.Item, choice: Choice, tape: Path, item_session: ItemSession) -> Settings:
    config, requested, part = item.config, request_of(item), choice.part
    strict = strict_option(config, requested.strict)
    settings = resolve_settings(
        tape=tape,
        mode=choice.mode,
        policy=policy_option(config, requested.policy),
        strict=strict,
        match=requested.match,
        unused=requested.unused,
        pass_hosts=requested.pass_hosts,
        allow=allow_option(config, requested.allow),
        ignore=requested.ignore,
        root=project_root(config),
        warn=item_session.notes.append,
        tell=item_session.heard,
        ways=TEST_REMEDIES,
        only=_only(only_option(config, requested.only)),
        own_servers=setting(config, "reenact_own_servers") != "record",
        keeps_failed=False,
        # An interrupted run has left an incomplete recording.
        overwrite=choice.mode == "record",
        lane=None if part is None else part.lane,
        redaction=None if part is None else part.profile(),
        boundaries=PATCHES,
    )
    return _adapted_to_test(item, settings, strict)


def _adapted_to_test(item: pytest.Item, settings: Settings, strict: bool | None) -> Settings:
    """Return settings for a test, which is strict by default.

    Paths below temporary folders are volatile if the test uses a fixture that creates such a
    folder.
    """
    policy = settings.policy
    if strict is None and policy.strictness is None:
        settings = msgspec.structs.replace(
            settings, strict=True, unused=request_of(item).unused or policy.unused or "error"
        )
    if _FOLDERS.isdisjoint(getattr(item, "fixturenames", ())):
        return settings
    volatile = tuple(dict.fromkeys((*policy.volatile, "tmp_paths")))
    pinned = msgspec.structs.replace(
        settings.pinned, policy=msgspec.structs.replace(policy, volatile=volatile)
    )
    return msgspec.structs.replace(settings, pinned=pinned)


def _only(source: str | None) -> Any:
    if source is not None and source not in CAPABILITIES:
        raise UsageError(
            f"{source[:64]!r} is not a source that can be recorded alone",
            hint=did_you_mean(source, CAPABILITIES),
        )
    return source


_WRITES = frozenset({"record", "record_missing", "update", "rewrite"})


class Choice(msgspec.Struct, frozen=True):
    """Mode and file of the session of a test."""

    mode: str
    path: Path
    part: Part | None = None
    """Part of the test in a shared cassette."""

    @property
    def writes(self) -> bool:
        return self.mode in _WRITES


def choose_mode(item: pytest.Item, requested: CassetteRequest) -> Choice:
    """Choose mode and file.

    Raises :class:`RecordingMissing` for a missing cassette in replay mode or in CI,
    :class:`RecordingExists` for an existing cassette in record mode, and :class:`pytest.UsageError`
    for an unknown mode.
    """
    mode = (
        mode_option(item.config, requested.mode)
        or _mode_of_policy(item.config, requested)
        or "auto"
    )
    if mode not in MODES:
        from reenact.errors import did_you_mean

        raise pytest.UsageError(f"unknown mode {mode!r}: {did_you_mean(mode, MODES)}")
    path = cassette_path(item, requested, writing=False)
    if mode == "off":
        return Choice(mode, path)
    part = _part(item, path)
    if not (path.exists() if part is None else part.is_there()):
        return _without(item, requested, mode, path)
    if mode == "record":
        raise RecordingExists(
            f"{item.nodeid} has a cassette already: {_shown(item, path)}",
            hint=f"{command(item, 'update')} makes again what differs, --reenact-rewrite everything",
        )
    if mode == "rewrite":
        path = cassette_path(item, requested, writing=True)
    return Choice("replay" if mode == "auto" else mode, path, part)


def _part(item: pytest.Item, path: Path) -> Part | None:
    """Return the part of the test in a shared cassette; None if the test has its own cassette.

    The name of the part is the ID of the test without the file.
    """
    scope = scope_of(item)
    if scope == "function":
        return None
    _, _, name = item.nodeid.partition("::")
    return Part(path, name)


def _without(item: pytest.Item, requested: CassetteRequest, mode: str, path: Path) -> Choice:
    """Choose to record a missing cassette.

    Raises :class:`RecordingMissing` if the mode forbids it.
    """
    if mode == "replay" or (mode == "auto" and os.environ.get("CI")):
        why = "and the mode is replay" if mode == "replay" else "and nothing is recorded in CI"
        raise RecordingMissing(
            f"{item.nodeid} has no cassette, {why}: {_shown(item, path)}",
            hint=f"record it where the world can be reached, and check it in: "
            f"{command(item, 'record')}",
        )
    path = cassette_path(item, requested, writing=True)
    return Choice("record", path, _part(item, path))


def _mode_of_policy(config: pytest.Config, requested: CassetteRequest) -> str | None:
    root, policy = project_root(config), policy_option(config, requested.policy)
    if not has_policies(root):
        return None
    from reenact.policy.index import load_policy

    pinned = load_policy(root) if policy is None else load_policy(root, policy)
    return pinned.policy.mode


def command(item: pytest.Item, mode: str = "") -> str:
    """Return the command that runs the test with ``mode``, for the folder where pytest was
    started."""
    _, colons, test = item.nodeid.partition("::")
    file = os.path.relpath(item.path, item.config.invocation_params.dir)
    how = f"--reenact-{mode}" if mode in ("update", "rewrite") else f"--reenact-mode={mode}"
    words: list[Any] = ["pytest", f"{file}{colons}{test}", *([how] if mode else [])]
    return shlex.join(words)


def _shown(item: pytest.Item, path: Path) -> str:
    root = item.config.rootpath
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


_BESIDE = "beside"
_TAPE = ".jsonl"


def project_root(config: pytest.Config) -> Path:
    """Return the folder with ``.reenact``, at or above the root of the tests.

    Without one, it is the root of the tests. ``REENACT_ROOT`` takes precedence.
    """
    return find_root(config.rootpath, os.environ)


def path_from_root(item: pytest.Item, path: Path) -> str:
    """Return ``path`` relative to the root of the tests, or unchanged if it is outside."""
    root = item.config.rootpath
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def cassette_path(item: pytest.Item, requested: CassetteRequest, *, writing: bool) -> Path:
    """Return the file of the cassette.

    For reading, a fixture root without a folder ``rr`` contains the cassettes itself. Raises
    :class:`PathRefused` with the reason.
    """
    if requested.tape is not None:
        return requested.tape
    config = item.config
    name = requested.cassette or default_name(_owner_id(item))
    fixtures = (
        requested.fixture_root
        or os.environ.get(FIXTURES)
        or setting(config, "reenact_fixture_root")
    )
    if fixtures:
        return project_cassette_path(
            project_root(config), name, fixture_root=Path(fixtures), writing=writing
        )
    folder = setting(config, "reenact_cassettes")
    if not folder:
        return project_cassette_path(project_root(config), name, writing=writing)
    if folder == _BESIDE:
        return _below(item.path.parent / "cassettes", _beside(item, requested, name))
    return _below(config.rootpath / folder, name)


def _owner_id(item: pytest.Item) -> str:
    """Return the ID of the node that owns the cassette: the test, its class, or its module."""
    scope = scope_of(item)
    if scope == "function":
        return item.nodeid
    node = item.getparent(pytest.Class) if scope == "class" else None
    if node is not None:
        return node.nodeid
    return f"{item.nodeid.partition('::')[0]}::module"


def _beside(item: pytest.Item, requested: CassetteRequest, name: str) -> str:
    """Return the name without the folders of the module, for a cassette next to it."""
    if requested.cassette is not None:
        return name
    *_, module, test = name.split("/")
    return f"{module}/{test}"


def _below(folder: Path, name: str) -> Path:
    reason = unsafe_reason(name)
    if reason is not None:
        raise PathRefused(
            f"{name[:200]!r} cannot be a cassette: {reason}",
            hint="a name such as weather or api/weather",
            path=name[:200],
            reason=reason,
        )
    return folder / (name if name.endswith(_TAPE) else f"{name}{_TAPE}")


_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.=+-]+")
_LONGEST: Final = 100
_DIGITS: Final = 8


def default_name(nodeid: str) -> str:
    """Return the default name of the cassette of a test, below a folder for its module."""
    file, _, rest = nodeid.partition("::")
    base, bracket, brackets = rest.partition("[")
    name = _segment(base.replace("::", "."))
    if bracket:
        name = _with_parameters(name, brackets.removesuffix("]"), rest)
    return f"{_module(file)}/{_bounded(name, rest)}"


def _module(file: str) -> str:
    """Return the path of the module without its suffix.

    For a module outside the root, it is the name of the module with a digest of the path.
    """
    *folders, name = file.split("/")
    stem = name.removesuffix(".py")
    if ".." in folders or not all(folders):
        return f"{_segment(stem)}-{_digest(file)}"
    return "/".join(map(_segment, (*folders, stem)))


def _segment(text: str) -> str:
    safe = _UNSAFE.sub("-", text).strip(".")
    return safe if safe == text and unsafe_reason(text) is None else f"{safe}-{_digest(text)}"


def _with_parameters(name: str, parameters: str, whole: str) -> str:
    safe = _UNSAFE.sub("-", parameters).strip("-.").lower()
    if safe == parameters and safe and "-" not in name and not safe.endswith(".jsonl"):
        return f"{name}-{safe}"
    return f"{name}-{safe}-{_digest(whole)}" if safe else f"{name}-{_digest(whole)}"


def _bounded(name: str, whole: str) -> str:
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{_digest(whole)}"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def key_of(item: pytest.Item) -> str:
    """Return the path of the cassette without case distinctions, which some file systems ignore."""
    return str(cassette_path(item, request_of(item), writing=True)).casefold()


def tests_by_cassette(items: Iterable[pytest.Item]) -> dict[str, list[str]]:
    """Group the tests that have their own cassette by its key.

    Tests with an invalid name are left out, and report it when they run.
    """
    found: dict[str, list[str]] = {}
    for item in items:
        if scope_of(item) == "function":
            try:
                found.setdefault(key_of(item), []).append(item.nodeid)
            except UsageError:
                continue
    return found


def check_not_shared(item: pytest.Item, sharers: dict[str, list[str]]) -> None:
    """Raise :class:`UsageError` if a different test uses the cassette.

    This concerns only tests that write, because replaying tests can share one.
    """
    others = [one for one in sharers.get(key_of(item), ()) if one != item.nodeid]
    if scope_of(item) == "function" and others:
        raise UsageError(
            f"{item.nodeid} and {others[0]} name one cassette, and each would write its own "
            "recording to it",
            hint="leave cassette= out, so that each has its own; or say scope='class' or "
            "scope='module', and each has its own part of one",
        )
