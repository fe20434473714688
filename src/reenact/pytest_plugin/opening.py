"""Opening the session of a test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from reenact.boundaries.table import PATCHES
from reenact.engine.call import CAPABILITIES
from reenact.engine.divergence.model import Remedies
from reenact.engine.session.session import Session
from reenact.engine.session.settings import Settings, resolve_settings
from reenact.errors import UsageError
from reenact.policy.nearest import did_you_mean
from reenact.pytest_plugin.asking import wanted_of
from reenact.pytest_plugin.choosing import Choice, choose
from reenact.pytest_plugin.collected import SHARERS
from reenact.pytest_plugin.options import said_allow, said_only, said_policy, said_strict, setting
from reenact.pytest_plugin.placing import root_of
from reenact.pytest_plugin.sharing import check_alone

if TYPE_CHECKING:
    from reenact.pytest_plugin.stage import Stage

__all__ = ["choose_for", "open_session"]

_FOLDERS = frozenset({"tmp_path", "tmp_path_factory", "tmpdir", "tmpdir_factory"})
"""Fixtures that make folders."""


def choose_for(item: pytest.Item) -> Choice:
    """How the session of ``item`` is opened. Raises why there can be none."""
    choice = choose(item, wanted_of(item))
    if choice.writes:
        check_alone(item, item.config.stash.get(SHARERS, {}))
    return choice


def open_session(item: pytest.Item, choice: Choice, tape: Path, stage: Stage) -> Session:
    """The session, which is open and in force, of the cassette in the file ``tape``."""
    session = Session(_settings(item, choice, tape, stage))
    session.__enter__()
    return session


_WAYS = Remedies(
    again="If the change is intended, --reenact-update makes again what differs, and nothing else.",
    more="If the new call is intended, --reenact-update makes it, and whatever else differs.",
    fewer="If the test is right, --reenact-update drops what it does not ask for, and keeps the rest.",
)


def _settings(item: pytest.Item, choice: Choice, tape: Path, stage: Stage) -> Settings:
    config, wanted, part = item.config, wanted_of(item), choice.part
    strict = said_strict(config, wanted.strict)
    settings = resolve_settings(
        tape=tape,
        mode=choice.mode,
        policy=said_policy(config, wanted.policy),
        strict=strict,
        match=wanted.match,
        unused=wanted.unused,
        pass_hosts=wanted.pass_hosts,
        allow=said_allow(config, wanted.allow),
        ignore=wanted.ignore,
        root=root_of(config),
        warn=stage.notes.append,
        tell=stage.heard,
        ways=_WAYS,
        only=_only(said_only(config, wanted.only)),
        own_servers=setting(config, "reenact_own_servers") != "record",
        keeps_failed=False,
        # What a run that was killed has left is no recording of the test.
        overwrite=choice.mode == "record",
        lane=None if part is None else part.lane,
        redaction=None if part is None else part.profile(),
        boundaries=PATCHES,
    )
    return _fit_for_a_test(item, settings, strict)


def _fit_for_a_test(item: pytest.Item, settings: Settings, strict: bool | None) -> Settings:
    """Strict, where nobody says otherwise; and the folders of pytest have other names each time."""
    policy = settings.policy
    if strict is None and policy.strictness is None:
        settings = msgspec.structs.replace(
            settings, strict=True, unused=wanted_of(item).unused or policy.unused or "error"
        )
    if _FOLDERS.isdisjoint(getattr(item, "fixturenames", ())):
        return settings
    volatile = tuple(dict.fromkeys((*policy.volatile, "tmp_paths")))
    pinned = msgspec.structs.replace(
        settings.pinned, policy=msgspec.structs.replace(policy, volatile=volatile)
    )
    return msgspec.structs.replace(settings, pinned=pinned)


def _only(said: str | None) -> Any:
    if said is not None and said not in CAPABILITIES:
        raise UsageError(
            f"there is no source {said[:64]!r} that could be recorded alone",
            hint=did_you_mean(said, CAPABILITIES),
        )
    return said
