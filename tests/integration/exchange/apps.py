"""What apps in these tests call, and how one of their exchanges is replayed."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from reenact.exchange import Agent
from reenact.exchange.client.interface import FinishedReplay, Refusal, ReplayJob
from reenact.exchange.model import Command, Exchange, Payload
from reenact.exchange.payload_edits import edit_payload, parse_settings
from reenact.hermetic.driver_statements import DRIVERS, Treatment, can_refuse

__all__ = ["DECLARED", "Upstream", "check", "command_for", "only", "replay"]


DECLARED: dict[str, Treatment] = {
    driver.name: "refuse" if can_refuse(driver) else "allow" for driver in DRIVERS
}
"""What an app declares that shares its process with other tests: any driver can be loaded."""


class Upstream:
    """A server that counts who has come, and answers with that, the path and what it was sent."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: dict[str, Any] = {}
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                sent = self.rfile.read(size).decode()
                upstream.asked.append(self.path)
                said = {"n": len(upstream.asked), "path": self.path, "sent": sent}
                body = json.dumps({**said, **upstream.answer}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 256

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def command_for(exchange: Exchange, **more: Any) -> Command:
    fields: dict[str, Any] = {
        "command_id": "cmd_1",
        "replay_id": "rpl_1",
        "tenant": "t",
        "agent_id": "a",
        "issued_at": 0,
        "expires_at": 1,
        "nonce": "n",
        "source_exchange_id": exchange.exchange_id,
        "route_id": exchange.route_id,
    }
    return Command(**{**fields, **more})


def only(agent: Agent) -> Exchange:
    """The one exchange that there is."""
    [exchange] = agent.kept.exchanges()
    return exchange


def edited(exchange: Exchange, settings: Sequence[str]) -> Payload:
    return edit_payload(exchange.start, parse_settings(settings))


def check(
    agent: Agent, exchange: Exchange, settings: Sequence[str] = (), **more: Any
) -> Refusal | None:
    payload = edited(exchange, settings)
    return agent.runner.check(command_for(exchange, **more), payload, exchange.redacted)


def replay(
    agent: Agent,
    exchange: Exchange,
    into: Path,
    settings: Sequence[str] = (),
    *,
    cancelled: threading.Event | None = None,
    **more: Any,
) -> FinishedReplay:
    """As the link does it: what was kept, edited, run from a thread that is not the app's."""
    job = ReplayJob(
        command_for(exchange, **more),
        edited(exchange, settings),
        exchange.redacted,
        agent.kept.capture_of(exchange.exchange_id),
        into,
        cancelled or threading.Event(),
    )
    assert agent.runner.check(job.command, job.payload, job.redacted) is None
    return agent.runner.run(job)
