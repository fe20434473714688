"""An app's side for tests of the link: exchanges, a runner that counts, links that wait little."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reenact.exchange.client.interface import ClientStatus, FinishedReplay, Refusal, ReplayJob
from reenact.exchange.client.limits import Limits
from reenact.exchange.client.runtime import ServerExporter
from reenact.exchange.model import Body, Command, Exchange, Payload, Registration, ReplayOf, Route
from tests.integration.exchange.protocol_server import KEY, PATIENCE, ProtocolServer
from tests.unit.store.samples import notes, record

LIMITS: dict[str, Any] = {
    "retry_first": 0.01,
    "retry_most": 0.05,
    "refused_seconds": 0.05,
    "connect_seconds": 5.0,
    "control_seconds": 5.0,
    "request_seconds": 10.0,
}


def limits(**changes: Any) -> Limits:
    return Limits(**{**LIMITS, **changes})


def an_exchange(name: str = "ex-1", **changes: Any) -> Exchange:
    values: dict[str, Any] = {
        "exchange_id": name,
        "route_id": "orders",
        "started_at": 1_700_000_000_000,
        "start": Payload(body=Body(type="text", text="hello")),
    }
    return Exchange(**{**values, **changes})


def a_capture(place: Path, count: int = 3) -> Path:
    return record(place, notes(count))


class CountingRunner:
    """Runs replays by counting them. ``act`` is what it does meanwhile."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.captures: list[list[str] | None] = []
        self.checked: list[str] = []
        self.refusal: Refusal | None = None
        self.act: Callable[[ReplayJob], None] = lambda job: None
        self.started = threading.Semaphore(0)
        self.places: list[Path] = []

    def routes(self) -> tuple[Route, ...]:
        return (Route(route_id="orders", revision="r1"),)

    def check(
        self, command: Command, payload: Payload, redacted: tuple[str, ...]
    ) -> Refusal | None:
        self.checked.append(command.replay_id)
        return self.refusal

    def run(self, job: ReplayJob) -> FinishedReplay:
        self.ran.append(job.command.replay_id)
        found = None if job.capture is None else sorted(one.name for one in job.capture.iterdir())
        self.captures.append(found)
        self.places += [job.into, *([job.capture] if job.capture else [])]
        self.started.release()
        self.act(job)
        replay = ReplayOf(
            replay_id=job.command.replay_id, source_exchange_id=job.command.source_exchange_id
        )
        exchange = an_exchange(f"ex-of-{job.command.replay_id}", start=job.payload, replay=replay)
        return FinishedReplay(exchange, a_capture(job.into))


def until_status(link: ServerExporter, holds: Callable[[ClientStatus], Any]) -> None:
    """Asked again until it is so: a link signals nobody."""
    pause = threading.Event()
    for _ in range(int(PATIENCE * 100)):
        if holds(link.status()):
            return
        pause.wait(0.01)
    raise AssertionError(link.status())


def has_started(runner: CountingRunner) -> None:
    assert runner.started.acquire(timeout=PATIENCE)


def registration(runner: CountingRunner) -> Registration:
    return Registration(
        protocol=1, agent_id="", app="shop", environment="test", routes=runner.routes()
    )


@contextmanager
def linked(
    server: ProtocolServer | str,
    folder: Path,
    runner: CountingRunner | None = None,
    *,
    key: str = KEY,
    warnings: list[str] | None = None,
    start: bool = True,
    timeout: float = 10.0,
    **options: Any,
) -> Iterator[ServerExporter]:
    """A link that is closed at the end."""
    used = runner or CountingRunner()
    link = ServerExporter(
        server if isinstance(server, str) else server.url,
        key,
        options.pop("registration", lambda: registration(used)),
        used,
        folder,
        limits=options.pop("limits", limits()),
        warn=(warnings if warnings is not None else []).append,
        **options,
    )
    if start:
        link.start()
    try:
        yield link
    finally:
        threads = {thread.native_id for thread in threading.enumerate()}
        link.close(timeout)
        _wait_for_the_system(threads - {thread.native_id for thread in threading.enumerate()})


def _wait_for_the_system(ended: Iterable[int | None]) -> None:
    """Return when the system, too, has ended these threads.

    A joined thread can still be in the clean-up of OpenSSL, with a lock that would stay locked in a
    process that is forked now.
    """
    tasks = Path("/proc/self/task")
    for ident in ended:
        while (tasks / str(ident)).exists():
            os.sched_yield()
