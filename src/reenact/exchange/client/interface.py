"""Interfaces between the app and the client.

The client does not depend on routes. It passes a verified command to a :class:`Runner` and sends
the result. The app does not depend on the network. It passes exchanges to an :class:`Exporter`.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from reenact.exchange.model import Command, Exchange, Payload, Route
from reenact.store.sinks.buffered import Contents

__all__ = [
    "ClientState",
    "ClientStatus",
    "Exporter",
    "FinishedReplay",
    "Refusal",
    "ReplayCancelled",
    "ReplayJob",
    "Runner",
]

ClientState = Literal["new", "connecting", "connected", "refused", "superseded", "closed"]
"""``refused`` means that the server rejects the key or the registration; the client tries again
slowly. ``superseded`` means that a different process uses this agent id."""


class Refusal(msgspec.Struct, frozen=True):
    """Reason why a replay is not run. ``code`` is a code of the protocol."""

    code: str
    message: str


class ReplayJob(msgspec.Struct, frozen=True):
    """Replay to run.

    ``payload`` is the start payload, in which the values at the pointers ``redacted`` are missing.
    ``capture`` is the unpacked recording of the source, or None; it exists until the run ends.
    ``into`` is the path for the recording of the replay, and does not exist yet. ``cancelled`` is
    set if the replay has to end early: by a command, by its deadline, or because the app ends.
    """

    command: Command
    payload: Payload
    redacted: tuple[str, ...]
    capture: Path | None
    into: Path
    cancelled: threading.Event


class FinishedReplay(msgspec.Struct, frozen=True):
    """Result of a replay: its exchange with ``replay`` set, and its recording, if there is one.

    The client takes over the folder ``capture``.
    """

    exchange: Exchange
    capture: Path | None = None


class ReplayCancelled(Exception):
    """A runner ended a replay because ``cancelled`` was set."""


class Runner(Protocol):
    """Runs replays in the app. Several client threads call it at the same time."""

    def routes(self) -> tuple[Route, ...]:
        """Return the current routes."""

    def check(
        self, command: Command, payload: Payload, redacted: tuple[str, ...]
    ) -> Refusal | None:
        """Return why ``payload`` cannot be replayed here, or None. Runs nothing."""

    def run(self, job: ReplayJob) -> FinishedReplay:
        """Run the replay to its end. Exceptions of the route are part of the exchange. Raises
        :class:`ReplayCancelled`, and other exceptions if the replay could not be run."""


class ClientStatus(msgspec.Struct, frozen=True):
    """State of a client. ``error`` is the last failure, empty after recovery. It never contains the
    key."""

    state: ClientState = "new"
    agent_id: str = ""
    spooled: int = 0
    dropped: int = 0
    refused: int = 0
    running: tuple[str, ...] = ()
    error: str = ""


class Exporter(Protocol):
    """Takes exchanges from the app. :class:`reenact.exchange.client.runtime.ServerExporter`
    implements it."""

    def start(self) -> None:
        """Start sending. Later calls have no effect."""

    def place(self) -> Path:
        """Return a new path for the capture of one exchange, on the same disk. Never raises. If the
        disk is not writable, the path is not either."""

    def offer(self, exchange: Exchange, capture: Path | Contents | None) -> None:
        """Take ``exchange``, and the folder ``capture`` or the recording in memory.

        Never raises, and never waits for the network. After it returns, a kill of the process loses
        nothing. Exchanges without room are dropped, counted, and warned about once.
        """

    def status(self) -> ClientStatus:
        """Return the state."""

    def after_fork(self) -> None:
        """Reset a forked child, before it calls other methods."""

    def close(self, timeout: float) -> None:
        """Send exchanges for at most ``timeout`` seconds, and end. The next process with the same
        folder sends the remaining ones. Later calls have no effect."""
