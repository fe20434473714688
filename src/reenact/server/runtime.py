"""The server object and its values: principal, limits, timings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from reenact.server.auth.credentials import Passwords
from reenact.server.auth.permissions import Grant, Tier
from reenact.server.http.admission import Intake
from reenact.server.meters import Meters
from reenact.server.problems import Problem
from reenact.store.payload_decoder import ReadLimits

if TYPE_CHECKING:
    from reenact.audit.keys import Signer
    from reenact.server.audit.log import Auditor
    from reenact.server.auth.oidc.provider import Provider
    from reenact.server.blobs import Blobs
    from reenact.server.notifications import Notifications
    from reenact.server.storage.database import Database
    from reenact.server.telemetry.targets import ExportTarget

__all__ = [
    "Limits",
    "OpenStream",
    "Principal",
    "Server",
    "Streams",
    "TenantFacts",
    "Timings",
    "repeat",
]


_LOG: Final = logging.getLogger("reenact.server")


class TenantFacts(msgspec.Struct, frozen=True):
    """A tenant as it is now."""

    id: str
    name: str
    tier: Tier
    dedicated: bool


class Principal(msgspec.Struct, frozen=True):
    """Authenticated caller.

    ``credential`` is the id of the key or session, never the secret. ``app`` and ``environment``
    are bound to an app agent's key.
    """

    type: Literal["user", "key", "agent"]
    id: str
    name: str
    tenant: TenantFacts
    grants: tuple[Grant, ...]
    auth: Literal["key", "session"]
    credential: str
    csrf: str = ""
    app: str = ""
    environment: str = ""
    ip: str = ""
    agent_header: str = ""
    """The User-Agent."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Upper limits. Sizes are in bytes."""

    body: int = 1 << 20
    """Of an ordinary request."""
    batch: int = 16 << 20
    """Of an ingest request as it is sent; inflated it may have four times as much."""
    payload: int = 1 << 20
    """Of one body inside an exchange."""
    capture: int = 256 << 20
    read: ReadLimits = ReadLimits(64 << 20, 1 << 30)
    """Bytes to which the deltas of a recording expand."""
    viewed: int = 250_000
    """Events of a recording that pages show and that are compared."""
    called: int = 128 << 20
    """Of all calls of an exchange together, where pages show them, the API lists them, or they are
    compared."""
    reads: int = 2
    """Recordings that are read at a time for one tenant, to view or compare them."""
    waiting: int = 32
    """Requests of one tenant that wait for that."""
    held: int = 512 << 20
    """Of large bodies on their way in, together; a tenant gets half of it. The same for those on their
    way out."""
    turns: int = 4
    """Large bodies that are dealt with at a time."""
    rate: int = 16 << 10
    """Bytes a second that a body has to come in with, or be read with, in the long run."""
    replays_per_minute: int = 60
    """Per tenant."""
    depth: int = 5


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds."""

    heartbeat: float = 15.0
    ping: float = 15.0
    poll: float = 2.0
    """Interval of polling for missed notifications."""
    sweep: float = 1.0
    """Interval of checking deadlines."""
    deliver: float = 60.0
    start: float = 30.0
    run: float = 300.0
    slow: float = 30.0
    """Maximum time below ``Limits.rate``, or without reading an event."""
    agent_gone: float = 24 * 3600.0
    """Silence after which an agent is not expected back."""
    batch_patience: float = 600.0
    """Maximum time that a batch waits for an agent."""
    retention: float = 3600.0
    """Interval of the retention job."""
    retry: float = 1.0
    reconnect: float = 5.0
    """An agent whose command stream was cut and that is not heard for so long is offline."""
    session_idle: float = 2 * 3600.0
    session_longest: float = 12 * 3600.0
    invitation: float = 7 * 24 * 3600.0
    trace_quiet: float = 5.0
    """After so long without a further span a trace that came in is complete."""
    trace_longest: float = 60.0
    """Maximum duration of a trace."""


_LIMITS = Limits()


class OpenStream(msgspec.Struct, frozen=True):
    """A command stream of an app agent. ``epoch`` is the registration, ``number`` the stream."""

    tenant: str
    agent_id: str
    key_id: str
    epoch: int
    number: int


class Streams:
    """Command streams that are open in this process. For one event loop."""

    def __init__(self) -> None:
        self._open: set[OpenStream] = set()
        self._cut: dict[OpenStream, int] = {}

    @property
    def open(self) -> tuple[OpenStream, ...]:
        """As they are now."""
        return tuple(self._open)

    @contextmanager
    def having(self, one: OpenStream) -> Iterator[None]:
        """Keep a stream registered until the block ends."""
        self._open.add(one)
        try:
            yield
        finally:
            self._open.discard(one)

    def cut(self, one: OpenStream, at: int) -> None:
        """Note that the agent closed or lost its stream at this time, in milliseconds."""
        self._cut[one] = at

    def cut_until(self, at: int) -> dict[OpenStream, int]:
        """The streams that were cut by then, and when. They are forgotten with this call."""
        found = {one: when for one, when in self._cut.items() if when <= at}
        for one in found:
            del self._cut[one]
        return found


class Server(msgspec.Struct, frozen=True):
    """Everything that a handler can use. ``now`` is in milliseconds; ``new_id`` gives an id that
    sorts by time, with the given prefix; ``secret`` gives random bytes."""

    database: Database
    blobs: Blobs
    auditor: Auditor
    notifications: Notifications
    signer: Signer
    """Of commands; its name is ``<deployment>/commands``."""
    deployment: str
    data: Path
    now: Callable[[], int]
    new_id: Callable[[str], str]
    secret: Callable[[int], bytes]
    limits: Limits = Limits()
    timings: Timings = Timings()
    passwords: Passwords = msgspec.field(default_factory=Passwords)
    exports: dict[str, ExportTarget] = {}
    """Telemetry targets by tenant; see ``telemetry/targets``."""
    oidc: Provider | None = None
    """OpenID provider, if one is configured."""
    public_url: str = ""
    """The address for links, such as ``https://reenact.example``; empty where it was not configured."""
    meters: Meters = msgspec.field(default_factory=Meters)
    """Counters of this process."""
    intake: Intake = msgspec.field(default_factory=lambda: Intake(_LIMITS.held, _LIMITS.turns))
    """Admission control of this process."""
    streams: Streams = msgspec.field(default_factory=Streams)
    """Of commands, that are open in this process."""
    stopping: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    """Set when the server begins to stop: streams say goodbye and end."""


async def repeat(
    stop: asyncio.Event,
    seconds: float,
    work: Callable[[], Awaitable[object]],
    failure: str,
    errors: tuple[type[Exception], ...] = (SQLAlchemyError, Problem),
) -> None:
    """Call ``work`` now and then until ``stop`` is set.

    After one of ``errors``, such as an unreachable database, it logs ``failure`` and continues.
    """
    while not stop.is_set():
        try:
            await work()
        except errors:
            _LOG.exception(failure)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), seconds)
