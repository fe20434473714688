"""``Agent``: the object that an app creates to record and replay its exchanges."""

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
from reenact.exchange.adapters.route import RouteRegistry, make_route, make_task
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
"""Seconds for sending when the app ends. Unsent exchanges are sent by its next process."""


def _wall_clock() -> int:
    """Return the time of a new clock, because an app runs for months and the system clock can be
    set."""
    return start_clock()()


class Agent:
    """App agent: records the exchanges of an app, and replays them on command of the server.

    Exchanges are sent to ``server`` with the key ``key``. Without a server they are stored in
    ``data``, a folder (default: ``.reenact/exchange`` in the project). With a server, ``data``
    holds exchanges that are not sent yet. ``app`` and ``environment`` must match the key.

    ``sample`` is the fraction of exchanges to record, 0 to 1, or a function from a route id to a
    fraction. Bodies of more than ``max_body`` bytes, and calls of more than ``max_recording``
    bytes, are not stored, and the exchange states this. ``redaction`` is a profile or a redactor.
    ``credentials`` is called with the JSON pointer of a redacted value, and returns the value for a
    replay. ``depth`` limits replays of replays. ``version`` is the version of the app's code, and a
    part of every route's revision.

    ``drivers`` declares how replays treat the statements of drivers that Reenact does not record:
    ``{"psycopg": "refuse", "redis": "allow"}``. A replay does not start while a loaded driver is
    not declared. Replays refuse to write files outside the folders ``scratch``, unless ``files`` is
    ``"allow"``.

    The agent starts with the first exchange or with :meth:`start`. It ends with :meth:`close`, as a
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
        self._adapters: list[Adapter] = []
        self._loop_bridge = LoopBridge()
        self._lock = threading.Lock()
        self._exporter: Exporter | None = None
        self._agent_id = ""
        self._signed_off = False
        self._is_closed = False
        self._recorder = ExchangeRecorder(
            self._started_exporter,
            self._unstarted_exporter,
            self._redactor(()),
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
            self._recorder,
            self._adapters,
            credentials=credentials,
            redactor_for=self._redactor,
            depth=depth,
            declared=self._declared,
            warn=warn,
        )
        self._create_exporter = self._maker(server, key, data, command_key, warn)
        self._registry = RouteRegistry(self._recorder, self._loop_bridge)
        self._adapters.append(self._registry)
        _AGENTS.add(self)

    # Its life

    def start(self) -> Self:
        """Register at the server and accept commands. Later calls have no effect."""
        self._started_exporter()
        return self

    def close(self, timeout: float = _AT_EXIT) -> None:
        """Send exchanges for at most ``timeout`` seconds, and end. The next process of the app
        sends the remaining ones."""
        with self._lock:
            exporter, self._is_closed = self._exporter, True
        self._recorder.close()
        if exporter is not None:
            exporter.close(timeout)

    def sign_off(self, timeout: float = _AT_EXIT) -> None:
        """Send exchanges for at most ``timeout`` seconds and deregister, because the app is
        shutting down.

        An exchange that begins afterwards starts the agent again. One that began before stays on
        disk, and the next process of the app sends it.
        """
        with self._lock:
            exporter = self._exporter
        if exporter is None:
            return
        # Exchanges that are still under way were served by the agent with this id.
        agent_id = exporter.status().agent_id
        with self._lock:
            self._exporter, self._agent_id, self._signed_off = None, agent_id, True
        exporter.close(timeout)

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
        """Return the state of the agent."""
        with self._lock:
            exporter = self._exporter
        return ClientStatus() if exporter is None else exporter.status()

    @property
    def kept(self) -> FolderExporter:
        """The folder of an agent without a server. Raises :class:`UsageError` if the agent has a
        server."""
        exporter = self._started_exporter()
        if not isinstance(exporter, FolderExporter):
            raise UsageError("the exchanges of this agent are at its server")
        return exporter

    def registration(self) -> Registration:
        """Return the current description of the app."""
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

    def _started_exporter(self) -> Exporter:
        exporter = self._exporter  # one read: another thread may sign off meanwhile
        if exporter is None or self._signed_off:
            with self._lock:
                if self._signed_off:
                    # The id of the new registration is another one.
                    self._signed_off, self._agent_id = False, ""
                exporter = self._ensure_exporter()
        exporter.start()
        return exporter

    def _unstarted_exporter(self) -> Exporter:
        """Return the exporter for an exchange that has ended.

        The exporter is not started again after :meth:`sign_off`: the app would register and never
        deregister.
        """
        with self._lock:
            return self._ensure_exporter()

    def _ensure_exporter(self) -> Exporter:
        """Return the exporter, and create it if there is none. Call with the lock held."""
        if self._exporter is None:
            self._exporter = self._create_exporter()
            _close_with_worker(self)
        return self._exporter

    def _own_id(self) -> str:
        if not self._agent_id:
            self._agent_id = self._started_exporter().status().agent_id
        return self._agent_id

    def _redactor(self, secrets: Iterable[str]) -> ExchangeRedactor:
        """Return a redactor that also hides ``secrets``."""
        if isinstance(self._redaction, Redactor):
            return ExchangeRedactor(self._redaction)
        declared = [one for one in secrets if len(one) >= SHORTEST_DECLARED]
        profile = self._redaction or default_profile()
        return ExchangeRedactor(Redactor(profile, environ=dict(os.environ), declared=declared))

    def _after_fork(self) -> None:
        """Reset a forked child, which has no threads and becomes an agent with its own id."""
        self._lock = threading.Lock()
        self._agent_id = ""
        self._loop_bridge.forget()
        self._recorder.after_fork()
        if self._exporter is not None:
            self._exporter.after_fork()

    # The ways in

    def route(
        self, route_id: str, *, on_error: Handler | None = None
    ) -> Callable[[F], Callable[..., Any]]:
        """Decorate a function of one :class:`Message` as a route: ``@agent.route("orders")``.

        Each call ``orders(body, headers=…, properties=…)`` is an exchange. Its result is the return
        value of the function, or the body of the message if that is None. ``on_error`` is called
        with the exception and the message, and returns the result instead.
        """

        def decorate(function: F) -> Callable[..., Any]:
            return make_route(self._registry, function, route_id, on_error)

        return decorate

    def task(self, given: Any = None, /) -> Any:
        """Decorate a function as a task: ``@agent.task`` or ``@agent.task("invoices")``.

        Each call is an exchange whose body is ``{"args": […], "kwargs": {…}}``. Under Celery's
        ``@app.task``, the exchange also has the id and headers of the job.
        """
        if callable(given):
            return make_task(self._registry, given, _name_of(given))

        def decorate(function: F) -> Callable[..., Any]:
            return make_task(self._registry, function, given or _name_of(function))

        return decorate

    def asgi(self, app: Any) -> Any:
        """Wrap an ASGI app: ``app.add_middleware(agent.asgi)``, or ``agent.asgi(app)``."""
        from reenact.exchange.adapters.asgi import AsgiAdapter

        adapter = AsgiAdapter(app, self._recorder, self._loop_bridge, self.start, self.sign_off)
        self._adapters.append(adapter)
        return adapter

    def wsgi(self, app: Any) -> Any:
        """Wrap a WSGI app: ``app.wsgi_app = agent.wsgi(app.wsgi_app)``, or ``agent.wsgi(app)``."""
        from reenact.exchange.adapters.wsgi import WsgiAdapter

        adapter = WsgiAdapter(app, self._recorder)
        self._adapters.append(adapter)
        return adapter


def _name_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


_AGENTS: Final[WeakSet[Agent]] = WeakSet()


def _close_all() -> None:
    for agent in tuple(_AGENTS):
        agent.close()


def _close_with_worker(agent: Agent) -> None:
    """Close agents at the end of a multiprocessing worker, which does not run atexit functions."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(agent, _close_all, exitpriority=100)


def _in_child() -> None:
    for agent in tuple(_AGENTS):
        agent._after_fork()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_in_child)
