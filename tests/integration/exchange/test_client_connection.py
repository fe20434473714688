"""Being known to the server, and staying so: registration, heartbeats, the stream, goodbye."""

from __future__ import annotations

import http.client
import io
import socket
import threading
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from reenact.errors import AuditInvalid, UsageError
from reenact.exchange.client.runtime import ServerExporter
from reenact.exchange.client.workers import WorkerThread
from reenact.exchange.model import Registration, Route
from tests.integration.exchange.client_helpers import (
    CountingRunner,
    an_exchange,
    limits,
    linked,
    registration,
    until_status,
)
from tests.integration.exchange.protocol_server import KEY, Fault, ProtocolServer

RUNNER = CountingRunner()
CONTAINMENT = {"drivers": [], "files": "refuse", "scratch": []}


def connected(server: ProtocolServer, times: int = 1) -> str:
    server.until(lambda: len(server.last_event_ids) >= times)
    return str(server.registrations[0]["agentId"])


def _route(revision: str) -> dict[str, object]:
    return {"routeId": "orders", "revision": revision, "kind": "route", "processors": []}


def test_an_agent_says_what_it_is(tmp_path: Path) -> None:
    with ProtocolServer() as server, linked(server, tmp_path) as link:
        agent = connected(server)
        assert server.registrations == [
            {
                "protocol": 1,
                "agentId": agent,
                "app": "shop",
                "environment": "test",
                "name": "",
                "version": "",
                "routes": [_route("r1")],
                "capabilities": [],
                "containment": CONTAINMENT,
            }
        ]
        until_status(link, lambda now: now.state == "connected")
    with ProtocolServer() as server, linked(server, tmp_path):
        assert connected(server) == agent


def test_it_says_how_it_is_doing(tmp_path: Path) -> None:
    with ProtocolServer() as server:
        server.heartbeat_seconds = 0.05
        server.fail("ingest", *[Fault(500)] * 1_000)
        with linked(server, tmp_path, timeout=0.5) as link:
            link.offer(an_exchange(), None)
            server.until(lambda: any(beat.get("spooled") == 1 for beat in server.heartbeats))
            assert all(beat["epoch"] == 1 for beat in server.heartbeats)


@pytest.mark.parametrize(
    "fault", [Fault(500), Fault(200, body=b"{}"), Fault(cut=0), Fault(404), Fault(403, code="key")]
)
def test_registration_is_tried_until_it_succeeds(tmp_path: Path, fault: Fault) -> None:
    with ProtocolServer() as server:
        server.fail("agents", fault, fault, fault)
        with linked(server, tmp_path):
            connected(server)


def test_a_server_that_has_forgotten_us_is_told_again(tmp_path: Path) -> None:
    with ProtocolServer() as server:
        server.heartbeat_seconds = 0.05
        server.fail("heartbeat", Fault(404, code="agent_unknown"))
        with linked(server, tmp_path):
            connected(server, 2)
            server.until(lambda: any(beat["epoch"] == 2 for beat in server.heartbeats))
    assert len(server.registrations) == 2


def test_a_stream_that_is_unknown_leads_to_registration(tmp_path: Path) -> None:
    with ProtocolServer() as server:
        server.fail("commands", Fault(404, code="agent_unknown"))
        with linked(server, tmp_path):
            server.until(lambda: len(server.registrations) == 2)
            connected(server)


def test_routes_that_change_are_told(tmp_path: Path) -> None:
    runner = CountingRunner()
    routes = [runner.routes()]
    with ProtocolServer() as server:
        server.heartbeat_seconds = 0.05

        def told() -> Registration:
            return Registration(
                protocol=1, agent_id="", app="shop", environment="test", routes=routes[0]
            )

        with linked(server, tmp_path, runner, registration=told):
            connected(server)
            routes[0] = (Route(route_id="orders", revision="r2"),)
            server.until(lambda: len(server.registrations) == 2)
            connected(server, 2)
            server.give(server.order(server.registrations[0]["agentId"], "rp-1"))
            server.until(lambda: server.exchanges)
    assert server.registrations[1]["routes"] == [_route("r2")]


def test_an_app_that_cannot_say_what_it_is_is_asked_again(tmp_path: Path) -> None:
    runner, asked = CountingRunner(), list[int]()

    def told() -> Registration:
        asked.append(1)
        if len(asked) < 3:
            raise RuntimeError("not ready")
        return registration(runner)

    warnings: list[str] = []
    options: Any = {"registration": told, "warnings": warnings}
    with ProtocolServer() as server, linked(server, tmp_path, runner, **options):
        connected(server)
    assert len(warnings) == 1


@pytest.mark.parametrize("how", ["event", "heartbeat", "stream"])
def test_an_agent_that_is_superseded_is_quiet(tmp_path: Path, how: str) -> None:
    warnings: list[str] = []
    with ProtocolServer() as server:
        server.heartbeat_seconds = 0.05 if how == "heartbeat" else 15.0
        gone = Fault(409, code="agent_superseded")
        server.fail("heartbeat" if how == "heartbeat" else "commands", *[gone] * (how != "event"))
        with linked(server, tmp_path, warnings=warnings) as link:
            if how == "event":
                connected(server)
                server.send("superseded")
            until_status(link, lambda now: now.state == "superseded")
            link.offer(an_exchange(), None)  # it still sends what it has
            server.until(lambda: server.exchanges)
    assert len(server.registrations) == 1
    assert [text for text in warnings if "another process" in text] == warnings


