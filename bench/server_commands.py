"""From the request for a replay to the agent's stream, against a bare round trip on the same server."""

from __future__ import annotations

import gzip
import itertools
import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPResponse
from time import perf_counter
from typing import Final

import msgspec

from bench.measure import Row, Setting, at_most, fact
from bench.server_exchanges import exchanges
from bench.server_places import Place, places
from bench.server_process import APP, ENVIRONMENT, Line, Process, Rights, serving
from reenact.exchange.model import Exchange, Registered

TITLE = "commands to agents"

_TENANTS: Final = tuple(f"tenant-{number}" for number in range(5))
"""People of one tenant may ask for 60 replays in a minute, and on PostgreSQL they are asked twice, the
second time for half as many."""
_EACH: Final = 38
_numbers = itertools.count()


def run(setting: Setting) -> Iterator[Row]:
    for place in places(setting, _TENANTS):
        with serving(place.data, place.address) as process:
            yield from _measure(setting, place, place.name, process, process)
        if place.address:
            name = f"{place.name}, agents at another process"
            with (
                serving(place.data, place.address) as one,
                serving(place.data, place.address) as two,
            ):
                yield from _measure(setting, place, name, one, two)


def _measure(
    setting: Setting, place: Place, name: str, asked: Process, near: Process
) -> Iterator[Row]:
    """Replays are asked of one process, agents are connected to the other, or the same."""
    each = setting.scaled(_EACH) // (1 if asked is near else 2)
    times: list[float] = []
    bare: list[float] = []
    source = next(exchanges(1, seed=next(_numbers)))
    for rights in place.rights:
        with ExitStack() as stack:
            agent = _Agent(stack, near, rights, source)
            person = stack.enter_context(Line(asked.url, key=rights.user_key))
            for _ in range(each):
                times.append(_command(agent, person, source.exchange_id))
                bare.append(_round_trip(person))
    label = f"{name}, replay asked for to command at the agent"
    low, high = _quantile(bare, 50), _quantile(times, 50)
    yield fact(f"{label}, p50: / GET /healthz", [high / low], "×", clock="wall")
    yield fact(f"{label}, p50", [high * 1e3], "ms", clock="wall")
    slow = _quantile(times, 95) * 1e3
    yield fact(f"{label}, p95", [slow], "ms", at_most(100), clock="wall")


def _quantile(values: list[float], part: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[part - 1]


class _Agent:
    """Connected, with an exchange of its route on the server."""

    def __init__(
        self, stack: ExitStack, process: Process, rights: Rights, source: Exchange
    ) -> None:
        line = stack.enter_context(Line(process.url, key=rights.agent_key))
        agent_id = f"agent-{rights.tenant}"
        said = {
            "protocol": 1,
            "agentId": agent_id,
            "app": APP,
            "environment": ENVIRONMENT,
            "routes": [{"routeId": source.route_id, "revision": source.revision}],
            "capabilities": ["replay", "cancel"],
        }
        answer = line.post("/api/v1/agents", msgspec.json.encode(said))
        epoch = msgspec.json.decode(answer, type=Registered).epoch
        body = gzip.compress(msgspec.json.encode({"exchange": source}))
        line.post("/api/v1/ingest", body, "application/x-ndjson", "gzip")
        stream = stack.enter_context(Line(process.url, key=rights.agent_key))
        path = f"/api/v1/agents/{agent_id}/commands?epoch={epoch}"
        self._answer: HTTPResponse = stream.stream(path)

    def next(self, replay_id: bytes) -> None:
        """Until the command for this replay is here."""
        while line := self._answer.readline():
            if line.startswith(b"data: ") and replay_id in line:
                return
        raise RuntimeError("the stream has ended")


def _command(agent: _Agent, person: Line, exchange_id: str) -> float:
    """The stream is read when the answer is here: what came before it has waited in the socket, and so
    this is the later of the two."""
    wanted = msgspec.json.encode({"reason": "bench", "boundaries": "live"})
    start = perf_counter()
    answer = person.post(f"/api/v1/exchanges/{exchange_id}/replays", wanted)
    agent.next(msgspec.json.decode(answer)["replayId"].encode())
    return perf_counter() - start


def _round_trip(line: Line) -> float:
    start = perf_counter()
    line.get("/healthz")
    return perf_counter() - start
