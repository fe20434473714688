"""Settings of a session: resolved from arguments, then the policy, then the environment.

Resolves mode, policy, strictness, paths and matching before a session opens, and rejects
combinations that are not allowed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from reenact.engine.call import CAPABILITIES
from reenact.engine.divergence.model import SESSION_REMEDIES, Remedies
from reenact.engine.fork.plan import At, ChangeData, changed_data
from reenact.errors import UsageError, did_you_mean
from reenact.policy.access import KNOWN, check_mode
from reenact.policy.drivers import DRIVERS, driver_named
from reenact.policy.model import (
    DEFAULT,
    BoundaryRule,
    Files,
    Ignore,
    Mode,
    Pinned,
    Policy,
    SessionMode,
)
from reenact.policy.paths import FIXTURES, FOLDER, cassette_path, find_root, has_policies, world
from reenact.store.warning import Warn, WarningRelay, print_warning

if TYPE_CHECKING:
    from reenact.engine.decision.usage_ledger import UsageLedger
    from reenact.engine.patches.patch import PatchSet
    from reenact.policy.redaction.redactor import Profile, Redactor

__all__ = [
    "ADDING_MODES",
    "MODES",
    "READING_MODES",
    "PaceMode",
    "Settings",
    "Unused",
    "is_under_pytest",
    "mode_named",
    "resolve_settings",
]

Unused = Literal["error", "warn", "allow"]
PaceMode = Literal["instant", "recorded"]

MODES: tuple[Mode, ...] = ("off", "record", "replay", "record_missing", "rewrite")
"""In the order of their X07 numbers."""

_ALL: tuple[SessionMode, ...] = (*MODES, "update")

ADDING_MODES: frozenset[SessionMode] = frozenset({"record_missing", "update"})
"""Modes that serve what was recorded and make the rest."""

READING_MODES: frozenset[SessionMode] = ADDING_MODES | {"replay"}
"""Modes in which there is something to serve."""


Tell = Callable[[BaseException], None]


def _nobody(error: BaseException) -> None:
    """Nobody is told."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was decided before a session opens."""

    mode: SessionMode
    pinned: Pinned
    strict: bool
    unused: Unused
    path: Path | None
    tape: bool
    warn: Warn
    redaction: Profile | Redactor | None = None
    overwrite: bool = False
    append: bool = False
    into: Path | None = None
    fork: At | None = None
    """Fork point; the fork is written to ``into``."""
    alter: ChangeData = changed_data
    """Changes an answer at the point."""
    seal: bool = True
    patience: float = 5.0
    pace: PaceMode = "instant"
    """``recorded``: a replay hands nothing over earlier than it came."""
    whole_process: bool = False
    pass_hosts: tuple[str, ...] = ()
    """Hosts that are really asked over HTTP, in every mode, and not recorded."""
    allowed_drivers: frozenset[str] = frozenset()
    """Names of drivers whose statements are really made in a replay, and counted."""
    scratch: tuple[str, ...] | None = None
    """The folders outside which files cannot be changed; None: files can be changed everywhere."""
    current_environment: bool = False
    """Environment variables have the values of this process now, also in a replay."""
    refuses_drivers: bool = False
    """Statements of drivers that are not allowed are refused in every mode, not only in a replay."""
    own_servers: bool = False
    """Calls to a server inside this process are made, and not noted: nothing crosses the edge. Of a
    session for the whole process that is always so."""
    keeps_failed: bool = True
    """Is what was recorded kept where the body of the session has failed?"""
    boundaries: PatchSet | None = None
    """Patches of the libraries that the program uses."""
    only: str | None = None
    """The one source that is recorded and replayed; calls to all others are made, and not noted."""
    run_seed: str = ""
    """Seed of synthetic values, which are the same in every replay."""
    lane: str | None = None
    """The root lane, of a process that is one of several."""
    pool: str | None = None
    """The lane of the pool that the process works for."""
    guest: bool = False
    """A different process started the recording, closes it, and reports unused calls."""
    ledger: UsageLedger | None = None
    files: tuple[tuple[str, str], ...] = ()
    """Files and folders that belong to what is recorded: where each is, and what it is called."""
    files_apart: frozenset[str] = frozenset()
    """Files of Reenact itself, such as recordings and policies, which are never recorded."""
    ways: Remedies = SESSION_REMEDIES
    """Remedies that divergence reports recommend."""
    tell: Tell = _nobody
    """Hears of what ends a strict replay, and of recordings that cannot be read, at once."""

    @property
    def policy(self) -> Policy:
        return self.pinned.policy

    def redactor(self, profile: Profile | None = None) -> Redactor:
        """Return the redactor of a new recording, or of one that has ``profile``."""
        return self._redactor(profile).comparing(self.policy.key_headers)

    def _redactor(self, profile: Profile | None) -> Redactor:
        # Deferred: the parent process of a replay redacts nothing unless something differs.
        from reenact.policy.redaction.redactor import Redactor

        if isinstance(self.redaction, Redactor):
            return self.redaction if profile is None else self.redaction.under(profile)
        said = self.redaction if isinstance(self.redaction, str) else self.policy.redaction
        environ = dict(os.environ)
        if self.pinned.sanitizer is None:
            return Redactor(profile or said or _default_profile(), environ=environ)
        arguments = self.pinned.sanitizer.arguments(environ)
        arguments["profile"] = profile or said or arguments["profile"]
        return Redactor(**arguments)