def test_a_stream_is_resumed_where_it_broke_off(tmp_path: Path) -> None:
    runner = CountingRunner()
    with ProtocolServer() as server, linked(server, tmp_path, runner):
        agent = connected(server)
        server.give(server.order(agent, "rp-1"))
        server.until(lambda: len(server.exchanges) == 1)
        server.cut_all()
        connected(server, 2)
        server.give(server.order(agent, "rp-2"))
        server.until(lambda: len(server.exchanges) == 2)
    assert server.last_event_ids[:2] == ["", "1"]
    assert runner.ran == ["rp-1", "rp-2"]


def test_a_server_that_drains_is_connected_to_again(tmp_path: Path) -> None:
    with ProtocolServer() as server, linked(server, tmp_path):
        connected(server)
        server.send("drain")
        connected(server, 2)
    assert len(server.registrations) == 1


def test_a_silent_stream_is_given_up(tmp_path: Path) -> None:
    with ProtocolServer() as server:
        server.fail("commands", Fault(200, headers={"Content-Length": "1000"}, body=b""))
        server.retry = 0
        with linked(server, tmp_path, limits=limits(silence_seconds=0.2)):
            connected(server)
    asked = [path for _, path in server.requests if path.endswith("/commands")]
    assert len(asked) >= 2


def test_a_server_that_never_answers_does_not_hold_up_closing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        with linked(url, tmp_path, timeout=0.2) as link:
            link.offer(an_exchange(), None)
            mute.accept()[0].close()
            mute.accept()[0].close()
    assert link.status().spooled == 1
    assert not [one for one in threading.enumerate() if isinstance(one, WorkerThread)]


def test_closing_twice_and_offering_afterwards_is_harmless(tmp_path: Path) -> None:
    with ProtocolServer() as server, linked(server, tmp_path) as link:
        connected(server)
        link.close(5)
        link.close(5)
        link.offer(an_exchange(), link.place())
        link.start()
    assert len(server.goodbyes) == 1


def test_an_answer_that_is_too_large_is_no_answer(tmp_path: Path) -> None:
    with ProtocolServer() as server:
        server.fail("agents", Fault(200, body=b"x" * 5_000))
        with linked(server, tmp_path, limits=limits(answer_bytes=4_000)):
            connected(server)


def test_few_threads_are_used(tmp_path: Path) -> None:
    with ProtocolServer() as server, linked(server, tmp_path):
        connected(server)
        ours = [one for one in threading.enumerate() if isinstance(one, WorkerThread)]
        assert len(ours) == 3
        assert all(one.daemon for one in ours)


# The key


def everywhere(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_the_key_is_nowhere_but_in_the_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(http.client.HTTPConnection, "debuglevel", 1)  # as a program may do
    runner = CountingRunner()
    runner.act = _raising(lambda: ValueError(KEY))
    printed = io.StringIO()
    with redirect_stdout(printed), ProtocolServer() as server:
        server.refuse = {"ex-1": "refused"}
        server.fail("ingest", Fault(401, code="key_unknown"))
        server.fail("agents", Fault(403, code="key_bound_elsewhere"), Fault(cut=0))
        with linked(server, tmp_path, runner, warnings=warnings) as link:
            link.offer(an_exchange("ex-1"), None)
            agent = connected(server)
            server.give(server.order(agent, "rp-1"))
            server.until_state("rp-1", "failed")
            server.until(lambda: server.ingested)
            said = f"{link!r} {link.status()} {vars(link)} {warnings}"
    assert KEY not in said + printed.getvalue()
    assert KEY.encode() not in everywhere(tmp_path)


def _raising(make: Callable[[], BaseException]) -> Callable[[Any], None]:
    def act(job: Any) -> None:
        raise make()

    return act


@pytest.mark.parametrize("key", ["", "k-1", f"{KEY}\n", f"two {KEY}", "schlüssel" * 4])
def test_a_key_that_is_none_is_refused_without_a_word_of_it(tmp_path: Path, key: str) -> None:
    with pytest.raises(UsageError) as raised:
        ServerExporter("http://127.0.0.1:9", key, lambda: registration(RUNNER), RUNNER, tmp_path)
    assert not key or key not in f"{raised.value} {raised.value.hint}"


@pytest.mark.parametrize(
    "server",
    [
        "",
        "127.0.0.1:80",
        "ftp://127.0.0.1",
        "http://",
        "http://user:hunter2@127.0.0.1",
        "http://127.0.0.1/?x=1",
        "http://127.0.0.1:port",
        "http://[::1",
    ],
)
def test_an_address_that_is_none_is_refused(tmp_path: Path, server: str) -> None:
    with pytest.raises(UsageError) as raised:
        ServerExporter(server, KEY, lambda: registration(RUNNER), RUNNER, tmp_path)
    assert "hunter2" not in str(raised.value)


def test_a_pinned_key_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AuditInvalid):
        ServerExporter(
            "http://127.0.0.1:9",
            KEY,
            lambda: registration(RUNNER),
            RUNNER,
            tmp_path,
            command_key="x",
        )


def test_a_key_that_anybody_can_read_on_its_way_is_warned_about(tmp_path: Path) -> None:
    warnings: list[str] = []
    with linked("http://reenact.example", tmp_path, start=False, warnings=warnings) as link:
        link.offer(an_exchange(), None)
    assert len(warnings) == 1
    assert "https" in warnings[0]


def test_a_report_that_is_never_taken_does_not_silence_the_agent(tmp_path: Path) -> None:
    with ProtocolServer() as server:
        server.heartbeat_seconds = 0.05
        server.fail("state", *[Fault(500)] * 10_000)
        with linked(server, tmp_path, timeout=0.5):
            server.give(server.order(connected(server), "rp-1"))
            server.until(lambda: [path for _, path in server.requests if path.endswith("/state")])
            beats = len(server.heartbeats)
            server.until(lambda: len(server.heartbeats) > beats + 3)
