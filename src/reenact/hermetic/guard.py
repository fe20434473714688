"""Guard of a hermetic replay: the audit hook behind the boundaries.

Anything that reaches Python's own sockets and processes without passing a boundary is refused in
a replay, and causes a warning while recording. Code that a policy rule allows runs outside the
session and is not checked. Neither is anything that stays inside the program: socket pairs, unix
sockets of its own processes, ports that it listens on itself, and forks.

An audit hook cannot be removed. It is added when the first session opens, and looks up one
dictionary, which is empty while no session is open. No audit event announces a send on a
connection that is already open, so sends are checked where they happen (:mod:`.connections`,
:mod:`.driver_statements`), also for workers that a session hands work to
(:mod:`.queue_handoffs`, :mod:`.signal_handoffs`). Work for other processes is refused where it is handed over
(:mod:`.process_handoffs`). Connections made in C cause no audit event: known libraries that make
them are refused when they are imported, and ``--isolate`` covers the others.
"""

from __future__ import annotations

import _socket
import os
import socket
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from contextvars import Context
from functools import wraps
from typing import TYPE_CHECKING, Any

from reenact.engine._lazy import lazy_module
from reenact.engine.patches.patch import DeferredPatch, Installable, Patch
from reenact.engine.session.current import current, session_in_context
from reenact.engine.session.session import Session
from reenact.hermetic.call_origin import importing_module, is_own_connection, source_location
from reenact.hermetic.connections import SendChecks, allow_descriptor, listens_in_c
from reenact.hermetic.driver_methods import DRIVER_METHODS, Statement, is_memory
from reenact.hermetic.driver_statements import StatementChecks, is_observer
from reenact.hermetic.endpoints import (
    format_address,
    is_answered_here,
    is_isolated,
    is_loopback,
    is_reverse_answered_here,
    listens_here,
    listens_on_path,
    mark_run_start,
    needs_lookup,
    remember_bound,
    run_listens,
    run_listens_on_path,
    stays_inside,
    text,
)
from reenact.hermetic.handoffs import current_handoff, release_unneeded, thread_start_patch
from reenact.hermetic.network_libraries import (
    LibraryImportWatch,
    NetworkLibrary,
    imported_libraries,
    is_covered,
)
from reenact.hermetic.process_handoffs import ProcessHandoffs
from reenact.hermetic.process_starts import (
    START_EVENTS,
    ProcessStart,
    is_covered_process,
    is_system_query,
    uses_network,
)
from reenact.hermetic.queue_handoffs import QueueHandoffs
from reenact.hermetic.signal_handoffs import SignalHandoffs
from reenact.policy.drivers import driver_named, driver_of

if TYPE_CHECKING:
    from reenact.hermetic import refusals
else:
    refusals = lazy_module("reenact.hermetic.refusals")

__all__ = ["Guard", "add_checks", "holding", "is_isolated", "listens_here"]

_PACKET = getattr(socket, "AF_PACKET", None)
_NOWHERE = Context()
_NOT_FORKED = (
    "a process of multiprocessing that is not forked is in no session: what it does is neither "
    "recorded nor refused (run the program with reenact run)"
)
_named = threading.local()
"""``address``: has been looked at, because it holds a name, which is looked up before the event."""

_checks: dict[str, Callable[..., None]] = {}
_hooked = False


def _hook(event: str, args: tuple[Any, ...], get: Any = _checks.get) -> None:
    check = get(event)  # bound: it is called when the interpreter has begun to forget its modules
    if check is not None:
        check(*args)


def add_checks(checks: Mapping[str, Callable[..., None]]) -> None:
    """Call ``checks``, by the names of audit events, until the guard is removed."""
    _checks.update(checks)


def holding() -> Session | None:
    """Return the session that decides here: one that the boundaries serve.

    Outside any session it is the replay that has handed work to this thread or task, else the
    replay of the whole process. A process replay whose policy lets calls through, or makes them
    again, does not decide, because this can be such a call. Reenact's own connections have no
    session.
    """
    session = current()
    if session is None:
        if is_own_connection():
            return None
        worker = current_handoff()
        if worker is not None:
            return worker.session
        session = session_in_context(_NOWHERE)
        if session is None or session.mode != "replay" or session.asks_again:
            return None
        if session.settings.policy.allow_passthrough:
            return None
        if session.fork is not None and session.fork.goes_live:
            return None
    if session.mode == "off" or session.settings.boundaries is None:
        return None
    return session


_CHECKED = frozenset(
    driver.name for driver in map(driver_of, DRIVER_METHODS) if driver is not None
) - {"pymongo"}
"""Drivers whose statements are checked. Statements of pymongo are checked when they are sent."""


def _allows(session: Session, driver: str) -> bool:
    """Is every statement of ``driver`` allowed, or is there nothing to refuse?"""
    if driver in session.settings.allowed_drivers:
        return True
    if session.mode != "replay" and not session.settings.refuses_drivers:
        return True
    return session.settings.policy.action_for("net.connect", driver) == "pass"


