"""An app with its agent as a program with many lives. Whatever runs its route leaves a line in the
file ``marks``, which no kill takes away: so what ran is counted where it ran."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from reenact.exchange import Agent, Message, is_replay, step
from reenact.exchange.client.interface import Exporter
from reenact.exchange.client.limits import Limits
from reenact.exchange.client.runtime import ServerExporter
from tests.integration.exchange.apps import DECLARED
from tests.server.fire.lives import Orders, lines, live, tell

_WATCHED = frozenset("open os.mkdir os.rename os.remove os.rmdir os.truncate".split())


class QuickAgent(Agent):
    """One that waits little before it tries again."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        super().__init__(
            orders["url"],
            orders["key"],
            app="shop",
            environment="staging",
            data=orders["data"],
            drivers=DECLARED,
            files="allow",
            warn=lambda text: tell(warned=text),
        )
        self._make_carrier = self._quick

    def _quick(self) -> Exporter:
        orders = self._orders
        return ServerExporter(
            orders["url"],
            orders["key"],
            self.registration,
            self.runner,
            Path(orders["data"]),
            limits=Limits(**orders["limits"]),
            warn=lambda text: tell(warned=text),
        )


def mark(path: Path, text: str) -> None:
    """A line that is there once this returns, beside those of others."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, f"{text}\n".encode())
    finally:
        os.close(fd)


def make_app(agent: Agent, marks: Path) -> Any:
    """One route. What is in ``run`` of its body is what it leaves in ``marks``; it may also say that
    the process dies then."""

    @step("price")
    def price(amount: int) -> int:
        return amount * 2

    @agent.route("orders")
    def orders(message: Message) -> dict[str, Any]:
        order = message.body
        if order["run"].startswith("dies-before"):
            os.kill(os.getpid(), signal.SIGKILL)
        mark(marks, f"{'replay' if is_replay() else 'order'} {order['run']}")
        if order["run"].startswith("dies-after"):
            os.kill(os.getpid(), signal.SIGKILL)
        return {"total": price(order["amount"])}

    return orders


def _kill_at(folder: Path, step: int) -> None:
    """Kill the process with -9 just before the ``step``-th thing that it does to ``folder``."""
    within, done = f"{folder}{os.sep}", 0

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal done
        if event in _WATCHED and any(str(one).startswith(within) for one in args[:2]):
            done += 1
            if done == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _run(orders: Orders) -> None:
    agent = QuickAgent(orders)
    route = make_app(agent, Path(orders["marks"]))
    agent.start()
    tell(ready=os.getpid())
    for asked in lines():
        if "order" in asked:
            run = asked["order"]
            tell(answered=route({"run": run, "amount": 5}, headers={"x-correlation-id": run}))
        elif "kill_at" in asked:
            _kill_at(Path(orders["data"]), asked["kill_at"])
            tell(armed=True)
        elif "status" in asked:
            status = agent.status()
            tell(
                state=status.state,
                agent=status.agent_id,
                spooled=status.spooled,
                dropped=status.dropped,
                refused=status.refused,
                error=status.error,
            )
        else:
            agent.close()
            return


if __name__ == "__main__":
    live(_run)
