"""``Agent``: what an app sets up to have its exchanges recorded, seen and replayed."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from weakref import WeakSet

import msgspec

from reenact._system import start_clock
from reenact.errors import UsageError
from reenact.exchange.adapters.base import Adapter, LoopBridge
from reenact.exchange.adapters.route import RouteRegistry, make_route
from reenact.exchange.adapters.task import make_task
from reenact.exchange.client.interface import ClientStatus, Exporter
from reenact.exchange.containment import parse_declarations
from reenact.exchange.folder_exporter import FolderExporter
from reenact.exchange.model import PROTOCOL, FileWrites, Registration
from reenact.exchange.recorder import ExchangeRecorder, RecordingLimits, SampleRate
from reenact.exchange.redaction import ExchangeRedactor
from reenact.exchange.replay_runner import Credentials, ReplayRunner
from reenact.exchange.steps import Handler
from reenact.hermetic.driver_statements import Treatment
from reenact.policy.model import Policy
from reenact.policy.paths import FOLDER, find_root
from reenact.policy.redaction.known_values import SHORTEST_DECLARED
from reenact.policy.redaction.redactor import Profile, Redactor
from reenact.store.recording import default_profile
from reenact.store.warning import Warn, print_warning

__all__ = ["Agent"]

F = TypeVar("F", bound=Callable[..., Any])

_AT_EXIT: Final = 5.0
"""Seconds that an app that ends gives to what was not sent yet. What is left is sent later."""


def _wall_clock() -> int:
    """Read anew each time: an app runs for months."""
    return start_clock()()


class Agent:
    """Records the exchanges of an app and, asked by its server, replays them.

    ``server`` and ``key`` say where they go; without a server they stay in ``data``, a folder
    (``.reenact/exchange`` of the project unless it says otherwise) that is also where they wait
    while the server is away. ``app`` and ``environment`` must be those that the key is for.

    ``sample`` is the part of the exchanges that is recorded, 0 to 1, or a function from the id of a
    route to that. Bodies of more than ``max_body`` bytes, and calls that take more than
    ``max_recording``, are not kept, and the exchange says so. ``redaction`` is a profile or a ready
    redactor. ``credentials`` gets the JSON pointer of a value that was never recorded, and gives
    it for a replay. Replays of replays go ``depth`` deep. ``version`` is that of the app's code, and
    a part of every route's revision.

    ``drivers`` declares how replays treat the statements of drivers that Reenact does not record:
    ``{"psycopg": "refuse", "redis": "allow"}``. A replay does not start while a loaded driver is
    not declared. Replays refuse to write files outside the folders ``scratch``, unless ``files`` is
    ``"allow"``.

    It starts with the first exchange, or with :meth:`start`, and ends with :meth:`close`, as a
    context manager, or with the process.
    """

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        app: str,
        environment: str,
        name: str = "",
        version: str = "",
        data: str | Path | None = None,
        sample: SampleRate = 1.0,
        max_body: int = 1_048_576,
        max_recording: int = 16_777_216,
        redaction: Profile | Redactor | None = None,
        credentials: Credentials | None = None,
        depth: int = 5,
        policy: str | Policy | None = None,
        drivers: Mapping[str, Treatment] | None = None,
        files: FileWrites = "refuse",
        scratch: Sequence[str | Path] = (),
        command_key: str | None = None,
        warn: Warn = print_warning,
    ) -> None:
        if (server is None) != (key is None):
            raise UsageError(
                "an agent has a server and a key, or neither",
                hint="Agent('https://…', key=…, app=…, environment=…)",
            )
        self._facts = Registration(
            protocol=PROTOCOL,
            agent_id="agent",
            app=app,
            environment=environment,
            name=name,
            version=version,
            capabilities=("replay", "cancel", *(("credentials",) if credentials else ())),
        )
        self._declared = parse_declarations(drivers, files, scratch)
        self._redaction = redaction
        self._doors: list[Adapter] = []
        self._home = LoopBridge()
        self._lock = threading.Lock()
        self._carrier: Exporter | None = None
        self._agent_id = ""
        self._signed_off = False
        self._is_closed = False
        self._desk = ExchangeRecorder(
            self._carrying,
            self._keeping,
            self._cleaner(()),
            now=_wall_clock,
            warn=warn,
            sample=sample,
            limits=RecordingLimits(max_body, max_recording),
            policy=policy,
            version=version,
            agent_id=self._own_id,
            declared=self._declared,
        )
        self.runner = ReplayRunner(
            self._desk,
            self._doors,
            credentials=credentials,
            clean_with=self._cleaner,
            depth=depth,
            declared=self._declared,
            warn=warn,
        )
        self._make_carrier = self._maker(server, key, data, command_key, warn)
        self._ways = RouteRegistry(self._desk, self._home)
        self._doors.append(self._ways)
        _AGENTS.add(self)

    # Its life

    def start(self) -> Self:
        """Register, and be ready for commands. Twice is once."""
        self._carrying()
        return self

    def close(self, timeout: float = _AT_EXIT) -> None:
        """Send what can be sent within ``timeout`` seconds, and end. What is left is sent by the
        next process of the app."""
        with self._lock:
            carrier, self._is_closed = self._carrier, True
        self._desk.close()
        if carrier is not None:
            carrier.close(timeout)

    def sign_off(self, timeout: float = _AT_EXIT) -> None:
        """Send what can be sent within ``timeout`` seconds and deregister, because the app is
        shutting down. An exchange that begins afterwards starts the agent again. One that began
        before does not: it stays on disk, and the next process of the app sends it."""
        with self._lock:
            carrier = self._carrier
        if carrier is None:
            return
        # Exchanges that are still under way were served by the agent with this id.
        agent_id = carrier.status().agent_id
        with self._lock:
            self._carrier, self._agent_id, self._signed_off = None, agent_id, True
        carrier.close(timeout)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def status(self) -> ClientStatus:
        """How it is doing, for people."""
        with self._lock:
            carrier = self._carrier
        return ClientStatus() if carrier is None else carrier.status()

    @property
    def kept(self) -> FolderExporter:
        """The folder of an agent without a server. Raises :class:`UsageError` for another."""
        carrier = self._carrying()
        if not isinstance(carrier, FolderExporter):
            raise UsageError("the exchanges of this agent are at its server")
        return carrier

    def registration(self) -> Registration:
        """What the app is now."""
        return msgspec.structs.replace(
            self._facts, routes=self.runner.routes(), containment=self._declared.containment()
        )

    def _maker(
        self,
        server: str | None,
        key: str | None,
        data: str | Path | None,
        command_key: str | None,
        warn: Warn,
    ) -> Callable[[], Exporter]:
        folder = Path(data) if data is not None else None

        def make() -> Exporter:
            place = folder or find_root(Path.cwd(), os.environ) / FOLDER / "exchange"
            if server is None or key is None:
                return FolderExporter(place, warn)
            from reenact.exchange.client.runtime import ServerExporter

            return ServerExporter(
                server,
                key,
                self.registration,
                self.runner,
                place,
                command_key=command_key,
                warn=warn,
            )

        return make

    def _carrying(self) -> Exporter:
        carrier = self._carrier  # one read: another thread may sign off meanwhile
        if carrier is None or self._signed_off:
            with self._lock:
                if self._signed_off:
                    # The id of the new registration is another one.
                    self._signed_off, self._agent_id = False, ""
                carrier = self._made_carrier()
        carrier.start()
        return carrier

    def _keeping(self) -> Exporter:
        """Return the carrier for an exchange that has ended.

        It is not started again after :meth:`sign_off`: the app would register and never deregister.
        """
        with self._lock:
            return self._made_carrier()

    def _made_carrier(self) -> Exporter:
        """Return the carrier, created if there is none. Call with the lock held."""
        if self._carrier is None:
            self._carrier = self._make_carrier()
            _close_with_worker(self)
        return self._carrier

    def _own_id(self) -> str:
        if not self._agent_id:
            self._agent_id = self._carrying().status().agent_id
        return self._agent_id

    def _cleaner(self, secrets: Iterable[str]) -> ExchangeRedactor:
        """With ``secrets`` also hiding these."""
        if isinstance(self._redaction, Redactor):
            return ExchangeRedactor(self._redaction)
        declared = [one for one in secrets if len(one) >= SHORTEST_DECLARED]
        profile = self._redaction or default_profile()
        return ExchangeRedactor(Redactor(profile, environ=dict(os.environ), declared=declared))

    def _after_fork(self) -> None:
        """The child has none of the threads, and is an agent of its own."""
        self._lock = threading.Lock()
        self._agent_id = ""
        self._home.afresh()
        self._desk.after_fork()
        if self._carrier is not None:
            self._carrier.after_fork()

    # The ways in

    def route(
        self, route_id: str, *, on_error: Handler | None = None
    ) -> Callable[[F], Callable[..., Any]]:
        """``@agent.route("orders")`` over a function of one :class:`Message`.

        Call it as ``orders(body, headers=…, properties=…)``: it is an exchange, and what the
        function returns is its result, or else the body of the message. ``on_error`` gets the
        exception and the message, and gives the result in its stead.
        """

        def decorate(function: F) -> Callable[..., Any]:
            return make_route(self._ways, function, route_id, on_error)

        return decorate

    def task(self, given: Any = None, /) -> Any:
        """``@agent.task`` or ``@agent.task("invoices")``, under ``@app.task`` of Celery or over any
        function: each call is an exchange whose body is ``{"args": […], "kwargs": {…}}``."""
        if callable(given):
            return make_task(self._ways, given, _name_of(given))

        def decorate(function: F) -> Callable[..., Any]:
            return make_task(self._ways, function, given or _name_of(function))

        return decorate

    def asgi(self, app: Any) -> Any:
        """ASGI middleware: ``app.add_middleware(agent.asgi)``, or ``agent.asgi(app)``."""
        from reenact.exchange.adapters.asgi import AsgiAdapter

        door = AsgiAdapter(app, self._desk, self._home, self.start, self.sign_off)
        self._doors.append(door)
        return door

    def wsgi(self, app: Any) -> Any:
        """WSGI middleware: ``app.wsgi_app = agent.wsgi(app.wsgi_app)``, or ``agent.wsgi(app)``."""
        from reenact.exchange.adapters.wsgi import WsgiAdapter

        door = WsgiAdapter(app, self._desk)
        self._doors.append(door)
        return door


def _name_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


_AGENTS: Final[WeakSet[Agent]] = WeakSet()


def _close_all() -> None:
    for agent in tuple(_AGENTS):
        agent.close()


def _close_with_worker(agent: Agent) -> None:
    """A worker process of multiprocessing, which some servers use, ends without atexit."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(agent, _close_all, exitpriority=100)


def _in_child() -> None:
    for agent in tuple(_AGENTS):
        agent._after_fork()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_in_child)
