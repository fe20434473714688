"""An app in this process whose agent has a clock that tests set, beside a server that has another."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

from reenact.exchange import Agent, Message, is_replay
from reenact.exchange.client.interface import Exporter
from reenact.exchange.client.limits import Limits
from reenact.exchange.client.runtime import ServerExporter
from tests.integration.exchange.apps import DECLARED
from tests.server.fire.running import EAGER, PATIENCE
from tests.server.house import Clock, House


class ClockedAgent(Agent):
    """Of the app ``shop`` in ``staging``. ``clock`` is how its link tells the time."""

    def __init__(self, house: House, folder: Path, clock: Clock) -> None:
        key = house.agent_key("shop", "staging")
        self.warned: list[str] = []
        super().__init__(
            house.url,
            key,
            app="shop",
            environment="staging",
            data=folder,
            drivers=DECLARED,
            warn=self.warned.append,
        )

        def make() -> Exporter:
            return ServerExporter(
                house.url,
                key,
                self.registration,
                self.runner,
                folder,
                limits=Limits(**EAGER),
                warn=self.warned.append,
                now=clock,
            )

        self._make_carrier = make


class Shop:
    """An app with one route, which counts its runs; a replay waits in it while it is ``held``."""

    def __init__(self, agent: Agent) -> None:
        self.ran: Counter[str] = Counter()
        self.begun = threading.Semaphore(0)
        self._go = threading.Event()
        self._go.set()

        @agent.route("orders")
        def orders(message: Message) -> dict[str, Any]:
            self.ran[message.body["run"]] += 1
            if is_replay():
                self.begun.release()
                assert self._go.wait(PATIENCE)
            return {"total": 10}

        self.order = orders

    def hold(self) -> None:
        self._go.clear()

    def has_begun(self) -> None:
        assert self.begun.acquire(timeout=PATIENCE)

    def let_go(self) -> None:
        self._go.set()
