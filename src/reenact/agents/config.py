"""``ReplayConfig``: whether a run is recorded or replayed, in the words of one small object."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from reenact.boundaries.registry import PATCHES
from reenact.engine.session.session import Session
from reenact.engine.session.settings import Settings, resolve_settings
from reenact.errors import RecordingExists, SinkUnwritable, UsageError, did_you_mean
from reenact.policy.paths import find_root
from reenact.store.files import free_sibling, new_capture_path, runs_folder, unwritable
from reenact.store.warning import Warn

__all__ = ["ReplayConfig", "enter_session", "open_session"]

Mode = Literal["off", "capture", "replay"]
Strictness = Literal["strict", "lenient"]
Existing = Literal["refuse", "overwrite", "append", "new"]

_MANIFEST = "manifest.json"


class ReplayConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Recording and replay settings of a run.

    ``off`` opens no session: the run is part of the open session, if there is one.

    ``capture`` records to ``capture_dir``, by default a new folder in ``.reenact/runs``. If that
    default cannot be created, the run continues unrecorded with a warning. A ``capture_dir`` that
    cannot be written is refused before the run. ``if_exists`` applies to a folder that is not
    empty: ``refuse`` it, ``overwrite`` its recording when the run has ended, ``append`` to that
    recording, or record to a ``new`` folder next to it (``DIR-2``, ``DIR-3`` …).

    ``replay`` re-enacts the recording at ``replay_manifest_path`` (the manifest, or its folder).
    With a ``capture_dir`` the replay is recorded there.

    ``policy`` is strict by default, but lenient at a terminal and outside CI. Pass-through tools
    run in a replay only with ``allow_passthrough_tools``.
    """

    mode: Mode = "off"
    policy: Strictness | None = None
    capture_dir: str | Path | None = None
    replay_manifest_path: str | Path | None = None
    allow_passthrough_tools: bool = False
    if_exists: Existing = "refuse"

    @classmethod
    def read(cls, given: ReplayConfig | Mapping[str, Any] | None) -> ReplayConfig:
        """Return ``given`` as a config. A mapping can have names in camelCase or snake_case.

        Raises :class:`UsageError` for unknown names and values, and for incompatible settings.
        """
        if given is None:
            return cls()
        config = given if isinstance(given, ReplayConfig) else _from_mapping(given)
        config.check()
        return config

    def check(self) -> None:
        """Raise :class:`UsageError` for invalid combinations."""
        for name, value, known in (
            ("mode", self.mode, get_args(Mode)),
            ("policy", self.policy, (*get_args(Strictness), None)),
            ("if_exists", self.if_exists, get_args(Existing)),
        ):
            if value not in known:
                raise UsageError(
                    f"invalid {name} {str(value)[:64]!r} in a ReplayConfig",
                    hint=did_you_mean(str(value), [one for one in known if one is not None]),
                )
        # Values from JSON have not been checked against the types.
        paths: dict[str, object] = {
            "capture_dir": self.capture_dir,
            "replay_manifest_path": self.replay_manifest_path,
        }
        for name, path in paths.items():
            if path is not None and (not isinstance(path, str | Path) or "\0" in str(path)):
                raise UsageError(
                    f"{name} of a ReplayConfig cannot be {str(path)[:64]!r}",
                    hint="expected a path: a str without NUL, or a Path",
                )
        if self.mode == "replay" and self.replay_manifest_path is None:
            raise UsageError(
                "a replay needs replay_manifest_path",
                hint="the folder of the recording, or its manifest.json",
            )
        if self.mode == "replay" and self.if_exists in ("overwrite", "append"):
            raise UsageError(
                f"a replay cannot be recorded with if_exists={self.if_exists!r}",
                hint="if_exists='new' records it to a new folder next to capture_dir",
            )


