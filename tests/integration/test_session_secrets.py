"""Secrets in a session: sealed for their owner, a placeholder for others, and never compared."""

from __future__ import annotations

import random
import string
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import DivergenceError
from reenact.policy.redaction.redactor import PLACEHOLDER
from tests.integration.sessions import Studio

_CHANCE = random.Random("secrets of the sessions")


def _made_up(prefix: str = "gh" + "p_") -> str:
    return prefix + "".join(_CHANCE.choices(string.ascii_letters + string.digits, k=36))


SECRET, OTHER = _made_up(), _made_up()


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(tmp_path)


def _login(given: str) -> Any:
    """Answers, failures and pieces that hold a secret, asked for with one."""
    session = reenact.current()
    assert session is not None

    def fail() -> None:
        raise PermissionError(13, f"not with {SECRET}", "file")

    headers = {"authorization": f"Bearer {given}", "accept": "*/*"}
    request = {"url": f"https://x.example/?api_key={given}", "headers": headers}
    found = [
        session.call("login", request, lambda: {"access_token": SECRET}, capability="net.fetch"),
        session.call("tool", {"password": given}, lambda: [SECRET, 1]),
        list(session.stream("say", {"token": given}, lambda: iter([SECRET[:9], SECRET[9:]]))),
    ]
    with pytest.raises(PermissionError) as caught:
        session.call("fails", {"secret": given}, fail, capability="net.fetch")
    with pytest.raises(PermissionError):
        session.call("tool", {"secret": given}, fail)
    session.record_nondeterministic("env", "KEY", SECRET)
    return [*found, str(caught.value)]


def _is_anywhere(studio: Studio, *secrets: str) -> bool:
    files = b"\n".join(content or b"" for content in studio.everything().values())
    said = "\n".join(studio.warnings).encode()
    return any(secret.encode() in files + said for secret in secrets)


def test_with_the_key_a_replay_gives_exactly_what_was_received(studio: Studio) -> None:
    place: dict[str, Any] = {"capture": studio.root / "recording"}
    made = studio.record(lambda: _login(SECRET), **place)
    assert SECRET in str(made)
    assert studio.replay(lambda: _login(SECRET), **place) == made
    assert not _is_anywhere(studio, SECRET)
    assert studio.warnings == []


def test_without_the_key_the_placeholder_is_served_and_said(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    place: dict[str, Any] = {"capture": studio.root / "recording"}
    made = studio.record(lambda: _login(SECRET), **place)
    monkeypatch.setenv("REENACT_CONFIG_DIR", str(studio.root / "somebody-else"))
    served = studio.replay(lambda: _login(SECRET), **place)
    assert SECRET not in str(served)
    assert served[0] == {"access_token": PLACEHOLDER}
    assert served[1] == [PLACEHOLDER, 1]
    assert served[3] == str(made[3]).replace(SECRET, PLACEHOLDER)
    assert len([text for text in studio.warnings if "placeholder" in text]) == 1


def test_a_tape_seals_nothing(studio: Studio) -> None:
    studio.record(lambda: _login(SECRET))
    assert studio.replay(lambda: _login(SECRET))[0] == {"access_token": PLACEHOLDER}
    assert not _is_anywhere(studio, SECRET)


def test_sealing_can_be_switched_off(studio: Studio) -> None:
    place: dict[str, Any] = {"capture": studio.root / "recording"}
    studio.record(lambda: _login(SECRET), seal=False, **place)
    assert studio.replay(lambda: _login(SECRET), **place)[0] == {"access_token": PLACEHOLDER}


@pytest.mark.parametrize("given", [OTHER, "x"])
def test_a_replay_matches_with_other_credentials_or_none(studio: Studio, given: str) -> None:
    made = studio.record(lambda: _login(SECRET), capture=studio.root / "recording")
    again = studio.replay(lambda: _login(given), capture=studio.root / "recording")
    assert again == made


def test_what_is_not_secret_is_still_compared(studio: Studio) -> None:
    studio.record(lambda: studio.get({"password": SECRET, "user": "me"}))
    with pytest.raises(DivergenceError) as caught:
        studio.replay(lambda: studio.get({"password": OTHER, "user": "you"}))
    assert caught.value.to_json()["jsonPath"] == "$['request']['x']['user']"
    assert OTHER not in str(caught.value) + str(caught.value.to_json())


def test_a_recording_made_with_default_replays_in_ci(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The profile of the recording holds: a stricter one would hide half of the request."""
    monkeypatch.delenv("CI", raising=False)
    asked = {"mail": "somebody@example.com", "id": "a8Fk2Lm9Qw3Zx7Vb5Nt1Rc4Y"}
    made = studio.record(lambda: studio.get(asked))
    monkeypatch.setenv("CI", "1")
    assert studio.replay(lambda: studio.get(asked)) == made
    with pytest.raises(DivergenceError):
        studio.replay(lambda: studio.get({**asked, "mail": "other@example.com"}))

    strict = studio.record(lambda: studio.get(asked), "in-ci")
    assert studio.manifest("in-ci").redaction.profile == "strict"
    monkeypatch.delenv("CI")
    again = studio.replay(lambda: studio.get({**asked, "mail": "other@example.com"}), "in-ci")
    assert again["n"] == strict["n"]


def test_what_is_added_is_redacted_like_the_rest(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    studio.record(lambda: studio.get("somebody@example.com"))
    monkeypatch.setenv("CI", "1")
    body = lambda: [studio.get("somebody@example.com"), studio.get("other@example.com")]  # noqa: E731
    made = studio.record(body, mode="record_missing")
    assert studio.manifest().redaction.profile == "default"
    assert studio.replay(body) == made


def test_sealed_answers_stay_sealed_when_something_is_added(studio: Studio) -> None:
    place: dict[str, Any] = {"capture": studio.root / "recording"}
    made = studio.record(lambda: _login(SECRET), **place)
    body = lambda: [_login(SECRET), studio.get(1)]  # noqa: E731
    assert studio.record(body, mode="record_missing", **place)[0] == made
    assert studio.replay(body, **place)[0] == made
    assert not _is_anywhere(studio, SECRET)
