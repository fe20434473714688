"""``ReplayConfig``: whether a run is recorded or replayed, in the words of one small object."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from reenact.boundaries.table import PATCHES
from reenact.engine.session import Session
from reenact.engine.settings import Settings, settle
from reenact.errors import UsageError
from reenact.policy.nearest import did_you_mean
from reenact.policy.places import find_root
from reenact.store.placing import new_place
from reenact.store.warning import Warn

__all__ = ["ReplayConfig", "open_session"]

Mode = Literal["off", "capture", "replay"]
Strictness = Literal["strict", "lenient"]

_MANIFEST = "manifest.json"


class ReplayConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``off`` opens no session: a run is then part of the one that is open, if there is one.

    ``capture`` records to ``capture_dir``, which is not there yet; by default a new folder in
    ``.reenact/runs``. ``replay`` re-enacts the recording at ``replay_manifest_path`` (the manifest,
    or its folder); with a ``capture_dir`` the replay is recorded there. ``policy`` is by default
    strict, but lenient at a terminal and outside CI. Only with ``allow_passthrough_tools`` may
    tools that are to pass really run in a replay.
    """

    mode: Mode = "off"
    policy: Strictness | None = None
    capture_dir: str | Path | None = None
    replay_manifest_path: str | Path | None = None
    allow_passthrough_tools: bool = False

    @classmethod
    def read(cls, given: ReplayConfig | Mapping[str, Any] | None) -> ReplayConfig:
        """``given``, or what it says with names in camelCase or snake_case.

        Raises :class:`UsageError` for unknown names and values, and for what does not go together.
        """
        if given is None:
            return cls()
        config = given if isinstance(given, ReplayConfig) else _from_mapping(given)
        config.check()
        return config

    def check(self) -> None:
        """Raise :class:`UsageError` for what makes no sense."""
        for name, value, known in (
            ("mode", self.mode, get_args(Mode)),
            ("policy", self.policy, (*get_args(Strictness), None)),
        ):
            if value not in known:
                raise UsageError(
                    f"there is no {name} {str(value)[:64]!r} of a ReplayConfig",
                    hint=did_you_mean(str(value), [one for one in known if one is not None]),
                )
        if self.mode == "replay" and self.replay_manifest_path is None:
            raise UsageError(
                "a replay needs replay_manifest_path",
                hint="the folder of the recording, or its manifest.json",
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


def open_session(config: ReplayConfig, warn: Warn) -> Session | None:
    """The session that ``config`` asks for, not entered yet; None for ``off``.

    Raises what :func:`reenact.session` raises.
    """
    if config.mode == "off":
        return None
    strict = None if config.policy is None else config.policy == "strict"
    if config.mode == "capture":
        place = (
            new_place(find_root(Path.cwd(), os.environ))
            if config.capture_dir is None
            else Path(config.capture_dir)
        )
        place.parent.mkdir(parents=True, exist_ok=True)
        settings = settle(
            capture=place, mode="record", strict=strict, warn=warn, boundaries=PATCHES
        )
    else:
        into = None if config.capture_dir is None else Path(config.capture_dir)
        settings = settle(
            **_recording(config.replay_manifest_path),
            mode="replay",
            strict=strict,
            warn=warn,
            into=into,
            boundaries=PATCHES,
        )
    return Session(_passing_tools(settings) if config.allow_passthrough_tools else settings)


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
