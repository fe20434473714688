"""``ReplayConfig``: names, defaults, and what does not go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact.agents.config import ReplayConfig, open_session
from reenact.errors import UsageError


def test_defaults_are_those_of_the_source_document() -> None:
    config = ReplayConfig.read(None)
    assert (config.mode, config.policy, config.allow_passthrough_tools) == ("off", None, False)
    assert open_session(config, print) is None


@pytest.mark.parametrize(
    "given",
    [
        {"mode": "capture", "captureDir": "c", "allowPassthroughTools": True},
        {"mode": "capture", "capture_dir": "c", "allow_passthrough_tools": True},
        ReplayConfig(mode="capture", capture_dir="c", allow_passthrough_tools=True),
    ],
    ids=["camel", "snake", "object"],
)
def test_both_spellings_are_read(given: Any) -> None:
    config = ReplayConfig.read(given)
    assert (config.mode, config.capture_dir, config.allow_passthrough_tools) == (
        "capture",
        "c",
        True,
    )


@pytest.mark.parametrize(
    "given,match",
    [
        ({"mod": "off"}, "no field 'mod'"),
        ({"mode": "record"}, "invalid mode 'record'"),
        ({"policy": "severe"}, "invalid policy 'severe'"),
        ({"mode": "replay"}, "needs replay_manifest_path"),
        ({"allowPassthroughTools": "yes"}, "true or false"),
    ],
    ids=["field", "mode", "policy", "nothing to replay", "no flag"],
)
def test_what_makes_no_sense_is_refused_with_a_hint(given: Any, match: str) -> None:
    with pytest.raises(UsageError, match=match) as caught:
        ReplayConfig.read(given)
    assert caught.value.hint


@pytest.mark.parametrize("ci,strict", [("1", True), ("", True)], ids=["ci", "no terminal"])
def test_strict_unless_a_person_looks_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str, strict: bool
) -> None:
    monkeypatch.setenv("CI", ci)
    session = open_session(ReplayConfig(mode="capture", capture_dir=tmp_path / "c"), print)
    assert session is not None
    assert session.settings.strict is strict


def test_a_capture_without_a_place_gets_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REENACT_ROOT", str(tmp_path))
    session = open_session(ReplayConfig(mode="capture"), print)
    assert session is not None
    assert session.settings.path is not None
    assert session.settings.path.parent == tmp_path / ".reenact" / "runs"
    assert (tmp_path / ".reenact" / "runs" / ".gitignore").read_text("utf-8") == "*\n"


def test_only_when_allowed_may_tools_pass(tmp_path: Path) -> None:
    for allowed in (False, True):
        config = ReplayConfig(
            mode="capture", capture_dir=tmp_path / "c", allow_passthrough_tools=allowed
        )
        session = open_session(config, print)
        assert session is not None
        assert session.settings.policy.allow_passthrough is allowed
