"""A provider that misbehaves: what it says is looked at before it is believed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from reenact.errors import UsageError
from reenact.server.auth.oidc.provider import OidcSettings, Provider, read_settings
from reenact.server.auth.oidc.sign_in import begin, identify
from reenact.server.auth.oidc.tokens import Identity
from reenact.server.outgoing_http import Response, Unreachable
from reenact.server.problems import Problem
from tests.server.house import START, Clock, House

T = TypeVar("T")
ISSUER = "https://login.example"
SECRET = "-".join(["between", "us", "two"])
KEY, NEXT = (rsa.generate_private_key(65537, 2048) for _ in range(2))
ATTEMPT = begin(bytes(range(32)), START)


def public(key: Any, kid: str) -> dict[str, Any]:
    found = jwt.get_algorithm_by_name("RS256").to_jwk(key.public_key(), as_dict=True)
    return {**found, "kid": kid}


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


class Fake:
    """Answers by address. ``asked`` is what came."""

    def __init__(self) -> None:
        self.page: dict[str, Any] = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/auth",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/keys",
            "userinfo_endpoint": f"{ISSUER}/me",
        }
        self.keys = [public(KEY, "one")]
        self.claims: dict[str, Any] = {}
        self.me: dict[str, Any] = {}
        self.signer: tuple[Any, str] = (KEY, "one")
        self.status: dict[str, int] = {}
        self.asked: list[tuple[str, dict[str, str], bytes]] = []

    def __call__(
        self, method: str, url: str, *, headers: dict[str, str], body: bytes = b""
    ) -> Response:
        self.asked.append((f"{method} {url}", headers, body))
        path = url.removeprefix(ISSUER)
        answers: dict[str, Any] = {
            "/.well-known/openid-configuration": self.page,
            "/keys": {"keys": self.keys},
            "/token": {"id_token": self.token(), "access_token": "access"},
            "/me": self.me,
        }
        if path not in answers:
            raise Unreachable("nobody there")
        return Response(self.status.get(path, 200), {}, json.dumps(answers[path]).encode())

    def token(self) -> str:
        key, kid = self.signer
        claims = {
            "iss": ISSUER,
            "aud": "reenact",
            "sub": "user-7",
            "nonce": ATTEMPT.nonce,
            "iat": START // 1000,
            "exp": START // 1000 + 60,
            **self.claims,
        }
        return jwt.encode(claims, key, "RS256", headers={"kid": kid})

    def count(self, path: str) -> int:
        return sum(asked.endswith(path) for asked, _, _ in self.asked)


@pytest.fixture
def fake() -> Fake:
    return Fake()


def provider_of(fake: Fake, now: Any = None, secret: str = SECRET) -> Provider:
    return Provider(OidcSettings(ISSUER, "reenact", secret), now or Clock(), fake)


def identity(house: House, fake: Fake, provider: Provider | None = None) -> Identity:
    found = provider or provider_of(fake)
    return house.run(identify(house.server, found, ATTEMPT, "code", "https://us.example/back"))


def refused(house: House, fake: Fake) -> Problem:
    with pytest.raises(Problem) as caught:
        identity(house, fake)
    return caught.value


def test_the_code_goes_with_the_verifier_and_the_secret(house: House, fake: Fake) -> None:
    fake.claims = {"email": "a@b.c", "email_verified": True}
    assert identity(house, fake) == Identity("user-7", "a@b.c")
    ((_, headers, body),) = [one for one in fake.asked if one[0].endswith("/token")]
    assert parse_qs(body.decode()) == {
        "grant_type": ["authorization_code"],
        "code": ["code"],
        "redirect_uri": ["https://us.example/back"],
        "code_verifier": [ATTEMPT.verifier],
    }
    assert headers["Authorization"].startswith("Basic ")
    assert fake.count("/me") == 0


def test_the_address_may_be_at_userinfo(house: House, fake: Fake) -> None:
    fake.me = {"sub": "user-7", "email": "a@b.c", "email_verified": True}
    assert identity(house, fake) == Identity("user-7", "a@b.c")


@pytest.mark.parametrize("subject", ["user-8", None])
def test_userinfo_of_somebody_else_is_refused(house: House, fake: Fake, subject: Any) -> None:
    fake.me = {"sub": subject, "email": "a@b.c", "email_verified": True}
    assert "a different user" in refused(house, fake).message


def test_an_address_that_is_not_verified_is_not_looked_for_elsewhere(
    house: House, fake: Fake
) -> None:
    fake.claims = {"email": "a@b.c", "email_verified": False}
    fake.me = {"sub": "user-7", "email": "a@b.c", "email_verified": True}
    assert identity(house, fake) == Identity("user-7")


def test_a_token_of_another_attempt_is_refused(house: House, fake: Fake) -> None:
    fake.claims = {"nonce": begin(bytes(32), START).nonce}
    problem = refused(house, fake)
    assert (problem.code, problem.status) == ("credentials_wrong", 401)
    assert "nonce" in problem.message


def test_keys_that_changed_are_fetched_once_a_minute(house: House, fake: Fake) -> None:
    fake.claims = {"email": "a@b.c", "email_verified": True}
    clock = Clock()
    provider = provider_of(fake, clock)
    identity(house, fake, provider)
    fake.signer, fake.keys = (NEXT, "two"), [public(NEXT, "two")]
    for _ in range(3):
        with pytest.raises(Problem):
            identity(house, fake, provider)
    assert fake.count("/keys") == 1
    clock.move(60)
    assert identity(house, fake, provider).subject == "user-7"
    assert fake.count("/keys") == 2


def test_a_page_is_believed_for_an_hour(fake: Fake) -> None:
    clock = Clock()
    provider = provider_of(fake, clock)

    async def twice() -> None:
        await provider.metadata()
        clock.move(3599)
        await provider.metadata()
        assert len(fake.asked) == 1
        clock.move(1)
        await provider.metadata()

    run(twice())
    assert len(fake.asked) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://login.example/"},
        {"issuer": "https://attacker.example"},
        {"jwks_uri": "http://login.example/keys"},
        {"token_endpoint": "http://login.example/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"userinfo_endpoint": "file:///etc/passwd"},
        {"jwks_uri": None},
        {"jwks_uri": "https://login.example/keys\r\nX: y"},
    ],
)
def test_a_page_that_cannot_be_trusted_is_refused(fake: Fake, change: dict[str, Any]) -> None:
    fake.page |= change
    with pytest.raises(Problem) as caught:
        run(provider_of(fake).metadata())
    assert caught.value.code == "unavailable"
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("status", [301, 302, 307, 404, 500])
@pytest.mark.parametrize("path", ["/keys", "/.well-known/openid-configuration", "/me"])
def test_only_good_answers_count_and_redirects_are_none(
    house: House, fake: Fake, path: str, status: int
) -> None:
    fake.status[path] = status
    assert refused(house, fake).code == "unavailable"


@pytest.mark.parametrize("status", [400, 401])
def test_a_code_that_the_provider_does_not_know(house: House, fake: Fake, status: int) -> None:
    fake.status["/token"] = status
    assert "gives nothing" in refused(house, fake).message


def test_settings_are_read(tmp_path: Any) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n", "utf-8")
    assert read_settings("", "") is None
    found = read_settings(ISSUER, "reenact", str(file), "acme")
    assert found == OidcSettings(ISSUER, "reenact", SECRET, "acme")
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    "issuer, client, file",
    [
        ("", "reenact", ""),
        (ISSUER, "", ""),
        ("http://login.example", "reenact", ""),
        (f"{ISSUER}?a=b", "reenact", ""),
        (ISSUER, "reenact", "no-such-file"),
    ],
)
def test_settings_that_are_none_are_refused(issuer: str, client: str, file: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_settings(issuer, client, file)
    assert caught.value.hint