def _from_mapping(given: Mapping[str, Any]) -> ReplayConfig:
    fields = msgspec.structs.fields(ReplayConfig)
    names = {field.encode_name: field.name for field in fields}
    names |= {field.name: field.name for field in fields}
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        raise UsageError(
            f"a ReplayConfig has no field {str(unknown)[:64]!r}",
            hint=did_you_mean(str(unknown), list(names)),
        )
    values = {names[name]: value for name, value in given.items() if value is not None}
    if not isinstance(values.get("allow_passthrough_tools", False), bool):
        raise UsageError("allowPassthroughTools is true or false", hint="it is false by default")
    return ReplayConfig(**values)


def enter_session(config: ReplayConfig, warn: Warn) -> Session | None:
    """Open the session for ``config``, or return None for ``off``.

    If no ``capture_dir`` is given and the default folder cannot be written, the session records
    nothing. It emits a warning, and its manifest ends with the status ``error``. Raises the errors
    of :func:`reenact.session`.
    """
    try:
        session = open_session(config, warn)
        if session is not None:
            session.__enter__()
        return session
    except RecordingExists as error:
        hint = f"{error.hint}; if_exists='new' in the ReplayConfig records to a folder next to it"
        raise RecordingExists(error.message, hint=hint, **error.fields) from None
    except SinkUnwritable as error:
        if config.mode != "capture" or config.capture_dir is not None:
            raise
        session = _unwritten(config, error.message, warn)
        warn(f"{error.message}; the run continues and is not recorded")
        session.__enter__()
        return session


def _unwritten(config: ReplayConfig, reason: str, warn: Warn) -> Session:
    from reenact.engine.recording.session_sinks import open_without_output  # few runs need it

    root = _root()
    settings = _settings(config, runs_folder(root) / "unwritten", warn, root=root)
    return Session(settings, open_without_output(settings, reason))


def _root() -> Path:
    """Return the project root, or the file system root if the working directory was deleted."""
    try:
        return find_root(Path.cwd(), os.environ)
    except FileNotFoundError:
        return Path(os.sep)


def open_session(config: ReplayConfig, warn: Warn) -> Session | None:
    """Create the session for ``config`` without entering it, or return None for ``off``.

    Raises the errors of :func:`reenact.session`.
    """
    if config.mode == "off":
        return None
    try:
        return Session(_settings(config, _place(config), warn))
    except FileNotFoundError as error:  # the working directory was deleted
        raise unwritable(Path(config.capture_dir or runs_folder(Path())), error) from None


def _place(config: ReplayConfig) -> Path | None:
    if config.capture_dir is None:
        root = find_root(Path.cwd(), os.environ)
        return new_capture_path(root) if config.mode == "capture" else None
    place = Path(config.capture_dir)
    if os.path.exists(place) and not os.path.isdir(place):
        raise SinkUnwritable(
            f"cannot write a recording at {place}: it is not a directory",
            hint="capture_dir is a new or an empty directory",
        )
    return free_sibling(place) if config.if_exists == "new" else place


def _settings(
    config: ReplayConfig, place: Path | None, warn: Warn, *, root: Path | None = None
) -> Settings:
    strict = None if config.policy is None else config.policy == "strict"
    if config.mode == "capture":
        settings = resolve_settings(
            capture=place,
            mode="record",
            strict=strict,
            warn=warn,
            root=root,
            boundaries=PATCHES,
            overwrite=config.if_exists == "overwrite",
            append=config.if_exists == "append",
        )
    else:
        settings = resolve_settings(
            **_recording(config.replay_manifest_path),
            mode="replay",
            strict=strict,
            warn=warn,
            into=place,
            boundaries=PATCHES,
        )
    return _passing_tools(settings) if config.allow_passthrough_tools else settings


def _recording(path: str | Path | None) -> dict[str, Any]:
    assert path is not None
    place = Path(path)
    if place.name == _MANIFEST:
        place = place.parent
    return {"tape" if place.is_file() else "capture": place}


def _passing_tools(settings: Settings) -> Settings:
    policy = msgspec.structs.replace(settings.pinned.policy, allow_passthrough=True)
    return msgspec.structs.replace(
        settings, pinned=msgspec.structs.replace(settings.pinned, policy=policy)
    )