def _default_profile() -> Profile:
    from reenact.store.recording import default_profile  # a replay has the recorded one

    return default_profile()


def mode_named(mode: str | int) -> SessionMode:
    """Return a mode by its name, its X07 name (``replay_v1``) or number, or ``capture``."""
    if isinstance(mode, int) and not isinstance(mode, bool) and 0 <= mode < len(MODES):
        return MODES[mode]
    if isinstance(mode, str):
        name = mode.removesuffix("_v1").replace("-", "_")
        name = "record" if name == "capture" else name
        for known in _ALL:
            if known == name:
                return known
        raise UsageError(f"there is no mode {mode[:64]!r}", hint=did_you_mean(mode, _ALL))
    raise UsageError(f"there is no mode {mode!r}", hint=f"one of {', '.join(_ALL)}, or 0 to 4")


def is_under_pytest() -> bool:
    """Return whether pytest runs this program."""
    return "PYTEST_CURRENT_TEST" in os.environ


def _is_strict(environ: Mapping[str, str]) -> bool:
    """Lenient is for a person at a terminal."""
    at_terminal = sys.stderr is not None and sys.stderr.isatty()
    return bool(environ.get("CI")) or not at_terminal


def resolve_settings(
    name: str | None = None,
    *,
    capture: str | Path | None = None,
    tape: str | Path | None = None,
    mode: str | int | None = None,
    policy: str | Policy | None = None,
    strict: bool | None = None,
    unused: Unused | None = None,
    match: Literal["lane", "transcript", "lookup"] | None = None,
    ignore: Ignore | None = None,
    files: Sequence[str | Path] | None = None,
    root: str | Path | None = None,
    fixture_root: str | Path | None = None,
    warn: Warn = print_warning,
    allow: Sequence[str] = (),
    **rest: Any,
) -> Settings:
    """Settle the arguments of a session. Raises :class:`UsageError`, :class:`PolicyInvalid`,
    :class:`PathRefused`, and :class:`PolicyRefused` for a mode or world that is not allowed."""
    environ = os.environ
    top = Path(root).absolute() if root is not None else find_root(Path.cwd(), environ)
    drivers = frozenset(found.name for name in allow if (found := driver_named(name)))
    boundaries = [name for name in allow if driver_named(name) is None]
    pinned = _passing(_pinned(top, policy, match=match, ignore=ignore, files=files), boundaries)
    chosen = mode_named(mode) if mode is not None else pinned.policy.mode or "replay"
    asked = "record_missing" if chosen == "update" else chosen
    worlds = (*_named_worlds(top), *(pinned.worlds or ()))
    check_mode(pinned, asked, world(environ, is_under_pytest(), worlds))
    is_strict = _said_strict(strict, pinned.policy.strictness, environ)
    _check_flags(chosen, rest)
    place, as_tape = _place(top, name, capture, tape, chosen, fixture_root)
    return Settings(
        mode=chosen,
        pinned=pinned,
        strict=is_strict,
        unused=unused or pinned.policy.unused or ("error" if is_strict else "warn"),
        path=place,
        tape=as_tape,
        warn=warn if isinstance(warn, WarningRelay) else WarningRelay(warn),
        files=_places(top, pinned.policy.files.roots),
        files_apart=_apart(top, place),
        allowed_drivers=drivers | rest.pop("allowed_drivers", frozenset()),
        **rest,
    )


def _said_strict(strict: bool | None, strictness: str | None, environ: Mapping[str, str]) -> bool:
    if strict is not None:
        return strict
    return _is_strict(environ) if strictness is None else strictness == "strict"


def _pinned(
    root: Path,
    policy: str | Policy | None,
    *,
    match: Any,
    ignore: Ignore | None,
    files: Sequence[str | Path] | None,
) -> Pinned:
    if isinstance(policy, Policy):
        pinned = Pinned.of(policy)
    else:
        pinned = _loaded(root, policy)
    said = {"match": match, "ignore": ignore, "files": _files(pinned.policy, files)}
    changes = {field: value for field, value in said.items() if value is not None}
    if not changes:
        return pinned
    return msgspec.structs.replace(pinned, policy=msgspec.structs.replace(pinned.policy, **changes))


