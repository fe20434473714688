"""``reenact serve`` as a process of its own."""

from __future__ import annotations

import re
import signal
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from reenact.errors import UsageError
from reenact.exchange.client.address import parse_address
from reenact.server.auth.oidc.provider import OidcSettings
from reenact.server.process.serve import ServeOptions, bind, near_url_of, serve, url_of
from tests.server.house import PASSWORD
from tests.server.serve_process import serving

SMUGGLED = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def answers(url: str, sent: bytes) -> bytes:
    """What the server says to these bytes until it closes the connection."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=60) as sock:
        sock.sendall(sent)
        sock.shutdown(socket.SHUT_WR)
        said = b""
        while part := sock.recv(65_536):
            said += part
    return said


@pytest.mark.slow
def test_request_with_two_lengths_is_refused_and_hides_no_second_one(tmp_path: Path) -> None:
    body = b"0\r\n\r\n" + SMUGGLED
    lengths = [
        b"Content-Length: %d\r\nTransfer-Encoding: chunked" % len(body),
        b"Transfer-Encoding: chunked\r\nContent-Length: 5",
        b"transfer-encoding: Chunked\r\ncontent-length: 0",
    ]
    with serving(tmp_path / "data") as server:
        for two in lengths:
            head = b"POST /api/v1/session HTTP/1.1\r\nHost: x\r\n" + two + b"\r\n\r\n"
            said = answers(server.url, head + body)
            assert said.startswith(b"HTTP/1.1 400 "), said
            assert said.count(b"HTTP/1.1 ") == 1, said
            assert b"both Content-Length and Transfer-Encoding" in said
            assert b"connection: close" in said.lower()
        alone = b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        assert answers(server.url, alone).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "address",
    [
        "reenact.example",
        "ftp://reenact.example",
        "https://a.example/path",
        "https://a:b",
        "https://",
    ],
)
def test_public_address_that_is_none_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(UsageError, match="--public-url"):
        serve(ServeOptions(port=0, data=tmp_path / "data", public_url=address))


def test_single_sign_on_behind_a_proxy_requires_a_public_address(tmp_path: Path) -> None:
    oidc = OidcSettings("https://login.example", "reenact")
    options = ServeOptions(port=0, data=tmp_path / "data", forwarded=True, oidc=oidc)
    with pytest.raises(UsageError, match="behind a proxy") as refused:
        serve(options)
    assert "--public-url" in refused.value.hint


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_printed_link_works_and_the_server_stops_when_asked(
    tmp_path: Path, number: signal.Signals
) -> None:
    with serving(tmp_path / "data") as server, httpx.Client(trust_env=False, timeout=60) as client:
        assert server.process.stderr is not None
        server.process.stderr.readline()
        link = server.process.stderr.readline().strip()
        assert link.startswith(f"{server.url}/setup?token=")
        form = {"email": "ada@example.com", "password": PASSWORD}
        page = client.get(link)
        assert "Set up" in page.text
        form["token"] = link.partition("=")[2]
        assert client.post(f"{server.url}/setup", data=form).status_code == 303
        assert client.get(f"{server.url}/healthz").json() == {"status": "ok"}
        returned, said = server.stop(number)
    assert returned == 0
    assert "GET /setup 200" in said
    assert form["token"] not in said.partition("or: reenact login")[2].partition("\n")[2]
    with serving(tmp_path / "data") as again:
        returned, said = again.stop(signal.SIGTERM)
    assert returned == 0
    assert "/setup" not in said


@pytest.mark.slow
@pytest.mark.parametrize("trusted", [True, False])
def test_a_proxy_is_believed_only_when_that_was_said(tmp_path: Path, trusted: bool) -> None:
    more = ("forwarded",) if trusted else ()
    with serving(tmp_path, *more) as server, httpx.Client(trust_env=False, timeout=60) as client:
        assert server.process.stderr is not None
        server.process.stderr.readline()
        token = server.process.stderr.readline().strip().partition("=")[2]
        sent = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.9"}
        asked = {"email": "a@example.com", "password": PASSWORD, "token": token}
        made = client.post(f"{server.url}/api/v1/setup", json=asked, headers=sent)
        assert made.status_code == 201
        del asked["token"]
        signed = client.post(f"{server.url}/api/v1/session", json=asked, headers=sent)
        cookie = signed.headers["set-cookie"]
        assert cookie.startswith("__Host-reenact=" if trusted else "reenact=")
        assert ("Secure" in cookie) == trusted
        assert ("strict-transport-security" in signed.headers) == trusted
        name, _, value = cookie.partition(";")[0].partition("=")
        sent["Cookie"] = f"{name}={value}"
        records = client.get(f"{server.url}/api/v1/audit/records", headers=sent).json()["items"]
        opened = [one["record"] for one in records if one["record"]["action"] == "session.opened"]
        assert opened[0]["actor"]["ip"] == ("192.0.2.9" if trusted else "127.0.0.1")
        assert server.stop(signal.SIGTERM)[0] == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])
def test_plain_http_is_for_the_own_machine(tmp_path: Path, host: str) -> None:
    with pytest.raises(UsageError, match="plain HTTP") as refused:
        serve(ServeOptions(host=host, port=0, data=tmp_path))
    assert "--insecure" in refused.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_told() -> None:
    with bind("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(UsageError, match="cannot listen") as refused:
            bind("127.0.0.1", port)
    assert "--port" in refused.value.hint


def test_answers_are_sent_at_once() -> None:
    """asyncio turns Nagle's algorithm off for sockets that say they are TCP, and no others: with
    it every small answer waits 40 ms."""
    with bind("127.0.0.1", 0) as sock:
        assert sock.proto == socket.IPPROTO_TCP


def test_addresses_of_version_6_are_written_in_brackets() -> None:
    with bind("::1", 0) as sock:
        assert re.fullmatch(r"http://\[::1\]:\d+", url_of(sock))


@pytest.mark.parametrize("host, near", [("0.0.0.0", "127.0.0.1"), ("::", "[::1]")])
def test_the_link_of_a_server_that_listens_everywhere_can_be_followed(host: str, near: str) -> None:
    """``reenact login`` sends no password to 0.0.0.0, and that was what the link said."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
        sock.bind((host, 0))  # nobody is let in: it does not listen
        address = near_url_of(sock)
        assert address == f"http://{near}:{sock.getsockname()[1]}"
    assert parse_address(address).is_private


@pytest.mark.slow
def test_what_a_server_keeps_is_its_own_in_a_folder_that_others_can_enter(tmp_path: Path) -> None:
    """A folder that was made for it, as those of containers are, has whatever mode it has."""
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)
    with serving(data) as server:
        files = [one for one in data.iterdir() if one.name != "keys"]
        assert {"blobs", "reenact.db", "reenact.db-wal"} <= {one.name for one in files}
        assert [oct(one.stat().st_mode & 0o077) for one in files] == ["0o0"] * len(files)
        assert server.stop(signal.SIGTERM)[0] == 0