def _is_unseen(stack: NetworkLibrary) -> bool:
    """Does ``stack`` send in C, where nothing refuses its statements either?"""
    driver = driver_named(stack.module)
    is_checked = stack.module == "uvloop" or (driver is not None and driver.name in _CHECKED)
    return stack.kind == "unseen" and not is_checked


class Guard:
    """Installed while a session is open.

    ``covered`` are the names of the clients with a boundary, ``modules`` what is imported of them.
    """

    def __init__(self, covered: refusals.Covered, modules: Callable[[], Collection[str]]) -> None:
        self._covered = covered
        self._modules = modules
        self._unseen: list[NetworkLibrary] = []
        self._counted = -1
        """The number of imported modules when ``_unseen`` was filled."""
        self._patches: list[Installable] = [
            LibraryImportWatch(self._imports),
            *StatementChecks(holding, self._states, _allows).patches,
            *(
                Patch(socket.socket, name, self._before_looking_up)
                for name in ("bind", "connect", "connect_ex", "sendto", "sendmsg")
            ),
            DeferredPatch(
                "multiprocessing.util", lambda module: module, "spawnv_passfds", self._spawns
            ),
            DeferredPatch(
                "multiprocessing.popen_forkserver",
                lambda module: module.Popen,
                "_launch",
                self._launches,
            ),
        ]
        if hasattr(os, "_spawnvef"):
            self._patches.append(Patch(os, "_spawnvef", self._before_forking))
        self._worker_processes = ProcessHandoffs(self._hands_over)
        self.in_replay: tuple[Installable, ...] = (
            *SendChecks(
                holding, self._sends, self._connects_in_c, self._worker_processes.check_pipe
            ).patches,
            thread_start_patch(),
            *QueueHandoffs().patches,
            *SignalHandoffs().patches,
            *self._worker_processes.patches,
        )
        """Patches that only an open replay installs: they slow down sends and queues."""

    def install(self) -> None:
        global _hooked
        mark_run_start()
        _checks.update(
            {
                "socket.bind": self._binds,
                "socket.connect": self._connects,
                "socket.sendto": self._connects,
                "socket.sendmsg": self._connects,
                "socket.getaddrinfo": self._looks_up,
                "socket.gethostbyname": self._looks_up,
                "socket.gethostbyaddr": self._looks_back,
                "socket.getnameinfo": lambda address: self._looks_back(address[0]),
                "sqlite3.connect": self._opens_database,
                **{event: self._starting(event) for event in START_EVENTS},
            }
        )
        for patch in self._patches:
            patch.install()
        if not _hooked:
            _hooked = True
            sys.addaudithook(_hook)

    def remove(self) -> None:
        _checks.clear()
        for patch in reversed(self._patches):
            patch.remove()

    def opened(self, session: Session) -> None:
        """Say what is in the process already and cannot be seen."""
        release_unneeded()
        session.before_close(release_unneeded)
        self._worker_processes.opened(session)
        if session.mode == "replay" and not is_isolated():
            # Deferred: a recording refuses nothing.
            from reenact.hermetic.sent_byte_counters import SentByteCounters

            watch = SentByteCounters(session, lambda peer, count: self._sent(session, peer, count))
            session.before_close(watch.compare)
        # An app opens a session for every request, and rarely imports anything between two.
        count = len(sys.modules)
        if count != self._counted:
            self._unseen = [one for one in imported_libraries(self._modules()) if _is_unseen(one)]
            self._counted = count
        if not self._unseen or is_isolated():
            return
        for stack in self._unseen:
            session.warn_once(
                f"{stack.name} was imported before the session opened, and no hook sees what "
                "it sends: it is neither recorded nor refused (reenact run --isolate holds it)"
            )

    # Sockets

    def _binds(self, sock: socket.socket, address: Any) -> None:
        session = holding()
        if session is None:
            return
        if _PACKET is not None and sock.family == _PACKET:
            self._answer(session, refusals.connection(format_address(sock.family, address)))
        remember_bound(sock, address)

    def _connects(self, sock: socket.socket, address: Any) -> None:
        if address is None or getattr(_named, "address", None) is address:
            return
        session = holding()
        if session is None:
            if is_own_connection():
                allow_descriptor(sock.fileno())
            return
        if not stays_inside(sock, address):
            self._answer(session, refusals.connection(format_address(sock.family, address)))
        if session.mode == "replay" and sock.type == socket.SOCK_STREAM:
            allow_descriptor(sock.fileno())  # this connection stays inside, or it is allowed

    def _connects_in_c(self, host: Any, port: Any) -> None:
        """A connection that an event loop makes in C; without a port ``host`` is a path."""
        session = holding()
        if session is None:
            return
        if port is None:
            if not (listens_on_path(host) or run_listens_on_path(host)):
                self._answer(session, refusals.connection(text(host)))
            return
        is_kin = is_loopback(host) and (listens_in_c(int(port)) or run_listens(int(port)))
        if not is_kin and not listens_here(host, int(port)):
            self._answer(session, refusals.connection(format_address(socket.AF_INET, (host, port))))

    def _sends(self, session: Session, peer: str) -> None:
        """A send to ``peer`` on a connection that the session did not open."""
        self._answer(session, refusals.sending(peer, counted=_CHECKED))

    def _sent(self, session: Session, peer: str, count: int) -> None:
        refusals.report_sent(session, refusals.bytes_left(peer, count), self._covered)

    def _hands_over(self, session: Session, does: str, processes: str, operation: str) -> None:
        self._answer(session, refusals.handing_over(does, processes, operation))

    # Drivers

    def _states(self, session: Session, driver: str, found: Statement) -> None:
        self._answer(session, refusals.statement(driver, found.command, found.target))

    def _opens_database(self, database: Any) -> None:
        session = holding()
        if session is not None and not is_memory(database) and not is_observer():
            self._answer(session, refusals.statement("sqlite3", "connect", text(database)))

    def _before_looking_up(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Check the name before the C code resolves it and only then calls the hook."""
        name = original.__name__
        binds = name == "bind"
        # Inherited: looked up at each call, because a replay patches the type that it comes from.
        inherited = vars(_socket.socket).get(name) is original

        def proceed(sock: Any, *args: Any) -> Any:
            return (getattr(_socket.socket, name) if inherited else original)(sock, *args)

        @wraps(original)
        def method(sock: Any, *args: Any) -> Any:
            address: Any = args[-1] if args else None
            if not needs_lookup(sock, address) or holding() is None:
                return proceed(sock, *args)
            if binds:
                self._looks_up(address[0])
            else:
                self._connects(sock, address)
            _named.address = address
            try:
                return proceed(sock, *args)
            finally:
                _named.address = None

        return method

    # Names

    def _looks_up(self, host: Any, port: Any = None, family: int = 0, *_: Any) -> None:
        session = holding()
        if session is None or is_answered_here(host, family):
            return
        if session.settings.allowed_drivers and not source_location():
            return  # asyncio looks a name up in a thread that does not tell for which library
        self._answer(session, refusals.look_up(host, port))

    def _looks_back(self, host: Any) -> None:
        session = holding()
        if session is not None and not is_reverse_answered_here(host):
            self._answer(session, refusals.look_up(host, None))

    # Processes

    def _starting(self, event: str) -> Callable[..., None]:
        made = START_EVENTS[event]

        def check(*args: Any) -> None:
            session = holding()
            if session is not None:
                self._starts(session, made(*args))

        return check

    def _starts(self, session: Session, start: ProcessStart) -> None:
        if is_system_query() or is_covered_process(start):
            return
        if getattr(session.settings, "only", None) != "network":
            self._answer(session, refusals.process(start))
        elif not is_isolated():
            tool = uses_network(start)
            if tool:
                self._answer(session, refusals.process(start))
            else:
                session.warn_once(
                    "processes run live with a recording of the network alone, and what they send "
                    "is neither recorded nor refused: --isolate holds it"
                )

    def _before_forking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Check before ``os.spawn*`` forks, because a refusal in the child would be lost."""

        @wraps(original)
        def spawn(mode: Any, file: Any, args: Any, env: Any, func: Any) -> Any:
            session = holding()
            if session is not None and args:
                self._starts(session, START_EVENTS["os.exec"](file, args, env))
            return original(mode, file, args, env, func)

        return spawn

    def _spawns(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Processes of multiprocessing that are not forked raise no event."""

        @wraps(original)
        def spawnv_passfds(path: Any, args: Any, passfds: Any) -> Any:
            session = holding()
            start = START_EVENTS["os.exec"](path, args, None)
            plumbing = any("multiprocessing.resource_tracker" in word for word in start.argv)
            if session is not None and not plumbing and not is_covered_process(start):
                self._starts_unforked(session)
            return original(path, args, passfds)

        return spawnv_passfds

    def _launches(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A fork server that runs already starts processes without any event."""

        @wraps(original)
        def _launch(popen: Any, process: Any) -> None:
            session = holding()
            if session is not None and not session.settings.whole_process:
                self._starts_unforked(session)
            original(popen, process)

        return _launch

    def _starts_unforked(self, session: Session) -> None:
        """A process that is not forked is in no session. An app does not let a replay start it."""
        if session.settings.refuses_drivers:
            self._answer(session, refusals.unforked())
        else:
            session.warn_once(_NOT_FORKED)

    # Imports

    def _imports(self, stack: NetworkLibrary) -> None:
        session = holding()
        if session is None or is_covered(stack.module, self._modules()):
            return
        who, kind = importing_module()
        tops = {module.partition(".")[0] for module in self._modules()}
        if kind == "standard" or who.partition(".")[0] in tops:
            return
        if stack.kind == "unseen":
            if not is_isolated():
                self._answer(session, refusals.unseen(stack))
        elif kind == "program" and session.mode != "replay":
            session.warn_once(
                f"no boundary covers {stack.name}, which the program imports: what it sends is not "
                "recorded, and a replay refuses its first connection"
            )

    def _answer(self, session: Session, attempt: refusals.Attempt) -> None:
        refusals.answer(session, attempt, self._covered)
