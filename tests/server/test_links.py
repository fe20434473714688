"""Links have a configured address, or the one that the server listens on; never that of a request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from reenact.server.auth.oidc.provider import OidcSettings
from reenact.server.process.serve import check_public_url
from tests.server.house import PASSWORD, House, running

EVIL = "evil.example"
PUBLIC = "https://reenact.example"


def invitation(house: House, **headers: str) -> str:
    admin = house.client(house.key("tenant admin"))
    answer = admin.post("/api/v1/users", json={"email": "bob@example.com"}, headers=headers)
    assert answer.status_code == 201, answer.text
    link: str = answer.json()["link"]
    return link


def signed_in(house: House) -> httpx.Client:
    house.user("ada@example.com", "tenant admin")
    client = house.client(Accept="text/html")
    asked = {"email": "ada@example.com", "password": PASSWORD}
    assert client.post("/api/v1/session", json=asked).status_code == 201
    return client


def test_host_header_does_not_choose_where_an_invitation_leads(house: House) -> None:
    assert invitation(house, Host=EVIL).startswith(f"{house.url}/invite?token=")


def test_host_header_is_in_no_page(house: House) -> None:
    client = signed_in(house)
    for path in ("/", "/exchanges", "/agents", "/keys"):
        answer = client.get(path, headers={"Host": EVIL}, follow_redirects=True)
        assert EVIL not in answer.text, path
        assert EVIL not in answer.headers.get("location", "")


@pytest.mark.parametrize("host", [EVIL, f"{EVIL}/there?", f"x@{EVIL}"])
def test_host_header_is_in_no_redirection(house: House, host: str) -> None:
    answer = house.client(Accept="text/html").get("/exchanges?limit=5", headers={"Host": host})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/signin?next=%2Fexchanges%3Flimit%3D5"


@pytest.mark.parametrize("path", ["/signin/", "/exchanges/", "/api/v1/exchanges/"])
def test_slash_behind_a_path_does_not_redirect_to_the_host_header(house: House, path: str) -> None:
    answer = house.client(Accept="text/html").get(path, headers={"Host": EVIL})
    assert answer.status_code == 404
    assert EVIL not in answer.headers.get("location", "") + answer.text


def test_configured_address_is_that_of_all_links(tmp_path: Path) -> None:
    with running(tmp_path / "data", public_url=check_public_url(f"{PUBLIC}/")) as house:
        assert invitation(house, Host=EVIL).startswith(f"{PUBLIC}/invite?token=")
        client = signed_in(house)
        assert f"{PUBLIC}&quot;" in client.get("/exchanges", headers={"Host": EVIL}).text


@pytest.fixture
def issuer() -> Iterator[str]:
    """A provider of which there is nothing but the page about it."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
            page = {"issuer": address, **{name: f"{address}/{name}" for name in names}}
            body = json.dumps({**page, "response_types_supported": ["code"]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *given: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield address
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("public", [PUBLIC, ""])
def test_provider_is_not_told_the_host_header(tmp_path: Path, issuer: str, public: str) -> None:
    oidc = OidcSettings(issuer, "reenact")
    with running(tmp_path / "data", public_url=public, oidc=oidc) as house:
        answer = house.client().get("/signin/oidc", headers={"Host": EVIL})
        assert answer.status_code == 303, answer.text
        asked = parse_qs(urlsplit(answer.headers["location"]).query)
        assert asked["redirect_uri"] == [f"{public or house.url}/signin/oidc/callback"]