def _files(policy: Policy, roots: Sequence[str | Path] | None) -> Files | None:
    return None if roots is None else Files(tuple(map(str, roots)), policy.files.content)


def _places(top: Path, roots: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the roots by name and by the resolved path."""
    found = {}
    for one in roots:
        place = os.path.normpath(top / one)
        found.update(dict.fromkeys((place, os.path.realpath(place)), os.path.normpath(one)))
    return tuple(found.items())


def _apart(top: Path, recording: Path | None) -> frozenset[str]:
    places = {top / FOLDER} if recording is None else {top / FOLDER, recording}
    return frozenset(f(place) for place in places for f in (os.path.abspath, os.path.realpath))


def _loaded(root: Path, policy: str | None) -> Pinned:
    if policy is None and not has_policies(root):
        return Pinned.of(DEFAULT)
    from reenact.policy.index import load_policy  # few have policies, and all would pay for it

    return load_policy(root) if policy is None else load_policy(root, policy)


def _named_worlds(root: Path) -> tuple[str, ...]:
    if not has_policies(root):
        return ()
    from reenact.policy.index import load_index, named_worlds

    return named_worlds(load_index(root))


def _passing(pinned: Pinned, allow: Sequence[str]) -> Pinned:
    """Return the policy extended so that the boundaries named in ``allow`` pass unrecorded."""
    if not allow:
        return pinned
    rules = tuple(BoundaryRule(capability=_capability(name), action="pass") for name in allow)
    policy = pinned.policy
    changed = msgspec.structs.replace(
        policy, boundaries=(*rules, *policy.boundaries), allow_passthrough=True
    )
    return msgspec.structs.replace(pinned, policy=changed)


def _capability(name: str) -> str:
    """Return the capability of a boundary that is named by capability or recorded source."""
    names = [*CAPABILITIES, *(known for known, _ in KNOWN.items())]
    if name not in names:
        known = [*names, *(driver.name for driver in DRIVERS)]
        raise UsageError(
            f"unknown boundary or driver {name[:64]!r}",
            hint=did_you_mean(name, known),
        )
    return CAPABILITIES.get(name, name)


def _check_flags(mode: SessionMode, rest: Mapping[str, Any]) -> None:
    paces = get_args(PaceMode)
    if (pace := rest.get("pace", "instant")) not in paces:
        raise UsageError(f"there is no pace {pace!r}", hint=f"one of {', '.join(paces)}")
    for flag in ("overwrite", "append"):
        if rest.get(flag) and mode != "record":
            raise UsageError(
                f"{flag} goes with the mode record, not with {mode}",
                hint="rewrite replaces, record_missing adds what is missing, update does both",
            )
    if rest.get("overwrite") and rest.get("append"):
        raise UsageError("overwrite and append exclude each other", hint="say one of them")
    if rest.get("fork") is not None and (mode != "replay" or rest.get("into") is None):
        raise UsageError(
            f"a run is forked from a replay into a new recording, not in the mode {mode}"
            if mode != "replay"
            else "a run is forked into a new recording, and there is no place for it",
            hint="session(capture=RUN, fork=…, into=PATH), and no mode",
        )
    if rest.get("into") is not None and mode != "replay":
        raise UsageError(
            f"into goes with the mode replay, not with {mode}", hint="leave it out, or replay"
        )


def _place(
    root: Path,
    name: str | None,
    capture: str | Path | None,
    tape: str | Path | None,
    mode: SessionMode,
    fixture_root: str | Path | None,
) -> tuple[Path | None, bool]:
    given = [one for one in (name, capture, tape) if one is not None]
    if len(given) > 1:
        raise UsageError(
            "a session has one place: a name, capture=PATH or tape=PATH",
            hint="leave the others out",
        )
    path = capture if capture is not None else tape
    if path is not None:
        if "\0" in str(path):
            raise UsageError(f"{str(path)!r} is not a path", hint="a path cannot contain NUL")
        return Path(path), capture is None
    if name is None:
        if mode == "off":
            return None, False
        raise UsageError(
            f"a session in the mode {mode} needs a place",
            hint="session('name'), session(capture=PATH) or session(tape=PATH)",
        )
    fixtures = os.environ.get(FIXTURES) or None if fixture_root is None else fixture_root
    place = cassette_path(root, name, fixture_root=fixtures, writing=mode not in READING_MODES)
    if mode in ADDING_MODES and not place.exists():
        place = cassette_path(root, name, fixture_root=fixtures, writing=True)
    return place, True
