"""Which mode a test's session has."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reenact.errors import RecordingExists, RecordingMissing
from reenact.policy.paths import has_policies
from reenact.pytest_plugin.common_tape import Part
from reenact.pytest_plugin.marking import scope_of
from reenact.pytest_plugin.options import MODES, said_mode, said_policy
from reenact.pytest_plugin.placing import place_of, root_of
from reenact.pytest_plugin.wanted import Wanted

__all__ = ["Choice", "choose", "command"]

_WRITES = frozenset({"record", "record_missing", "update", "rewrite"})


class Choice(msgspec.Struct, frozen=True):
    """How the session of a test is opened."""

    mode: str
    path: Path
    part: Part | None = None
    """What it has in a cassette of several tests."""

    @property
    def writes(self) -> bool:
        return self.mode in _WRITES


def choose(item: pytest.Item, wanted: Wanted) -> Choice:
    """The mode and the file. Raises :class:`RecordingMissing` in CI where there is no cassette,
    :class:`RecordingExists` where there is one and another one is to be recorded."""
    mode = said_mode(item.config, wanted.mode) or _mode_of_policy(item.config, wanted) or "auto"
    if mode not in MODES:
        from reenact.policy.nearest import did_you_mean

        raise pytest.UsageError(f"there is no mode {mode!r}: {did_you_mean(mode, MODES)}")
    path = place_of(item, wanted, writing=False)
    if mode == "off":
        return Choice(mode, path)
    part = _part(item, path)
    if not (path.exists() if part is None else part.is_there()):
        return _without(item, wanted, mode, path)
    if mode == "record":
        raise RecordingExists(
            f"{item.nodeid} has a cassette already: {_shown(item, path)}",
            hint=f"{command(item, 'update')} makes again what differs, --reenact-rewrite everything",
        )
    if mode == "rewrite":
        path = place_of(item, wanted, writing=True)
    return Choice("replay" if mode == "auto" else mode, path, part)


def _part(item: pytest.Item, path: Path) -> Part | None:
    """Named as seen from the class or the module whose cassette it is."""
    scope = scope_of(item)
    if scope == "function":
        return None
    _, _, name = item.nodeid.partition("::")
    return Part(path, name)


def _without(item: pytest.Item, wanted: Wanted, mode: str, path: Path) -> Choice:
    """There is no cassette."""
    if mode == "replay" or (mode == "auto" and os.environ.get("CI")):
        why = "and the mode is replay" if mode == "replay" else "and nothing is recorded in CI"
        raise RecordingMissing(
            f"{item.nodeid} has no cassette, {why}: {_shown(item, path)}",
            hint=f"record it where the world can be reached, and check it in: "
            f"{command(item, 'record')}",
        )
    path = place_of(item, wanted, writing=True)
    return Choice("record", path, _part(item, path))


def _mode_of_policy(config: pytest.Config, wanted: Wanted) -> str | None:
    root, policy = root_of(config), said_policy(config, wanted.policy)
    if not has_policies(root):
        return None
    from reenact.policy.index import load_policy

    pinned = load_policy(root) if policy is None else load_policy(root, policy)
    return pinned.policy.mode


def command(item: pytest.Item, mode: str = "") -> str:
    """What to type, where pytest was started."""
    _, colons, test = item.nodeid.partition("::")
    file = os.path.relpath(item.path, item.config.invocation_params.dir)
    how = f"--reenact-{mode}" if mode in ("update", "rewrite") else f"--reenact-mode={mode}"
    words: list[Any] = ["pytest", f"{file}{colons}{test}", *([how] if mode else [])]
    return shlex.join(words)


def _shown(item: pytest.Item, path: Path) -> str:
    root = item.config.rootpath
    return str(path.relative_to(root) if path.is_relative_to(root) else path)
