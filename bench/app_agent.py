"""CPU time that the app agent adds to a request, next to OpenTelemetry and Sentry.

Every case is a process of its own that serves one small FastAPI endpoint with uvicorn. Reenact's app
agent sends to a real ``reenact serve``; the peers export to a local server that accepts everything. CPU
time is that of the app process with all of its threads, until everything has been exported. At the end
the server has to have a complete exchange for every request that was sampled.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from bench.measure import Row, Setting, at_most, fact, interleave, ratio
from bench.server_process import APP, ENVIRONMENT, Line, serving, settle
from reenact.store.pack import unpack

TITLE = "the app agent next to its peers"

_NEEDED: Final = (
    "fastapi",
    "uvicorn",
    "sentry_sdk",
    "opentelemetry.instrumentation.fastapi",
    "opentelemetry.exporter.otlp.proto.http",
)
_RATES: Final = {"1 %": 0.01, "100 %": 1.0}
_TARGETS: Final = {"1 %": 1.3, "100 %": 3.0}
_REENACT, _SENTRY, _OTEL = "Reenact", "Sentry", "OpenTelemetry"
_PEERS: Final = (_OTEL, _SENTRY, _REENACT)
_LOOKED_AT: Final = 20
"""Exchanges that are fetched with their recordings."""


def run(setting: Setting) -> Iterator[Row]:
    missing = [name for name in _NEEDED if not _is_installed(name)]
    if missing:
        setting.say(f"skipped: {' and '.join(missing)} not installed")
        return
    count = setting.scaled(1_000)
    with ExitStack() as stack:
        (rights,) = asyncio.run(settle(setting.folder / "server", ""))
        server = stack.enter_context(serving(setting.folder / "server"))
        sink = stack.enter_context(_started("sink"))
        key = rights.agent_key
        apps = {"bare": stack.enter_context(_started("bare"))}
        for peer in _PEERS:
            url = server.url if peer == _REENACT else sink
            for label, rate in _RATES.items():
                name = f"{peer}, {label}"
                data = str(setting.folder / f"data-{len(apps)}")
                apps[name] = stack.enter_context(_started(peer, url, key, data, str(rate)))
        cases = {name: partial(_cpu, url, count) for name, url in apps.items()}
        times = interleave(cases, setting.rounds)
        with Line(server.url, key=rights.user_key) as line:
            _check_complete(line, count * (setting.rounds + 1), setting.folder)
    each = [seconds * 1e6 / count for seconds in times["bare"]]
    yield fact("app without an agent: CPU per request", each, "µs", clock="cpu")
    for label in _RATES:
        for peer in _PEERS:
            limit = at_most(_TARGETS[label]) if peer == _REENACT else None
            name = f"{peer}, {label} sampled: CPU per request / without"
            yield ratio(name, times[f"{peer}, {label}"], times["bare"], limit)
        name = f"Reenact / Sentry, {label} sampled: CPU per request"
        ours, theirs = times[f"{_REENACT}, {label}"], times[f"{_SENTRY}, {label}"]
        yield ratio(name, ours, theirs, at_most(1))


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@contextmanager
def _started(*words: str) -> Iterator[str]:
    """A process of this module until the block ends. Yields its address."""
    command = [sys.executable, "-m", "bench.app_agent", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        if found is None:
            process.terminate()
            raise RuntimeError(f"{' '.join(words[:1])} did not start")
        try:
            yield found[0]
        finally:
            process.terminate()


def _cpu(url: str, count: int) -> float:
    """CPU seconds of the app for ``count`` requests and for exporting them."""
    connection = HTTPConnection(url.removeprefix("http://"), timeout=120)
    before = float(_get(connection, "/-/cpu"))
    for number in range(count):
        _get(connection, f"/items/{number}?page=2")
    after = float(_get(connection, "/-/cpu"))
    connection.close()
    return after - before


def _get(connection: HTTPConnection, path: str) -> bytes:
    connection.request("GET", path, headers={"Accept": "application/json", "User-Agent": "bench"})
    answer = connection.getresponse()
    data = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"GET {path}: {answer.status} {data[:200]!r}")
    return data


def _check_complete(line: Line, requests: int, folder: Path) -> None:
    """Raise unless the server has a complete exchange for each of the ``requests`` to the app that
    records all of them, and for about as many as expected of the app that samples. The recordings of
    some are unpacked into ``folder``."""
    of_agents: dict[str, list[str]] = {}
    for one in _all_exchanges(line):
        if one["notReplayable"] or one["status"] != "completed":
            raise RuntimeError(f"an exchange is not complete: {one}")
        of_agents.setdefault(one["agentId"], []).append(one["exchangeId"])
    *sampled, whole = sorted(of_agents.values(), key=len)
    if len(whole) != requests or len(set(whole)) != requests:
        raise RuntimeError(f"{len(set(whole))} of {requests} exchanges arrived")
    rate = _RATES["1 %"]
    spread = 5 * (requests * rate * (1 - rate)) ** 0.5
    if abs(sum(map(len, sampled)) - requests * rate) > spread:
        raise RuntimeError(f"{sum(map(len, sampled))} of {requests} exchanges were sampled")
    for number, exchange_id in enumerate(whole[:: max(1, requests // _LOOKED_AT)]):
        _check_one(line, exchange_id, folder / f"exchange-{number}")


def _all_exchanges(line: Line) -> Iterator[dict[str, Any]]:
    cursor = ""
    while True:
        page = json.loads(line.get(f"/api/v1/exchanges?limit=500{cursor}"))
        yield from page["items"]
        if page["next"] is None:
            return
        cursor = f"&cursor={quote(page['next'])}"


def _check_one(line: Line, exchange_id: str, folder: Path) -> None:
    """Raise unless payload, result and recording of an exchange are there, and belong together."""
    found = json.loads(line.get(f"/api/v1/exchanges/{exchange_id}"))
    number = int(found["start"]["properties"]["http.path"].removeprefix("/items/"))
    if json.loads(found["result"]["body"]["text"]) != {"number": number, "page": 2, "name": "tea"}:
        raise RuntimeError(f"the result of {exchange_id} is not that of its request")
    packed = folder.with_suffix(".packed")
    packed.write_bytes(line.get(f"/api/v1/exchanges/{exchange_id}/recording"))
    if unpack(packed, folder).manifest.event_count != found["recording"]["events"]:
        raise RuntimeError(f"the recording of {exchange_id} does not have all of its events")


# The processes


def _serve(app: Any) -> None:
    import socket

    import uvicorn

    # asyncio turns Nagle's algorithm off only for sockets that name their protocol.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(128)
    print(f"at http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    config = uvicorn.Config(app, http="h11", loop="asyncio", log_level="error", access_log=False)
    uvicorn.Server(config).run([listening])


def _app() -> Any:
    from fastapi import FastAPI

    app = FastAPI()

    @app.get("/items/{number}")
    async def read_item(number: int, page: int = 1) -> dict[str, Any]:
        return {"number": number, "page": page, "name": "tea"}

    return app


def _measured(app: Any, flush: Callable[[], None]) -> Any:
    """``app``, and one more path in front of everything: the CPU time once all is exported."""
    import time

    async def outermost(scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path") != "/-/cpu":
            await app(scope, receive, send)
            return
        await asyncio.to_thread(flush)
        body = str(time.process_time()).encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return outermost


def _with_opentelemetry(url: str, rate: float) -> tuple[Any, Callable[[], None]]:
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    resource = Resource.create({"service.name": APP})
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(rate)), resource=resource)
    exporter = OTLPSpanExporter(endpoint=f"{url}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    app = _app()
    FastAPIInstrumentor.instrument_app(app)

    def flush() -> None:
        if not provider.force_flush():
            raise RuntimeError("spans could not be exported")

    return app, flush


def _with_sentry(url: str, rate: float) -> tuple[Any, Callable[[], None]]:
    import sentry_sdk

    address = url.replace("http://", "http://public@") + "/1"
    sentry_sdk.init(dsn=address, traces_sample_rate=rate, environment=ENVIRONMENT)
    return _app(), lambda: sentry_sdk.flush(timeout=60)


def _with_reenact(url: str, key: str, data: str, rate: float) -> tuple[Any, Callable[[], None]]:
    import time

    from reenact.exchange import Agent

    agent = Agent(url, key, app=APP, environment=ENVIRONMENT, data=Path(data), sample=rate)
    agent.start()

    def flush() -> None:
        while agent.status().spooled:
            time.sleep(0.2)  # looking is work of the benchmark, and counts as the agent's

    return agent.asgi(_app()), flush


def _accept_everything() -> None:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def accept(request: Request) -> JSONResponse:
        await request.body()
        return JSONResponse({})

    _serve(Starlette(routes=[Route("/{path:path}", accept, methods=["POST"])]))


def _main(kind: str, url: str = "", key: str = "", data: str = "", rate: str = "0") -> None:
    if kind == "sink":
        _accept_everything()
    elif kind == "bare":
        _serve(_measured(_app(), lambda: None))
    elif kind == _OTEL:
        _serve(_measured(*_with_opentelemetry(url, float(rate))))
    elif kind == _SENTRY:
        _serve(_measured(*_with_sentry(url, float(rate))))
    else:
        _serve(_measured(*_with_reenact(url, key, data, float(rate))))


if __name__ == "__main__":
    _main(*sys.argv[1:])
