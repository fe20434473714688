"""An agent that does what a test says, over real sockets, and people who ask for replays."""

from __future__ import annotations

import gzip
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import msgspec

import reenact
from reenact.audit.keys import Key
from reenact.exchange.command_signature import verify_document
from reenact.exchange.model import (
    Body,
    Command,
    Exchange,
    Payload,
    RecordingRef,
    ReplayOf,
    ReplaySource,
    Route,
    Trace,
)
from reenact.exchange.payload import payload_digest
from reenact.format.canonical import digest_bytes
from reenact.store.pack import pack
from tests.server.house import START, House

ROUTE = Route(route_id="orders", revision="r1", processors=("validate",))


def start(amount: int = 5) -> Payload:
    """An order, as it came in."""
    return Payload(
        headers=(("Content-Type", "application/json"), ("X-User", "ann")),
        body=Body(type="json", text=f'{{"amount": {amount}}}', content_type="application/json"),
        properties={"http.method": "POST", "http.path": "/orders"},
    )


def result(total: int = 10) -> Payload:
    return Payload(
        body=Body(type="json", text=f'{{"total": {total}}}'), properties={"http.status": 200}
    )


@cache
def silent() -> bytes:
    """The recording of something that made no calls."""
    with tempfile.TemporaryDirectory() as folder:
        with reenact.session(capture=Path(folder, "run"), mode="record"):
            pass
        return packed(Path(folder, "run"))


def exchange(exchange_id: str = "ex-1", **changes: Any) -> Exchange:
    """One that made no calls, and can be replayed."""
    made = Exchange(
        exchange_id=exchange_id,
        route_id=ROUTE.route_id,
        revision=ROUTE.revision,
        started_at=START,
        duration=1.5,
        start=start(),
        result=result(),
        recording=named(silent()),
    )
    made = msgspec.structs.replace(made, **changes)
    return msgspec.structs.replace(made, start_digest=payload_digest(made.start))


def packed(recording: Path) -> bytes:
    """A recording as agents send it."""
    target = recording.with_suffix(".packed")
    pack(recording, target)
    return target.read_bytes()


def named(data: bytes) -> RecordingRef:
    return RecordingRef(digest=digest_bytes(data), size=len(data))


def lines(*exchanges: Exchange, blobs: tuple[bytes, ...] = ()) -> bytes:
    """The body of an ingest request. The recording of :func:`exchange` comes along by itself."""
    if any(one.recording == named(silent()) for one in exchanges):
        blobs = (silent(), *blobs)
    items: list[Any] = [
        {"blob": {"digest": digest_bytes(data), "base64": b64encode(data).decode()}}
        for data in blobs
    ]
    items += [{"exchange": one} for one in exchanges]
    return b"\n".join(map(msgspec.json.encode, items))


