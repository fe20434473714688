"""The first start, the next one, and starts that must not be."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from reenact.errors import UsageError
from reenact.server.process.startup import OpenServer, World, open_server
from tests.server.house import PASSWORD, Chance, Clock, House, running


def opened(data: Path, name: str = "") -> OpenServer:
    """Open and close it."""

    async def once() -> OpenServer:
        async with open_server(data, name, World(Clock(), Chance())) as found:
            return found

    return asyncio.run(once())


def account(token: str) -> dict[str, str]:
    return {"token": token, "email": "Ada@Example.com", "password": PASSWORD}


def test_the_link_makes_the_first_account_once(house: House) -> None:
    client = house.client()
    made = client.post("/api/v1/setup", json=account(house.setup_token))
    assert made.status_code == 201
    assert made.json() | {"id": ""} == {"id": "", "email": "ada@example.com", "tenant": "default"}
    again = client.post("/api/v1/setup", json=account(house.setup_token))
    assert (again.status_code, again.json()["error"]["code"]) == (403, "setup_done")
    session = client.post(
        "/api/v1/session", json={"email": "ada@example.com", "password": PASSWORD}
    ).json()
    roles = {grant["role"] for grant in session["grants"]}
    assert roles == {"tenant admin", "platform admin", "replayer"}
    assert session["tier"] == "business"
    actions = [record["action"] for record in house.records()]
    assert actions == ["log.opened", "user.created", *["role.granted"] * 3, "session.opened"]


def test_a_wrong_link_makes_nothing(house: House) -> None:
    for token in ("", "no link yet", "0" * 64):
        answer = house.client().post("/api/v1/setup", json=account(token))
        assert answer.json()["error"]["code"] == "setup_done"
    assert house.records() == []


def test_a_link_is_not_spent_by_a_password_that_is_too_short(house: House) -> None:
    client = house.client()
    short = account(house.setup_token) | {"password": "short"}
    assert client.post("/api/v1/setup", json=short).json()["error"]["code"] == "invalid"
    assert client.post("/api/v1/setup", json=account(house.setup_token)).status_code == 201


def test_each_start_has_a_link_until_one_is_used(tmp_path: Path) -> None:
    with running(tmp_path) as first:
        old = first.setup_token
    with running(tmp_path) as second:
        client, new = second.client(), second.setup_token
        assert client.post("/api/v1/setup", json=account(old)).status_code == 403
        assert client.post("/api/v1/setup", json=account(new)).status_code == 201
    with running(tmp_path) as third:
        assert third.setup_token == ""


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    first = opened(tmp_path).server
    second = opened(tmp_path).server
    assert first.deployment == second.deployment
    assert first.deployment.endswith(".internal")
    assert first.signer.key == second.signer.key
    assert first.auditor.key("default") == second.auditor.key("default")
    assert first.signer.key.public != first.auditor.key("default").public


@pytest.mark.sqlite_file
def test_a_folder_has_one_server(tmp_path: Path) -> None:
    with running(tmp_path), pytest.raises(UsageError, match="another server") as refused:
        opened(tmp_path)
    assert "--data" in refused.value.hint
    assert opened(tmp_path).server.deployment == "test.example"


def test_the_name_is_settled_at_the_first_start(tmp_path: Path) -> None:
    opened(tmp_path, "one.example")
    with pytest.raises(UsageError, match=r"called one\.example"):
        opened(tmp_path, "two.example")
    assert opened(tmp_path, "one.example").server.deployment == "one.example"


@pytest.mark.parametrize("name", ["Has Space", "a/b", "-a", "A.example", "x" * 300, "a+b"])
def test_a_name_is_a_host_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot name"):
        opened(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_secrets_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    opened(tmp_path / "data")
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    for key in (tmp_path / "data" / "keys").iterdir():
        assert key.stat().st_mode & 0o777 == 0o600


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    opened(tmp_path)
    (tmp_path / "keys" / "audit").chmod(0o644)
    with pytest.raises(UsageError, match="others can read") as refused:
        opened(tmp_path)
    assert "chmod 600" in refused.value.hint


@pytest.mark.parametrize("content", [None, "", "zz", "00" * 31])
def test_a_lost_or_damaged_key_is_never_made_anew(tmp_path: Path, content: str | None) -> None:
    opened(tmp_path)
    key = tmp_path / "keys" / "audit"
    if content is None:
        key.unlink()
    else:
        key.write_text(content, "ascii")
    with pytest.raises(UsageError, match="key") as refused:
        opened(tmp_path)
    assert "restore" in refused.value.hint


@pytest.mark.sqlite_file
def test_a_database_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    opened(tmp_path)
    raw = sqlite3.connect(tmp_path / "reenact.db")
    raw.execute("UPDATE deployment SET schema_version = 999")
    raw.commit()
    raw.close()
    with pytest.raises(UsageError, match="999") as refused:
        opened(tmp_path)
    assert "newer" in refused.value.hint


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("", "utf-8")
    with pytest.raises(UsageError, match="cannot be used"):
        opened(tmp_path / "data")
