"""A FastAPI app served by uvicorn, linked to a server: recorded, sent, ordered to replay, sent."""

import json
import os
import socket
import threading
from contextlib import asynccontextmanager

import httpx
import msgspec
import pytest
import uvicorn
from fastapi import FastAPI, Request

from reenact.exchange import Agent, is_replay, step
from reenact.exchange.model import Exchange, ReplaySource
from reenact.exchange.payload import payload_digest
from reenact.exchange.payload_edits import edit_payload, parse_settings
from tests.integration.exchange.apps import DECLARED
from tests.integration.exchange.protocol_server import KEY, ProtocolServer

SECRET = "Bearer " + "w4E8" * 8


class Served:
    """An app behind uvicorn, in a thread."""

    def __init__(self, app):
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(64)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(app, log_level="error", lifespan="on", access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


@pytest.fixture
def protocol():
    with ProtocolServer() as server:
        yield server


@pytest.fixture
def linked(protocol, tmp_path):
    said: list[str] = []
    agent = Agent(
        protocol.url,
        KEY,
        app="shop",
        environment="test",
        version="1.0",
        data=tmp_path / "data",
        drivers=DECLARED,
        credentials=lambda path: SECRET if path == "/headers/authorization" else None,
        warn=said.append,
    )
    yield agent
    agent.close()
    assert [line for line in said if "is not https" not in line] == []


def make_app(agent, upstream):
    @asynccontextmanager
    async def lifespan(app):
        yield {"factor": 1}

    app = FastAPI(lifespan=lifespan)
    app.add_middleware(agent.asgi)
    app.state.seen = []

    @step("price")
    async def price(sku):
        async with httpx.AsyncClient(verify=False) as client:
            return (await client.get(f"{upstream.url}/{sku}")).json()["n"]

    @app.post("/orders")
    async def post_order(request: Request):
        body = await request.json()
        request.app.state.seen.append((request.headers["authorization"], threading.get_ident()))
        amount = body["amount"] * request.state.factor
        return {"price": await price(body["sku"]) * amount, "replay": is_replay()}

    return app


def stored(protocol, exchange_id):
    return msgspec.convert(protocol.exchanges[exchange_id], Exchange)


def order(protocol, agent, source, replay_id, settings):
    """What a server does: an edited payload, the recording, a signed command."""
    payload = edit_payload(source.start, parse_settings(settings))
    recording = source.recording
    assert recording is not None
    protocol.sources[replay_id] = ReplaySource(
        payload=payload, redacted=source.redacted, recording=recording
    )
    protocol.recordings[replay_id] = protocol.blobs[recording.digest]
    command = protocol.order(
        agent.status().agent_id,
        replay_id,
        source_exchange_id=source.exchange_id,
        route_id=source.route_id,
        revision=source.revision,
        payload_digest=payload_digest(payload),
    )
    protocol.give(command)


def test_from_a_request_to_its_edited_replay(protocol, linked, upstream, tmp_path):
    app = make_app(linked, upstream)
    with Served(app) as served:
        protocol.until(lambda: protocol.registrations)
        routes = {route["routeId"] for route in protocol.registrations[0]["routes"]}
        assert "POST /orders" in routes
        answer = httpx.post(
            f"{served.url}/orders",
            json={"sku": "a", "amount": 2},
            headers={"Authorization": SECRET},
        )
        assert answer.json() == {"price": 2, "replay": False}
        protocol.until(lambda: protocol.exchanges)
        source = stored(protocol, next(iter(protocol.exchanges)))
        upstream.asked.clear()
        order(protocol, linked, source, "rpl-1", ["body.amount=50"])
        protocol.until(lambda: len(protocol.exchanges) == 2)
        asked = list(upstream.asked)
    found = stored(protocol, next(x for x in protocol.exchanges if x != source.exchange_id))
    assert asked == []
    assert found.replay is not None
    assert (found.replay.replay_id, found.replay.served_calls) == ("rpl-1", 1)
    assert found.result is not None
    assert json.loads(found.result.body.text) == {"price": 50, "replay": True}
    assert found.recording is not None
    assert found.revision == source.revision
    assert [state for state, _ in protocol.says("rpl-1")] == ["delivered", "running"]
    first, second = app.state.seen
    assert first == second  # the same credentials, and the loop of the app itself
    for sent in (json.dumps(protocol.exchanges), *map(repr, protocol.blobs.values())):
        assert SECRET[7:] not in sent


def test_a_replay_without_credentials_is_refused(protocol, linked, upstream):
    with Served(make_app(linked, upstream)) as served:
        headers = {"Authorization": SECRET, "Cookie": "session=" + "k2" * 12}
        httpx.post(f"{served.url}/orders", json={"sku": "a", "amount": 2}, headers=headers)
        protocol.until(lambda: protocol.exchanges)
        source = stored(protocol, next(iter(protocol.exchanges)))
        order(protocol, linked, source, "rpl-1", [])
        protocol.until_state("rpl-1", "refused")
    assert protocol.says("rpl-1")[-1] == ("refused", "not_replayable")


def test_the_app_serves_while_the_server_is_away(protocol, linked, upstream):
    with Served(make_app(linked, upstream)) as served:
        protocol.until(lambda: protocol.registrations)
        protocol.stop()
        for n in range(5):
            answer = httpx.post(
                f"{served.url}/orders",
                json={"sku": "a", "amount": n},
                headers={"Authorization": "x"},
            )
            assert answer.status_code == 200
        protocol.start()
        protocol.until(lambda: len(protocol.exchanges) == 5)


def test_a_forked_worker_is_an_agent_of_its_own(protocol, linked):
    route = linked.route("r")(lambda message: message.body)
    route("parent")
    protocol.until(lambda: len(protocol.exchanges) == 1)
    child = os.fork()
    if child == 0:
        try:
            route("child")
            linked.close(20)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    protocol.until(lambda: len(protocol.exchanges) == 2)
    agents = {one["agentId"] for one in protocol.exchanges.values()}
    assert len(agents) == 2
    assert "" not in agents
