"""Passwords, keys, cookies, tokens and links are in no log line, table, record, export or error."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from sqlalchemy import select

from reenact.server.storage.tables import METADATA
from tests.server.databases import DATABASES
from tests.server.house import PASSWORD, House, token_of


class Seen:
    """Everything that somebody other than its owner could read."""

    def __init__(self, house: House, log: str) -> None:
        files = {
            str(path.relative_to(house.server.data)): path.read_bytes()
            for path in house.server.data.rglob("*")
            if path.is_file() and path.parent.name != "keys"
        }
        tables = _tables(house) if DATABASES.kind == "postgresql" else {}
        self.places = {**files, **tables, "log": log.encode(), "url": house.url.encode()}

    def where(self, secret: str) -> list[str]:
        return [name for name, text in self.places.items() if secret.encode() in text]


def _tables(house: House) -> dict[str, bytes]:
    """What SQLite would have in its file."""

    async def read() -> dict[str, bytes]:
        async with house.server.database.platform() as platform:
            found = {name: await platform.all(select(one)) for name, one in METADATA.tables.items()}
        return {name: repr(rows).encode() for name, rows in found.items()}

    return house.run(read())


@pytest.fixture
def secrets(house: House, caplog: pytest.LogCaptureFixture) -> dict[str, str]:
    """One of each kind, made and used, rightly and wrongly."""
    caplog.set_level(logging.DEBUG)
    client, found = house.client(), {"set-up link": house.setup_token, "password": PASSWORD}
    client.get(f"/setup?token={house.setup_token}")
    asked = {"token": house.setup_token, "email": "ada@example.com", "password": PASSWORD}
    assert client.post("/api/v1/setup", json=asked).status_code == 201
    wrong = "-".join(["not", "the", "password", "at", "all"])
    found["wrong password"] = wrong
    client.post("/api/v1/session", json={"email": "ada@example.com", "password": wrong})
    signed = client.post("/api/v1/session", json={"email": "ada@example.com", "password": PASSWORD})
    found["token"] = signed.json()["csrfToken"]
    found["cookie"] = client.cookies["reenact"]
    sent = {"X-CSRF-Token": found["token"]}
    found["own key"] = client.post("/api/v1/keys/own", json={}, headers=sent).json()["key"]
    agent = {"kind": "agent", "name": "a", "app": "shop", "environment": "live"}
    found["agent key"] = client.post("/api/v1/keys", json=agent, headers=sent).json()["key"]
    invited = client.post("/api/v1/users", json={"email": "b@example.com"}, headers=sent).json()
    found["invitation"] = token_of(invited["link"])
    client.get(f"/invite?token={found['invitation']}")
    client.post("/api/v1/invite", json={"token": found["invitation"], "password": "short"})
    for key in ("own key", "agent key"):
        house.client(found[key]).get("/api/v1/tenants")
        found[f"secret of the {key}"] = found[key].rpartition("_")[2]
        changed = found[key][:-1] + ("0" if found[key][-1] != "0" else "1")
        house.client(changed).get("/api/v1/session")
    client.get("/api/v1/audit/records", params={"actor": "x"})
    client.get("/api/v1/audit/export")
    return found


def test_nothing_shows(
    house: House, secrets: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    lines = [
        record.getMessage()
        for record in caplog.get_records("setup")
        if not record.name.startswith("http")  # the client's own
    ]
    seen = Seen(house, "\n".join(lines))
    found = {name: places for name, secret in secrets.items() if (places := seen.where(secret))}
    assert found == {}
    assert any("POST /api/v1/session 401" in line for line in lines)  # there is a log
    assert seen.where("ada@example.com")


def test_nothing_shows_in_the_log_or_an_export(house: House, secrets: dict[str, str]) -> None:
    key = house.client(house.key("audit:export"))
    text = key.get("/api/v1/audit/export?format=jsonl").text
    assert '"action":"key.created"' in text
    for secret in secrets.values():
        assert secret not in text


def test_nothing_shows_in_an_error(house: House, secrets: dict[str, str]) -> None:
    client = house.client(secrets["agent key"])
    for answer in (
        client.get("/api/v1/users"),
        client.post("/api/v1/setup", json={"token": secrets["set-up link"], "password": []}),
        client.post("/api/v1/session", json={"email": 1, "password": PASSWORD}),
        client.post("/api/v1/invite", json={"token": secrets["invitation"]}),
    ):
        assert answer.status_code >= 400
        for secret in secrets.values():
            assert secret not in answer.text


def test_nothing_shows_when_a_value_is_printed(house: House) -> None:
    from reenact.server.auth.credentials import KeyText
    from reenact.server.people.schema import SignInRequest

    secret = house.server.secret(32).hex()
    assert secret not in repr(KeyText("user", "key_1", secret))
    assert secret not in repr(SignInRequest(email="a@b", password=secret))
    assert (house.server.data / "keys" / "audit").read_text("ascii").strip() not in repr(
        house.server
    )


def test_the_folder_of_keys_has_nothing_else(house: House) -> None:
    keys: Path = house.server.data / "keys"
    assert sorted(path.name for path in keys.iterdir()) == ["audit", "commands"]
