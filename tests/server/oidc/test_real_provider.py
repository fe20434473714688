"""Signing in by way of a real OpenID provider, over real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from reenact.server.auth.oidc.provider import OidcSettings
from tests.clocks import start_clock
from tests.frameworks.servers import available
from tests.server.house import House, running
from tests.server.oidc.real_provider import Browser, RealProvider, provider

pytestmark = pytest.mark.soak_only  # it installs the provider

BACK = "/signin/oidc/callback"
CLIENT, SECRET = "reenact", "-".join(["between", "us:two", "100%"])
CLAIMS = {
    "ann": {"email": "Ann@Example.com", "email_verified": True},
    "eve": {"email": "ann@example.com", "email_verified": True},
    "bob": {"email": "bob@example.com", "email_verified": False},
    "new": {"email": "new@example.com", "email_verified": True},
}


@pytest.fixture
def real() -> Iterator[RealProvider]:
    with available(), provider() as found:
        yield found


@pytest.fixture
def browser() -> Iterator[Browser]:
    found = Browser()
    yield found
    found.http.close()


def configure(
    real: RealProvider, house: House, key: Any = None, *, ways: str = "client_secret_basic"
) -> None:
    algorithm = {ec.EllipticCurvePrivateKey: "ES256", ed25519.Ed25519PrivateKey: "EdDSA"}
    name = next((name for kind, name in algorithm.items() if isinstance(key, kind)), "RS256")
    client = {
        "client_id": CLIENT,
        "redirect_uris": [f"{house.url}{BACK}"],
        "token_endpoint_auth_method": ways,
        "id_token_signed_response_alg": name,
        **({} if ways == "none" else {"client_secret": SECRET}),
    }
    configuration: dict[str, Any] = {"clients": [client], "claims": CLAIMS}
    if key is not None:
        private = jwt.get_algorithm_by_name(name).to_jwk(key, as_dict=True)
        configuration["jwks"] = {"keys": [{**private, "kid": "own", "alg": name, "use": "sig"}]}
    real.configure(idTokenClaims=name == "ES256", **configuration)


def settings(real: RealProvider, tenant: str = "", secret: str = SECRET) -> OidcSettings:
    return OidcSettings(real.issuer, CLIENT, secret, tenant)


@pytest.fixture
def house(tmp_path: Path, real: RealProvider) -> Iterator[House]:
    """Whose clock is that of this machine."""
    with running(tmp_path / "data", oidc=settings(real)) as house:
        house.clock.at = start_clock()()
        yield house


def sign_in(house: House, browser: Browser, login: str, tenant: str = "") -> httpx.Response:
    start = f"{house.url}/signin/oidc" + (f"?tenant={tenant}" if tenant else "")
    back = browser.sign_in_at_provider(start, login, f"{house.url}{BACK}")
    return browser.http.get(back)


def who(house: House, browser: Browser) -> dict[str, Any]:
    found: dict[str, Any] = browser.http.get(f"{house.url}/api/v1/session").json()
    return found


@pytest.mark.parametrize(
    "key", [None, ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()]
)
def test_whoever_was_invited_signs_in(
    house: House, real: RealProvider, browser: Browser, key: Any
) -> None:
    user = house.user("ann@example.com", "viewer", password="")
    configure(real, house, key)
    answer = sign_in(house, browser, "ann")
    assert (answer.status_code, answer.headers["location"]) == (303, "/"), answer.text
    found = who(house, browser)
    assert found["actor"] == {"type": "user", "id": user, "name": "ann@example.com"}
    (record,) = house.records("session.opened")
    assert (record["actor"]["auth"], record["actor"]["id"]) == ("oidc", user)
    assert "reenact-oidc" not in browser.http.cookies


def test_the_sign_in_page_leads_there(house: House, real: RealProvider, browser: Browser) -> None:
    answer = browser.http.get(f"{house.url}/signin")
    assert 'href="/signin/oidc"' in answer.text
    assert "sign in with 127.0.0.1" in answer.text


@pytest.mark.parametrize("ways", ["client_secret_post", "none"])
def test_other_kinds_of_clients(
    tmp_path: Path, real: RealProvider, browser: Browser, ways: str
) -> None:
    secret = "" if ways == "none" else SECRET
    with running(tmp_path / "data", oidc=settings(real, secret=secret)) as house:
        house.clock.at = start_clock()()
        house.user("ann@example.com", "viewer")
        configure(real, house, ways=ways)
        assert sign_in(house, browser, "ann").status_code == 303


@pytest.mark.parametrize(
    "login, why",
    [
        ("new", "no account has this address"),
        ("bob", "no verified e-mail address"),
        ("nobody", "no verified e-mail address"),
    ],
)
def test_others_do_not(
    house: House, real: RealProvider, browser: Browser, login: str, why: str
) -> None:
    house.user("ann@example.com", "viewer")
    house.user("bob@example.com", "viewer")
    configure(real, house)
    answer = sign_in(house, browser, login)
    assert answer.status_code == 401
    assert why in answer.text
    assert "error" in who(house, browser)


def test_an_account_belongs_to_whom_it_first_belonged(
    house: House, real: RealProvider, browser: Browser
) -> None:
    user = house.user("ann@example.com", "viewer")
    configure(real, house)
    assert sign_in(house, browser, "ann").status_code == 303
    other = Browser()
    answer = sign_in(house, other, "eve")
    other.http.close()
    assert answer.status_code == 401
    assert "belonged to a different user" in answer.text
    (record,) = house.records("session.refused")
    assert (record["subject"]["id"], record["code"]) == (user, "credentials_wrong")
    assert sign_in(house, browser, "ann").status_code == 303


def test_a_code_is_of_no_use_in_another_browser(
    house: House, real: RealProvider, browser: Browser
) -> None:
    house.user("ann@example.com", "viewer")
    configure(real, house)
    back = browser.sign_in_at_provider(f"{house.url}/signin/oidc", "ann", f"{house.url}{BACK}")
    victim = Browser()
    answers = [victim.http.get(back)]
    victim.go(f"{house.url}/signin/oidc", real.issuer)  # with an attempt of their own
    answers.append(victim.http.get(back))
    assert [one.status_code for one in answers] == [403, 403]
    assert "error" in who(house, victim)
    victim.http.close()
    assert browser.http.get(back).status_code == 303


def test_a_code_is_good_once(house: House, real: RealProvider, browser: Browser) -> None:
    house.user("ann@example.com", "viewer")
    configure(real, house)
    start = f"{house.url}/signin/oidc"
    back = browser.sign_in_at_provider(start, "ann", f"{house.url}{BACK}")
    kept = {"reenact-oidc": browser.http.cookies["reenact-oidc"]}
    assert browser.http.get(back).status_code == 303
    again = httpx.get(back, cookies=kept, trust_env=False)
    assert again.status_code == 401
    assert "gives nothing for this code" in again.text


def test_an_attempt_does_not_last(house: House, real: RealProvider, browser: Browser) -> None:
    house.user("ann@example.com", "viewer")
    configure(real, house)
    start = f"{house.url}/signin/oidc"
    back = browser.sign_in_at_provider(start, "ann", f"{house.url}{BACK}")
    house.clock.move(601)
    assert browser.http.get(back).status_code == 403


def test_an_id_token_that_has_expired_is_refused(
    house: House, real: RealProvider, browser: Browser
) -> None:
    house.user("ann@example.com", "viewer")
    configure(real, house)
    house.clock.move(2 * 3600)
    answer = sign_in(house, browser, "ann")
    assert answer.status_code == 401
    assert "it has expired" in answer.text


def test_people_in_several_tenants_say_which(
    house: House, real: RealProvider, browser: Browser
) -> None:
    house.tenant("other")
    house.user("ann@example.com", "viewer")
    mine = house.user("ann@example.com", "viewer", tenant="other")
    configure(real, house)
    answer = sign_in(house, browser, "ann")
    assert answer.status_code == 422
    assert "default, other" in answer.text
    assert sign_in(house, browser, "ann", "other").status_code == 303
    assert who(house, browser)["actor"]["id"] == mine


def test_a_provider_of_one_tenant_signs_nobody_into_another(
    tmp_path: Path, real: RealProvider, browser: Browser
) -> None:
    with running(tmp_path / "data", oidc=settings(real, "other")) as house:
        house.clock.at = start_clock()()
        house.tenant("other")
        house.user("ann@example.com", "viewer")
        configure(real, house)
        assert sign_in(house, browser, "ann").status_code == 401
        assert sign_in(house, browser, "ann", "default").status_code == 401


def test_whoever_refuses_at_the_provider_is_not_signed_in(
    house: House, real: RealProvider, browser: Browser
) -> None:
    configure(real, house)
    there = browser.go(f"{house.url}/signin/oidc", real.issuer)
    state = httpx.URL(there.headers["location"]).params["state"]
    answer = browser.http.get(
        f"{house.url}{BACK}",
        params={"error": "access_denied", "state": state, "iss": real.issuer},
    )
    assert answer.status_code == 401
    assert "did not sign anybody in" in answer.text
