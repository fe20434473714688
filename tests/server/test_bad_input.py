"""Whatever is sent: one shape of error, and nothing stored."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest
from sqlalchemy import text

from reenact.server.problems import STATUS, ProblemBody
from reenact.server.runtime import Limits
from tests.server.house import PASSWORD, House, running

TABLES = ("users", "keys", "grants", "environments", "tenants", "sessions")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with running(tmp_path_factory.mktemp("bad"), limits=Limits(body=4096)) as house:
        yield house


@pytest.fixture(scope="module")
def admin(house: House) -> httpx.Client:
    return house.client(house.key("tenant admin", "platform admin"))


def rows(house: House) -> list[int]:
    async def count() -> list[int]:
        async with house.server.database.platform() as platform:
            found = [await platform.all(text(f"SELECT count(*) FROM {one}")) for one in TABLES]
        return [one[0][0] for one in found]

    return house.run(count())


def shaped(answer: httpx.Response) -> str:
    """The code of an error in the one shape."""
    found = msgspec.json.decode(answer.content, type=ProblemBody, strict=True).error
    assert STATUS[found.code] == answer.status_code
    assert found.request_id == answer.headers["x-request-id"]
    assert found.message
    return found.code


BODIES = {
    "nothing": (b"", "malformed"),
    "cut": (b'{"email": "a@b', "malformed"),
    "not JSON": (b"\x00\xff\xfe", "malformed"),
    "not UTF-8": (b'{"email": "\xff@b"}', "malformed"),
    "a list": (b"[]", "invalid"),
    "null": (b"null", "invalid"),
    "a number for a text": (b'{"email": 1}', "invalid"),
    "a field too many": (b'{"email": "a@b", "tenant": "other"}', "invalid"),
    "a field too few": (b"{}", "invalid"),
    "two values": (b'{"email": "a@b"} {}', "malformed"),
    "deep": (b'{"email":' + b"[" * 2000 + b"]" * 2000 + b"}", "invalid"),
    "huge": (b'{"email": "' + b"a" * 5000 + b'"}', "too_large"),
    "half a pair": (b'{"email": "\\ud800@b"}', "malformed"),
    "NaN": (b'{"email": NaN}', "malformed"),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(house: House, admin: httpx.Client, name: str) -> None:
    body, code = BODIES[name]
    before = rows(house)
    headers = {"Content-Type": "application/json"}
    answer = admin.post("/api/v1/users", content=body, headers=headers)
    assert shaped(answer) == code
    assert rows(house) == before


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_kinds_of_bodies(house: House, admin: httpx.Client, kind: str) -> None:
    before = rows(house)
    headers = {"Content-Type": kind} if kind else {}
    answer = admin.post("/api/v1/users", content=b'{"email": "a@b"}', headers=headers)
    assert shaped(answer) == "unsupported"
    assert rows(house) == before


def test_a_body_without_a_length_is_cut_off(house: House, admin: httpx.Client) -> None:
    def endless() -> Iterator[bytes]:
        yield b'{"email": "'
        for _ in range(64):
            yield b"a" * 1024

    headers = {"Content-Type": "application/json"}
    answer = admin.post("/api/v1/users", content=endless(), headers=headers)
    assert shaped(answer) == "too_large"


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Basic YTpi",
        "Bearer rnk_user",
        "Bearer rnk_root_x_" + "0" * 64,
        "Bearer rnk_user__" + "0" * 64,
        "Bearer " + "x" * 5000,
        "bearer rnk_user_x_" + "g" * 64,
        "Bearer rnk_user_' OR 1=1 --_" + "0" * 64,
    ],
)
def test_credentials(house: House, header: str) -> None:
    answer = house.client(Authorization=header).get("/api/v1/session")
    assert shaped(answer) == "unauthenticated"
    assert header[7:] not in answer.text or len(header) < 10


def test_a_key_of_another_kind_is_none(house: House) -> None:
    key = house.key("viewer").replace("rnk_user_", "rnk_agent_")
    assert shaped(house.client(key).get("/api/v1/session")) == "unauthenticated"


@pytest.mark.parametrize("cookie", ["reenact=", "reenact=x", "reenact", "=; ;;", "reenact=\xe9"])
def test_cookies(house: House, cookie: str) -> None:
    client = house.client()
    answer = client.get("/api/v1/session", headers={b"Cookie": cookie.encode("latin-1")})
    assert shaped(answer) in ("unauthenticated", "session_expired")


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "limit=x", "limit=-1", "limit=1e2", "limit=²", "since=x"]
)
def test_numbers(admin: httpx.Client, query: str) -> None:
    assert shaped(admin.get(f"/api/v1/audit/records?{query}")) == "invalid"


@pytest.mark.parametrize(
    "path", ["/api/v1/users/%00", "/api/v1/users/..%2f..", "/api/v1/users/" + "x" * 3000]
)
def test_paths(admin: httpx.Client, path: str) -> None:
    assert shaped(admin.delete(path)) == "not_found"


def test_a_cursor_is_a_text_like_any_other(admin: httpx.Client) -> None:
    for cursor in ("' OR '1'='1", "\x00", "~"):
        assert admin.get("/api/v1/keys", params={"cursor": cursor}).status_code == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
def test_methods(admin: httpx.Client, method: str) -> None:
    assert shaped(admin.request(method, "/api/v1/users")) == "method_not_allowed"


def raw_request(house: House, data: bytes, *, cut: bool = False) -> bytes:
    """What is answered to bytes that no client would send. ``cut`` ends the connection after them;
    otherwise the server does."""
    parts = urlsplit(house.url)
    found = b""
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as sock:
        try:
            sock.sendall(data)
            if cut:
                sock.shutdown(socket.SHUT_WR)
            while part := sock.recv(65536):
                found += part
        except ConnectionError:
            return found  # the server hung up on what was still on the way
    return found


def test_two_credentials_are_none(house: House) -> None:
    key = house.key("viewer")
    line = f"Authorization: Bearer {key}\r\n".encode()
    answer = raw_request(house, b"GET /api/v1/session HTTP/1.1\r\nHost: x\r\n" + line * 2 + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 400")
    assert b'"malformed"' in answer


@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length: 1\r\nContent-Length: 2\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: x\r\n",
        b"Transfer-Encoding: nonsense\r\n",
        b"Bad Header: x\r\n",
        b"X: \x00\r\n",
    ],
)
def test_what_is_no_http_is_refused(house: House, lines: bytes) -> None:
    before = rows(house)
    answer = raw_request(house, b"POST /api/v1/session HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n{}")
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501"))
    assert rows(house) == before


def test_headers_in_any_bytes(house: House) -> None:
    key = house.key("viewer")
    answer = raw_request(
        house,
        b"GET /api/v1/session HTTP/1.1\r\nHost: \xff\xfe/evil\r\nUser-Agent: \xff\xfe\x80"
        + b"x" * 4000
        + f"\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n".encode(),
    )
    assert answer.startswith(b"HTTP/1.1 200")


def test_a_head_that_never_ends_is_refused(house: House) -> None:
    answer = raw_request(house, b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400")
    assert house.client().get("/healthz").status_code == 200


def test_a_request_that_breaks_off_leaves_nothing(house: House) -> None:
    before = rows(house)
    key = house.key("tenant admin")
    raw_request(
        house,
        b"POST /api/v1/users HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        + f"Authorization: Bearer {key}\r\nContent-Length: 100\r\n\r\n".encode()
        + b'{"email": "a@b"}',
        cut=True,
    )
    after = rows(house)
    assert after[0] == before[0]
    assert house.client().get("/healthz").status_code == 200


@pytest.mark.sqlite_file
def test_a_failure_inside_says_nothing_of_itself(
    house: House, admin: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    raw = sqlite3.connect(house.server.data / "reenact.db")
    raw.execute("ALTER TABLE environments RENAME TO hidden")
    try:
        answer = admin.put("/api/v1/environments/secret-name", json={"kind": "non-production"})
    finally:
        raw.execute("ALTER TABLE hidden RENAME TO environments")
        raw.close()
    assert shaped(answer) == "internal"
    assert "environments" not in answer.text
    assert answer.headers["x-request-id"] in caplog.text
    assert "OperationalError" in caplog.text
    assert "secret-name" not in caplog.text


def test_a_password_may_be_anything_but_short_or_endless(house: House, admin: httpx.Client) -> None:
    for password in ("", "short", "x" * 1001):
        asked = {"token": "0" * 64, "password": password}
        assert shaped(house.client().post("/api/v1/invite", json=asked)) == "invalid"
    asked = {"token": "0" * 64, "password": PASSWORD}
    assert shaped(house.client().post("/api/v1/invite", json=asked)) == "gone"
