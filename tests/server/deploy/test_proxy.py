"""The guide's nginx before the guide's server: people, captures and streams go through it."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from reenact.cli.main import main
from reenact.exchange import Agent, Message
from reenact.format.event_fields import StateMutation
from tests.cli.samples import begin
from tests.clocks import monotonic
from tests.integration.exchange.apps import DECLARED
from tests.server.deploy.standing import Proxy, Served, before, serving
from tests.server.house import PASSWORD
from tests.server.traffic.puppet import ask_for

FROM = "127.0.0.2"
"""Another address of this machine, from which people come."""


class Visitor:
    """Somebody with a browser, at the proxy."""

    def __init__(self, proxy: Proxy) -> None:
        context = ssl.create_default_context(cafile=str(proxy.trusted))
        self.client = httpx.Client(
            base_url=proxy.url,
            transport=httpx.HTTPTransport(verify=context, local_address=FROM),
            headers={"Origin": "https://127.0.0.1"},
            timeout=60,
        )

    def sign_in(self, token: str) -> httpx.Response:
        form = {"email": "ada@example.com", "password": PASSWORD}
        made = self.client.post("/setup", data={**form, "token": token})
        assert made.status_code == 303, made.text
        signed = self.client.post(
            "/api/v1/session", json=form, headers={"X-Forwarded-For": "192.0.2.66"}
        )
        assert signed.status_code == 201, signed.text
        self.client.headers["X-CSRF-Token"] = signed.json()["csrfToken"]
        return signed

    def key(self, **said: object) -> str:
        made = self.client.post("/api/v1/keys", json={"name": "a key", **said})
        assert made.status_code == 201, made.text
        return str(made.json()["key"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("behind") / "data") as served:
        yield served


@pytest.fixture(scope="module")
def proxy(server: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with before(server, tmp_path_factory.mktemp("before") / "nginx") as proxy:
        yield proxy


@pytest.fixture
def visitor(proxy: Proxy) -> Iterator[Visitor]:
    visitor = Visitor(proxy)
    with visitor.client:
        yield visitor


def test_people_captures_and_streams_come_through(
    server: Served,
    proxy: Proxy,
    visitor: Visitor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    signed = visitor.sign_in(server.token)
    assert "strict-transport-security" in signed.headers
    _is_secure(signed)
    _knows_where_people_come_from(visitor)
    monkeypatch.setenv("SSL_CERT_FILE", str(proxy.trusted))
    monkeypatch.setenv("REENACT_SERVER", proxy.url)
    monkeypatch.setenv("REENACT_API_KEY", visitor.key(kind="user", grants=[{"role": "replayer"}]))
    _takes_a_large_capture(visitor, tmp_path, capsys)
    _replays(proxy, visitor, tmp_path)


def _is_secure(signed: httpx.Response) -> None:
    cookie = signed.headers["set-cookie"]
    assert cookie.startswith("__Host-reenact=")
    assert "Secure" in cookie


def _knows_where_people_come_from(visitor: Visitor) -> None:
    """It is the proxy that says so, and not whoever asks it."""
    found = visitor.client.get("/api/v1/audit/records", params={"action": "session.opened"})
    records = [one["record"] for one in found.json()["items"]]
    assert [one["actor"]["ip"] for one in records] == [FROM, FROM]  # set up, and signed in


def _takes_a_large_capture(
    visitor: Visitor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Larger than nginx takes unless it is told to."""
    with begin(tmp_path / "run") as recording:
        for _ in range(3):
            noise = os.urandom(1 << 19).hex()
            recording.add(StateMutation(kind="noise", details={"noise": noise}))
    assert main(["push", str(tmp_path / "run")]) == 0
    pushed = capsys.readouterr().out.partition(":")[0]
    (listed,) = visitor.client.get("/api/v1/captures").json()["items"]
    assert listed["captureId"] == pushed
    assert listed["size"] > 1 << 20
    assert main(["pull", pushed, "-o", str(tmp_path / "back")]) == 0
    assert "verified" in capsys.readouterr().out


def _replays(proxy: Proxy, visitor: Visitor, tmp_path: Path) -> None:
    """The command comes to the agent on a stream that stays open, and so do the states to people."""
    told: list[str] = []
    agent = Agent(
        proxy.url,
        visitor.key(kind="agent", app="shop", environment="staging"),
        app="shop",
        environment="staging",
        data=tmp_path / "agent",
        drivers=DECLARED,
        warn=told.append,
    )

    @agent.route("double")
    def double(message: Message) -> int:
        return int(message.body["n"]) * 2

    kind = visitor.client.put("/api/v1/environments/staging", json={"kind": "non-production"})
    assert kind.status_code == 200, kind.text
    with agent:
        assert double({"n": 4}) == 8
        exchange = _until(visitor, "/api/v1/exchanges")["exchangeId"]
        asked = ask_for(visitor.client, exchange)
        assert asked.status_code == 202, asked.text
        path = f"/api/v1/replays/{asked.json()['replayId']}/events"
        with visitor.client.stream("GET", path) as events:
            seen = [line for line in events.iter_lines() if line.startswith("data: ")]
    assert '"state":"completed"' in seen[-1]
    assert told == []


def _until(visitor: Visitor, path: str) -> dict[str, str]:
    """An agent sends when it likes, and tells nobody."""
    deadline = monotonic() + 60
    while monotonic() < deadline:
        items: list[dict[str, str]] = visitor.client.get(path).json()["items"]
        if items:
            return items[0]
    raise AssertionError("it never came")
