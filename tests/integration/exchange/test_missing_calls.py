"""Replays of endpoints that do not make recorded calls any more: they end without waiting.

The patience of these replays is longer than any test run. A replay that waits for a missing call
does not end within the limit.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from flask import Flask, request
from pydantic import BaseModel
from starlette.responses import StreamingResponse

from reenact.exchange import recorder
from tests.integration.exchange.apps import only, replay

LIMIT = 60
"""Seconds after which a replay counts as hanging."""


class Order(BaseModel):
    calls: list[str]


@pytest.fixture(autouse=True)
def _endless_patience(monkeypatch):
    monkeypatch.setattr(recorder, "_PATIENCE", 100_000.0)


@pytest.fixture
def get(upstream):
    """Gets the paths from the upstream server, and returns the numbers of its responses."""

    def get_all(paths: list[str]) -> list[int]:
        with httpx.Client(base_url=upstream.url) as client:
            return [client.get(path).json()["n"] for path in paths]

    return get_all


@pytest.fixture
def again(agent, tmp_path):
    """Records one request to the endpoint ``/orders`` with ``calls``, and replays it with others."""

    def run(app: FastAPI, calls: list[str], others: str, *, served: bool = True, **more: Any):
        done: list[Any] = []

        def replay_once() -> None:
            done.append(
                replay(agent, only(agent), tmp_path / "again", [f"body.calls={others}"], **more)
            )

        async def main() -> None:
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
                recorded = await client.post("/orders", json={"calls": calls})
            assert recorded.status_code == 200
            if served:  # on the loop of the app, else on a loop of its own
                await until_ended(_daemon(replay_once))

        asyncio.run(main())
        if not served:
            asyncio.run(until_ended(_daemon(replay_once)))
        return _outcome(done[0].exchange)

    return run


def _daemon(work) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


async def until_ended(thread: threading.Thread) -> None:
    ended = asyncio.get_running_loop().run_in_executor(None, thread.join, LIMIT)
    await ended
    assert not thread.is_alive(), "the replay waits for a call that is not made"


def _outcome(exchange) -> tuple[str, Any, list[tuple[str, str]]]:
    """Status, result, and the code and lane of every divergence."""
    told = [(one["code"], one["lane"]) for one in exchange.replay.divergences]
    return exchange.status, exchange.result.body.text, told


def make_app(agent, endpoint) -> FastAPI:
    app = FastAPI()
    app.add_middleware(agent.asgi)
    app.post("/orders")(endpoint)
    return app


MISSING = ("event_missing", "0.1")


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("served", [False, True])
def test_sync_endpoint_without_its_last_call_ends_at_once(agent, get, again, served, strict):
    def endpoint(order: Order):
        return get(order.calls)

    app = make_app(agent, endpoint)
    found = again(app, ["/a", "/b"], '["/a"]', served=served, strict=strict)
    assert found == ("completed", "[1]", [MISSING])


def test_sync_endpoint_without_any_of_its_calls_ends_at_once(agent, get, again):
    def endpoint(order: Order):
        return get(order.calls)

    found = again(make_app(agent, endpoint), ["/a", "/b", "/c"], "[]")
    assert found == ("completed", "[]", [MISSING] * 3)


def test_function_in_thread_without_its_last_call_ends_at_once(agent, get, again):
    async def endpoint(order: Order):
        return await asyncio.to_thread(get, order.calls)

    found = again(make_app(agent, endpoint), ["/a", "/b"], '["/a"]')
    assert found == ("completed", "[1]", [MISSING])


@pytest.mark.parametrize("strict", [False, True])
def test_submitted_job_without_its_last_call_ends_at_once(agent, get, again, strict):
    """The calls of the endpoint after the job are not held up. The executor is the program's own."""

    def endpoint(order: Order):
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(get, order.calls)
            found = job.result()
            return [len(found), get(["/z"])[0]]

    status, text, told = again(
        make_app(agent, endpoint), ["/a", "/b"], '["/a"]', served=False, strict=strict
    )
    assert (status, text, told) == ("completed", "[1,3]", [("event_missing", "0.1.1")])


def test_mapped_jobs_without_their_last_calls_end_at_once(agent, get, again):
    def endpoint(order: Order):
        with ThreadPoolExecutor(2) as pool:
            jobs = pool.map(get, [order.calls, ["/x"]])
            return [*map(len, jobs), get(["/z"])[0]]

    status, text, told = again(make_app(agent, endpoint), ["/a", "/b"], '["/a"]')
    assert (status, text, told) == ("completed", "[1,1,4]", [("event_missing", "0.1.1")])


def test_sync_endpoint_that_starts_one_thread_less_ends_at_once(agent, get, again):
    def endpoint(order: Order):
        for path in order.calls:
            thread = threading.Thread(target=get, args=([path],))
            thread.start()
            thread.join()
        return "done"

    found = again(make_app(agent, endpoint), ["/a", "/b"], '["/a"]')
    assert found == ("completed", '"done"', [("event_missing", "0.1.2")])


def test_stream_is_read_after_the_end_of_the_endpoint_that_opened_it(agent, upstream, again):
    """Its pieces come in other lanes than the call: the end of that one does not make them missing."""

    def endpoint(order: Order):
        client = httpx.Client(base_url=upstream.url)
        requests = [client.build_request("GET", path) for path in order.calls]
        responses = [client.send(one, stream=True) for one in requests]

        def pieces():
            for response in responses:
                yield from response.iter_bytes()
            client.close()

        return StreamingResponse(pieces(), media_type="text/plain")

    status, text, told = again(make_app(agent, endpoint), ["/a", "/b"], '["/a"]')
    assert (status, told) == ("completed", [MISSING])
    assert '"path": "/a"' in text
    assert '"path": "/b"' not in text


def test_other_sync_functions_get_their_responses_in_order(agent, get, again):
    """One of two that run at a time makes a call less; the other one is answered as before."""

    async def endpoint(order: Order):
        first = asyncio.to_thread(get, order.calls)
        second = asyncio.to_thread(get, ["/x", "/y", "/z"])
        return [len(found) for found in await asyncio.gather(first, second)]

    status, text, told = again(make_app(agent, endpoint), ["/a", "/b"], '["/a"]')
    assert (status, text, told) == ("completed", "[1,3]", [("event_missing", "0.1.1")])


def test_flask_endpoint_without_its_last_call_ends_at_once(agent, get, tmp_path: Path):
    app = Flask(__name__)

    @app.post("/orders")
    def endpoint():
        return get(request.json["calls"])

    transport = httpx.WSGITransport(agent.wsgi(app))
    with httpx.Client(transport=transport, base_url="http://x") as client:
        assert client.post("/orders", json={"calls": ["/a", "/b"]}).status_code == 200
    done: list[Any] = []
    thread = _daemon(
        lambda: done.append(replay(agent, only(agent), tmp_path / "again", ['body.calls=["/a"]']))
    )
    asyncio.run(until_ended(thread))
    status, _, told = _outcome(done[0].exchange)
    assert (status, told) == ("completed", [("event_missing", "0")])
