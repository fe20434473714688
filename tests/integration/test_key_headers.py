"""Headers that a policy names count in every profile of redaction."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

import reenact
from reenact import Policy, Redactor
from reenact.engine.divergence.model import Divergence
from reenact.policy.redaction.redactor import Profile
from tests.integration.sessions import Studio

PROFILES: tuple[Profile, ...] = ("none", "default", "strict")


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


def _get(url: str, name: str, value: str) -> int:
    with httpx.Client(trust_env=False) as client:
        return client.get(url, headers={name: value}).status_code


VALUES = {
    "words": ("X-Tenant", "acme", "other"),
    "random": ("If-Match", "3b0f9a41c7d2e6588af0c1d92e", "e29d1c0fa8856e2d7c14a9f0b3"),
    "digits": ("X-Version", "20240731", "20240801"),
}


@pytest.mark.parametrize("name, value, other", VALUES.values(), ids=VALUES.keys())
@pytest.mark.parametrize("profile", PROFILES)
def test_a_header_that_the_policy_names_counts(
    profile: Profile, name: str, value: str, other: str, url: str, tmp_path: Path
) -> None:
    """Under strict every value used to be compared as the same placeholder."""
    studio = Studio(tmp_path)
    policy = Policy(id="p", key_headers=(name,), redaction=profile)
    studio.record(lambda: _get(url, name, value), policy=policy)
    assert studio.replay(lambda: _get(url, name, value), policy=policy) == 204
    with pytest.raises(reenact.DivergenceError) as caught:
        studio.replay(lambda: _get(url, name, other), policy=policy)
    found = caught.value.divergence
    assert isinstance(found, Divergence)
    assert found.json_path == "$.request.headers[0][1]"


def test_it_counts_for_a_redactor_of_the_program_too(url: str, tmp_path: Path) -> None:
    studio = Studio(tmp_path)
    arguments: dict[str, Any] = {
        "policy": Policy(id="p", key_headers=("X-Tenant",)),
        "redaction": Redactor("strict"),
    }
    studio.record(lambda: _get(url, "X-Tenant", "acme"), **arguments)
    with pytest.raises(reenact.DivergenceError):
        studio.replay(lambda: _get(url, "X-Tenant", "other"), **arguments)


@pytest.mark.parametrize("profile", ["default", "strict"])
def test_a_secret_does_not_count_wherever_it_stands(
    profile: Profile, url: str, tmp_path: Path
) -> None:
    """A replay has other credentials, or none."""
    studio = Studio(tmp_path)
    policy = Policy(id="p", key_headers=("Authorization", "X-Note"), redaction=profile)
    secrets = ["gh" + "p_" + 36 * digit for digit in "12"]

    def ask(secret: str) -> list[int]:
        note = f"see {secret}"
        return [_get(url, "Authorization", f"Bearer {secret}"), _get(url, "X-Note", note)]

    studio.record(lambda: ask(secrets[0]), policy=policy)
    assert studio.replay(lambda: ask(secrets[1]), policy=policy) == [204, 204]
    assert secrets[0].encode() not in studio.path().read_bytes()


def test_other_headers_stay_out_of_a_strict_recording(url: str, tmp_path: Path) -> None:
    studio = Studio(tmp_path)
    policy = Policy(id="p", key_headers=("X-Tenant",), redaction="strict")

    def ask() -> None:
        with httpx.Client(trust_env=False) as client:
            client.get(url, headers={"X-Tenant": "acme", "X-Room": "twelve"})

    studio.record(ask, policy=policy)
    written = studio.path().read_text()
    assert "acme" in written
    assert "twelve" not in written