class Puppet:
    """An agent of ``app`` in ``environment``. Close it before the house."""

    def __init__(
        self,
        house: House,
        *,
        agent_id: str = "agent-1",
        app: str = "shop",
        environment: str = "staging",
        tenant: str = "default",
        key: str = "",
    ) -> None:
        self.agent_id = agent_id
        self.app = app
        self.environment = environment
        self.key = key or house.agent_key(app, environment, tenant)
        self.http = house.client(self.key)
        self.epoch = 0
        self._house = house
        self._command_key: Key | None = None

    def register(self, **changes: Any) -> httpx.Response:
        said = {
            "protocol": 1,
            "agentId": self.agent_id,
            "app": self.app,
            "environment": self.environment,
            "routes": [msgspec.to_builtins(ROUTE)],
            "capabilities": ["replay", "cancel"],
            **changes,
        }
        answer = self.http.post("/api/v1/agents", json=said)
        if answer.status_code == 200:
            self.epoch = answer.json()["epoch"]
            self._command_key = Key.from_text(answer.json()["commandKey"])
        return answer

    def heartbeat(self, **changes: Any) -> httpx.Response:
        said = {"epoch": self.epoch, **changes}
        return self.http.post(f"/api/v1/agents/{self.agent_id}/heartbeat", json=said)

    def ingest(self, *exchanges: Exchange, blobs: tuple[bytes, ...] = ()) -> list[dict[str, Any]]:
        answer = self.post_lines(gzip.compress(lines(*exchanges, blobs=blobs)), coding="gzip")
        assert answer.status_code == 200, answer.text
        results: list[dict[str, Any]] = answer.json()["results"]
        return results

    def post_lines(self, data: bytes, coding: str = "") -> httpx.Response:
        headers = {"Content-Type": "application/x-ndjson"}
        if coding:
            headers["Content-Encoding"] = coding
        return self.http.post("/api/v1/ingest", content=data, headers=headers)

    def stream(self, **headers: str) -> Stream:
        """Its command stream; close it."""
        return Stream(self._house, self.key, self.agent_id, self.epoch, headers)

    def read_command(self, data: str) -> Command:
        """A command whose signature holds."""
        assert self._command_key is not None
        assert verify_document(msgspec.json.decode(data), self._command_key)
        return msgspec.json.decode(data, type=Command)

    def say(self, replay_id: str, state: str, **more: Any) -> httpx.Response:
        said = {"state": state, "epoch": self.epoch, **more}
        return self.http.post(
            f"/api/v1/agents/{self.agent_id}/replays/{replay_id}/state", json=said
        )

    def source(self, replay_id: str) -> httpx.Response:
        return self.http.get(f"/api/v1/agents/{self.agent_id}/replays/{replay_id}/source")

    def outcome(self, command: Command, **changes: Any) -> Exchange:
        """What comes of doing what ``command`` says."""
        source = msgspec.json.decode(self.source(command.replay_id).content, type=ReplaySource)
        assert payload_digest(source.payload) == command.payload_digest
        return exchange(
            f"of-{command.replay_id}",
            start=source.payload,
            agent_id=self.agent_id,
            replay=ReplayOf(
                replay_id=command.replay_id,
                source_exchange_id=command.source_exchange_id,
                depth=command.depth,
                boundaries=command.boundaries,
            ),
            trace=Trace(trace_id=command.trace_parent.split("-")[1], span_id="3" * 16),
            **changes,
        )

    def run(self, command: Command, **changes: Any) -> list[dict[str, Any]]:
        """Do it, and send what came of it."""
        return self.ingest(self.outcome(command, **changes))


class Stream:
    """Server-sent events, read one by one."""

    def __init__(
        self, house: House, key: str, agent_id: str, epoch: int, headers: dict[str, str]
    ) -> None:
        self._stack = ExitStack()
        client = self._stack.enter_context(
            httpx.Client(base_url=house.url, timeout=60, trust_env=False)
        )
        sent = {"Authorization": f"Bearer {key}", "Accept": "text/event-stream", **headers}
        url = f"/api/v1/agents/{agent_id}/commands?epoch={epoch}"
        self.answer = self._stack.enter_context(client.stream("GET", url, headers=sent))
        self._lines = self.answer.iter_lines()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def next(self) -> dict[str, str]:
        """The next event: its fields. Raises :class:`StopIteration` at the end."""
        for fields in self._blocks():
            if "event" in fields:
                return fields
        raise StopIteration

    def _blocks(self) -> Iterator[dict[str, str]]:
        fields: dict[str, str] = {}
        for line in self._lines:
            if not line:
                yield fields
                fields = {}
            else:
                name, _, value = line.partition(": ")
                fields[name] = value


def ask_for(client: httpx.Client, exchange_id: str = "ex-1", **wanted: Any) -> httpx.Response:
    """``POST …/replays``; ``key`` is the Idempotency-Key."""
    key = wanted.pop("key", "")
    headers = {"Idempotency-Key": key} if key else {}
    headers["Content-Type"] = "application/json"
    data = msgspec.json.encode(wanted)
    return client.post(f"/api/v1/exchanges/{exchange_id}/replays", content=data, headers=headers)


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]
