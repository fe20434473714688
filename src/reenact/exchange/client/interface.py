"""What the link asks of the app, and what it gives: the seams between the two.

The link knows nothing of routes. It hands a verified command to a :class:`Runner`, and carries what
comes of it. The app knows nothing of the network: it offers exchanges to a :class:`Exporter`.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from reenact.exchange.model import Command, Exchange, Payload, Route
from reenact.store.buffered_sink import Contents

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
"""``refused``: the server takes neither key nor registration (it is asked again, slowly);
``superseded``: another process uses this agent id, and this one is quiet."""


class Refusal(msgspec.Struct, frozen=True):
    """Why a replay will not run. ``code`` is one of those of the protocol."""

    code: str
    message: str


class ReplayJob(msgspec.Struct, frozen=True):
    """A replay that is to be run now.

    ``payload`` is what is replayed, with the places of ``redacted`` (JSON pointers) still to be
    filled in. ``capture`` is the unpacked recording of the source, or None where it has none; it
    may be read until the run ends. ``into`` does not exist yet: the recording of the replay goes
    there. ``cancelled`` is set when the replay is to end early: by a command, by its deadline, or
    because the app ends.
    """

    command: Command
    payload: Payload
    redacted: tuple[str, ...]
    capture: Path | None
    into: Path
    cancelled: threading.Event


class FinishedReplay(msgspec.Struct, frozen=True):
    """What came of a replay: its exchange, with ``replay`` set, and its recording, if it has one.

    The folder ``capture`` is the link's from now on.
    """

    exchange: Exchange
    capture: Path | None = None


class ReplayCancelled(Exception):
    """A runner ended a replay because ``cancelled`` was set."""


class Runner(Protocol):
    """The app's side of a replay. Called from threads of the link, several at a time."""

    def routes(self) -> tuple[Route, ...]:
        """The routes as they are now."""

    def check(
        self, command: Command, payload: Payload, redacted: tuple[str, ...]
    ) -> Refusal | None:
        """Why this cannot be replayed here; None when it can. Nothing is run."""

    def run(self, job: ReplayJob) -> FinishedReplay:
        """Run it to its end. What the route does, also that it raises, is in the exchange. Raises
        :class:`ReplayCancelled`, and something else only when it could not be run."""


class ClientStatus(msgspec.Struct, frozen=True):
    """How a link is doing, for people. ``error`` is the last thing that went wrong, and empty once
    it goes well again; never a word of the key."""

    state: ClientState = "new"
    agent_id: str = ""
    spooled: int = 0
    dropped: int = 0
    refused: int = 0
    running: tuple[str, ...] = ()
    error: str = ""


class Exporter(Protocol):
    """Takes exchanges away from the app. :class:`reenact.exchange.client.runtime.Link` is one."""

    def start(self) -> None:
        """Begin to carry. Twice is once."""

    def place(self) -> Path:
        """A path for one exchange's capture, on the same disk, where nothing is yet. Never raises;
        where the disk cannot be written, neither can the path."""

    def offer(self, exchange: Exchange, capture: Path | Contents | None) -> None:
        """Take ``exchange``, and with it the folder ``capture`` or the recording in memory. Never
        raises, never waits for the network. When this returns, a kill of the process loses nothing.
        What finds no room is dropped, counted, and warned about once."""

    def status(self) -> ClientStatus:
        """How it is doing."""

    def after_fork(self) -> None:
        """In a forked child, before anything else: start afresh, as an agent of its own."""

    def close(self, timeout: float) -> None:
        """Send what can be sent within ``timeout`` seconds, and end. What is left is sent by the
        next process that has the same folder. Twice is once."""
