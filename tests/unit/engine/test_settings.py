"""How the settings of a session are settled: argument, policy, surroundings."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import PathRefused, Policy, Redactor, Session, UsageError
from reenact.engine.session.settings import MODES, mode_named
from reenact.policy.model import Ignore
from tests.unit.policy.sets import POLICY, SANITIZER, put_set


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    return tmp_path


# Modes


@pytest.mark.parametrize("number,name", list(enumerate(MODES)))
def test_a_mode_has_a_name_a_number_and_the_name_of_x07(number: int, name: str) -> None:
    for said in (name, number, f"{name}_v1", name.replace("_", "-")):
        assert mode_named(said) == name


def test_capture_is_another_word_for_record() -> None:
    assert mode_named("capture") == "record"


@pytest.mark.parametrize("mode", ["", "reply", "RECORD", 5, -1, True, 3.0, b"off"])
def test_any_other_mode_is_refused(mode: Any) -> None:
    with pytest.raises(UsageError, match="there is no mode") as caught:
        mode_named(mode)
    assert caught.value.hint


def test_a_misspelt_mode_is_told_what_was_meant() -> None:
    with pytest.raises(UsageError) as caught:
        reenact.session("x", mode="recrod_missing")
    assert "record_missing" in caught.value.hint


# The place


def test_a_name_is_a_cassette_below_the_root(root: Path) -> None:
    session = reenact.session("api/weather", mode="record")
    assert session.settings.path == root / ".reenact/cassettes/api/weather.jsonl"
    assert session.settings.tape


def test_the_root_is_the_nearest_folder_with_reenact_in_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / ".reenact").mkdir()
    below = root / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert _path("x") == root / ".reenact/cassettes/x.jsonl"
    monkeypatch.setenv("REENACT_ROOT", str(below))
    assert _path("x") == below / ".reenact/cassettes/x.jsonl"
    assert _path("x", root=root / "a") == root / "a" / ".reenact/cassettes/x.jsonl"


def _path(name: str, **arguments: Any) -> Path | None:
    return reenact.session(name, **{"mode": "record", **arguments}).settings.path


def test_fixtures_have_a_folder_of_their_own(root: Path) -> None:
    fixtures = root / "fixtures"
    fixtures.mkdir()
    assert _path("x", fixture_root="fixtures") == fixtures / "rr/x.jsonl"
    assert _path("x", fixture_root="fixtures", mode="replay") == fixtures / "x.jsonl"
    assert _path("x", fixture_root="fixtures", mode="record_missing") == fixtures / "rr/x.jsonl"
    (fixtures / "x.jsonl").touch()
    assert _path("x", fixture_root="fixtures", mode="record_missing") == fixtures / "x.jsonl"
    (fixtures / "rr").mkdir()
    assert _path("x", fixture_root="fixtures", mode="replay") == fixtures / "rr/x.jsonl"
    with pytest.raises(PathRefused):
        _path("x", fixture_root=".")


@pytest.mark.parametrize("name", ["", "../x", "/x", "a//b", "a\\b", ".reenact/x", "C:x", "a\0"])
def test_a_name_that_leads_elsewhere_is_refused(root: Path, name: str) -> None:
    with pytest.raises(PathRefused):
        reenact.session(name, mode="record")


def test_a_session_has_one_place(root: Path) -> None:
    for arguments in ({"name": "x", "tape": "y"}, {"capture": "x", "tape": "y"}):
        with pytest.raises(UsageError, match="one place"):
            reenact.session(mode="record", **arguments)  # type: ignore[arg-type]
    for mode in MODES[1:]:
        with pytest.raises(UsageError, match="needs a place"):
            reenact.session(mode=mode)


def test_into_goes_with_a_replay(root: Path) -> None:
    for mode in ("off", "record", "record_missing", "rewrite"):
        with pytest.raises(UsageError, match="into goes with the mode replay"):
            reenact.session("x", mode=mode, into="y")


# Strict or lenient


CASES: list[tuple[bool, str | None, bool]] = [
    # terminal, CI, strict
    (False, None, True),
    (True, None, False),
    (True, "", False),
    (True, "1", True),
    (False, "1", True),
]


@pytest.mark.parametrize("terminal,ci,strict", CASES)
def test_a_person_at_a_terminal_gets_a_lenient_session(
    root: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool, ci: str | None, strict: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", _Terminal() if terminal else io.StringIO())
    if ci is not None:
        monkeypatch.setenv("CI", ci)
    session = reenact.session("x")
    assert session.settings.strict is strict
    assert session.settings.unused == ("error" if strict else "warn")


def test_no_stderr_at_all_is_no_terminal(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert reenact.session("x").settings.strict


def test_an_argument_wins_over_the_policy_and_the_policy_over_the_rest(root: Path) -> None:
    lenient = Policy(id="p", strictness="lenient", unused="error", mode="rewrite", match="lookup")
    session = reenact.session("x", policy=lenient)
    assert _settled(session) == ("rewrite", False, "error", "lookup")
    said: dict[str, Any] = {"mode": "off", "strict": True, "unused": "allow", "match": "lane"}
    assert _settled(reenact.session("x", policy=lenient, **said)) == ("off", True, "allow", "lane")


def _settled(session: Session) -> tuple[str, bool, str, str]:
    settings = session.settings
    return settings.mode, settings.strict, settings.unused, settings.policy.match


def test_what_is_ignored_can_be_an_argument(root: Path) -> None:
    ignore = Ignore(paths=("$.request.id",))
    assert reenact.session("x", ignore=ignore).settings.policy.ignore == ignore


# Redaction


def test_new_recordings_are_redacted_strictly_in_ci(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reenact.session("x", mode="record").settings.redactor().profile == "default"
    monkeypatch.setenv("CI", "1")
    assert reenact.session("x", mode="record").settings.redactor().profile == "strict"


def test_the_profile_of_a_recording_wins_over_everything(root: Path) -> None:
    session = reenact.session("x", mode="record", redaction="strict")
    assert session.settings.redactor().profile == "strict"
    assert session.settings.redactor("default").profile == "default"


def test_redaction_may_be_a_profile_or_a_redactor_or_the_policys(root: Path) -> None:
    own = Redactor("strict")
    assert reenact.session("x", mode="record", redaction=own).settings.redactor() is own
    policy = Policy(id="p", redaction="none")
    assert reenact.session("x", policy=policy).settings.redactor().profile == "none"
    argued = reenact.session("x", policy=policy, redaction="default")
    assert argued.settings.redactor().profile == "default"


def test_the_sanitizer_of_the_policy_is_used(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sanitizer = {**SANITIZER, "profile": "strict", "declaredEnv": ["HOUSE"]}
    put_set(root, {**POLICY, "id": "p", "sanitizer": "mine"}, sanitizer)
    monkeypatch.setenv("HOUSE", "villa-rotonda-77")
    redactor = reenact.session("x", mode="record", policy="p").settings.redactor()
    assert redactor.profile == "strict"
    assert "rotonda" not in redactor.text("we live in villa-rotonda-77")
