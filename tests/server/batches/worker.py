"""An agent that obeys in a thread of its own, and counts what it ran."""

from __future__ import annotations

import threading
from typing import Any

import httpx

from reenact.exchange.model import Command
from tests.server.traffic.puppet import Puppet, Stream


class Worker:
    """Runs every replay at once; with ``held`` it takes commands, says nothing, and waits
    with them until :meth:`go`. ``ran`` counts runs by the id of the source; ``most`` is how many it had at a time."""

    def __init__(self, agent: Puppet, *, held: bool = False, **changes: Any) -> None:
        self.agent = agent
        self.ran: dict[str, int] = {}
        self.most = 0
        self._changes = changes
        self._held = held
        self._waiting: dict[str, Command] = {}
        self._news = threading.Condition()
        self._failures: list[BaseException] = []
        self._thread = threading.Thread(target=self._work, name=f"worker {agent.agent_id}")
        self._stream: Stream | None = None

    def __enter__(self) -> Worker:
        self._stream = self.agent.stream().__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.agent.http.delete(f"/api/v1/agents/{self.agent.agent_id}?epoch={self.agent.epoch}")
        self.join()

    def join(self) -> None:
        """Wait for the end of the stream, without signing off: the server has stopped."""
        self._thread.join(30)
        assert self._stream is not None
        self._stream.__exit__()
        assert not self._thread.is_alive()
        if self._failures:
            raise self._failures[0]

    def _work(self) -> None:
        assert self._stream is not None
        try:
            while True:
                sent = self._stream.next()
                if sent["event"] in ("replay", "cancel"):
                    self._take(self.agent.read_command(sent["data"]))
        except (StopIteration, httpx.HTTPError):
            return
        except BaseException as error:
            self._failures.append(error)

    def _take(self, command: Command) -> None:
        if command.type == "cancel":
            self.agent.say(command.replay_id, "cancelled")
        with self._news:
            if command.type == "cancel":
                self._waiting.pop(command.replay_id, None)
            else:
                self._waiting[command.replay_id] = command
                self.most = max(self.most, len(self._waiting))
            self._news.notify_all()
        if not self._held:
            self.go()

    def has(self, number: int) -> None:
        """Wait until it has so many commands."""
        with self._news:
            assert self._news.wait_for(lambda: len(self._waiting) >= number, 30)

    def go(self) -> None:
        """Run what it has."""
        with self._news:
            commands, self._waiting = list(self._waiting.values()), {}
        for command in commands:
            self.agent.say(command.replay_id, "delivered")
            self.agent.say(command.replay_id, "running")
            source = command.source_exchange_id
            self.ran[source] = self.ran.get(source, 0) + 1
            self.agent.run(command, **self._changes)
