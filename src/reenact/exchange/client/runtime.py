"""Exporter that sends exchanges to a server, and the threads behind it.

``folder/spool/N`` is the slot of the process. All processes share ``folder/refused``.
"""

from __future__ import annotations

import shutil
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from reenact._system import Now, entropy, monotonic, start_clock
from reenact.audit.keys import Key
from reenact.exchange.client.address import Address, Secret, parse_address
from reenact.exchange.client.command_journal import Journal, ReplayEnd
from reenact.exchange.client.commands import CommandInbox, CommandListener
from reenact.exchange.client.interface import ClientState, ClientStatus, Runner
from reenact.exchange.client.limits import Limits
from reenact.exchange.client.registration import RegistrationState, RegistrationWorker
from reenact.exchange.client.replays import ReplayQueue
from reenact.exchange.client.sender import Sender, Terms
from reenact.exchange.client.slots import Slot, claim_slot
from reenact.exchange.client.spool import DeadLetters, Spool
from reenact.exchange.client.transport import Transport, Unreachable
from reenact.exchange.client.workers import Notices, WorkerThread, run_outside_sessions
from reenact.exchange.model import (
    PROTOCOL,
    Exchange,
    Heartbeat,
    Registered,
    Registration,
    StateReport,
)
from reenact.format.decoders import build_all_decoders
from reenact.store.sinks.buffered import Contents
from reenact.store.warning import Warn, print_warning

__all__ = [
    "ClientRuntime",
    "ClientSettings",
    "ServerExporter",
]

_SHARE = 0.8
"""Fraction of the closing time for sending. The rest is for deregistration."""
_RUNNING = StateReport(state="running", epoch=0)
_GRACE = 1.0
"""Seconds for a thread to end after its connection was aborted."""


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a client, for all processes of an app."""

    address: Address
    key: Secret
    registration: Callable[[], Registration]
    runner: Runner
    folder: Path
    limits: Limits
    pinned: Key | None
    notices: Notices
    now: Now
    tls: Callable[[], ssl.SSLContext]


class ClientRuntime:
    """Client of one process: three threads, and one for each running replay. Created by
    :meth:`open`."""

    def __init__(self, settings: ClientSettings, slot: Slot) -> None:
        self._settings = settings
        self._slot = slot
        limits, notices = settings.limits, settings.notices
        self._transport = Transport(settings.address, settings.key, limits, tls=settings.tls)
        self._dead_letters = DeadLetters(settings.folder / "refused", most=limits.dead_letters)
        self._spool = Spool(
            slot.folder,
            self._dead_letters,
            notices,
            max_bytes=limits.spool_bytes,
            offered=lambda urgent: self._sender.wake(urgent=urgent),
        )
        self._journal = Journal(slot.folder / "journal")
        self._registration_state = RegistrationState()
        self._terms = Terms(limits.batch_bytes)
        self._sender = Sender(
            self._transport,
            self._spool,
            self._terms,
            notices,
            agent_id=slot.agent_id,
            slots=slot.folder.parent,
            limits=limits,
        )
        self._replays = ReplayQueue(
            self._transport,
            settings.runner,
            self._spool,
            slot.folder / "replays",
            agent_id=slot.agent_id,
            limits=limits,
            now=settings.now,
            began=lambda replay: self._registration_worker.say(replay, _RUNNING),
            ended=self._ended,
        )
        self._registration_worker = self._supervise()
        inbox = CommandInbox(
            self._registration_state,
            self._journal,
            self._replays,
            notices,
            self._registration_worker.say,
            now=settings.now,
        )
        self._listener = CommandListener(
            self._transport,
            self._registration_state,
            notices,
            inbox.receive,
            self._superseded,
            limits=limits,
        )
        self._threads: tuple[WorkerThread, ...] = ()
        self._is_superseded = False
        self._is_closed = False
        self._known: Registration | None = None

    def _supervise(self) -> RegistrationWorker:
        return RegistrationWorker(
            self._transport,
            self._registration_state,
            self._settings.notices,
            registration=self._registration,
            heartbeat=self._heartbeat,
            welcomed=self._welcomed,
            said=self._said,
            superseded=self._superseded,
            deadline=self._replays.next_deadline,
            expire=self._replays.expire,
            limits=self._settings.limits,
            pinned=self._settings.pinned,
        )

    @classmethod
    def open(cls, settings: ClientSettings) -> ClientRuntime:
        """Claim a slot, and continue the work of its last process. Raises OSError."""
        slot = claim_slot(settings.folder / "spool")
        try:
            runtime = cls(settings, slot)
            runtime._recover()
        except BaseException:
            slot.release()
            raise
        return runtime

    def _recover(self) -> None:
        shutil.rmtree(self._slot.folder / "replays", ignore_errors=True)
        self._spool.recover()
        self._journal.open(self._settings.now())
        begun = self._journal.unended()
        completed = self._spool.replays() if begun else frozenset()
        for replay in begun:
            restarted = ReplayEnd("failed", "agent_restarted", "the app was restarted")
            done = ReplayEnd("completed") if replay in completed else restarted
            self._journal.end(replay, done, self._settings.now())
        for replay, done in self._journal.unsaid():
            self._tell(replay, done)

    # Called by the app

    @property
    def spool(self) -> Spool:
        return self._spool

    def start(self) -> None:
        """Start the threads. Raises RuntimeError if the interpreter is shutting down."""
        self._threads = (
            WorkerThread("link", self._registration_worker.run),
            WorkerThread("commands", self._listener.run),
            WorkerThread("sending", self._sender.run),
        )
        for thread in self._threads:
            thread.start()

    def status(self) -> ClientStatus:
        return ClientStatus(
            state=self._state(),
            agent_id=self._slot.agent_id,
            spooled=self._spool.count,
            dropped=self._spool.dropped,
            refused=self._dead_letters.count,
            running=self._replays.ids(),
            error=self._settings.notices.last,
        )

    def _state(self) -> ClientState:
        if self._is_closed or not self._threads:
            return "closed" if self._is_closed else "new"
        if self._is_superseded:
            return "superseded"
        if self._registration_worker.is_refused:
            return "refused"
        return "connected" if self._listener.connected else "connecting"

    def close(self, timeout: float) -> None:
        """Send exchanges for at most ``timeout`` seconds, and end."""
        until = monotonic() + timeout
        self._is_closed = True
        self._registration_state.stop()
        self._listener.reconnect()
        self._replays.close(monotonic() + timeout * _SHARE / 2)
        self._sender.stop(monotonic() + timeout * _SHARE)
        ended = [thread.ended(until - monotonic()) or self._end(thread) for thread in self._threads]
        if self._threads and all(ended):
            self._registration_worker.say_goodbye(self._transport, until)
        if all(ended) and not self._replays.ids():
            self._journal.close()
            self._spool.close()
            self._slot.release()

    def _end(self, thread: WorkerThread) -> bool:
        self._sender.abort()
        self._registration_worker.abort()
        return thread.ended(_GRACE)

    def abandon(self) -> None:
        """Release the parent's resources in a forked child."""
        for part in (
            self._sender,
            self._registration_worker,
            self._listener,
            self._journal,
            self._spool,
        ):
            part.abandon()
        self._slot.release()

    # Callbacks of the parts

    def _registration(self) -> Registration:
        try:
            said = self._settings.registration()
        except Exception as error:
            self._settings.notices.warn("app", f"the app cannot say what it is: {error!r}")
            if self._known is None:
                raise Unreachable("the app cannot say what it is") from error
            return self._known
        self._known = msgspec.structs.replace(said, protocol=PROTOCOL, agent_id=self._slot.agent_id)
        return self._known

    def _heartbeat(self) -> Heartbeat:
        return Heartbeat(
            epoch=0,
            running=self._replays.ids(),
            spooled=self._spool.count,
            dropped=self._spool.dropped,
        )

    def _welcomed(self, registered: Registered) -> None:
        self._terms.max_batch_bytes = max(1, registered.max_batch_bytes)
        self._listener.reconnect()

    def _superseded(self) -> None:
        self._is_superseded = True
        self._registration_state.stop()
        self._settings.notices.warn(
            "superseded",
            f"another process is the agent {self._slot.agent_id} now, and gets its commands: "
            "use a separate folder for each copy of the app",
        )

    def _ended(self, replay: str, done: ReplayEnd) -> None:
        try:
            self._journal.end(replay, done, self._settings.now())
        except OSError as error:
            self._settings.notices.warn("journal", f"no journal can be written ({error.strerror})")
        self._tell(replay, done)

    def _tell(self, replay: str, done: ReplayEnd) -> None:
        if done.state != "completed":
            self._registration_worker.say(
                replay,
                StateReport(state=done.state, epoch=0, code=done.code, message=done.message),
            )

    def _said(self, replay: str, report: StateReport) -> None:
        if report.state in ("delivered", "running"):
            return
        try:
            self._journal.say(replay, self._settings.now())
        except OSError as error:
            self._settings.notices.warn("journal", f"no journal can be written ({error.strerror})")


def _wall_clock() -> int:
    """Return the time of a new clock, because an app runs for months and the system clock can be
    set."""
    return start_clock()()


class ServerExporter:
    """Exporter to the server at ``server``.

    ``registration()`` returns the current description of the app, and is called for every
    heartbeat. The client replaces the agent's id in it by its own, one for each process, stored in
    ``folder``, which all processes of the app share. ``command_key`` pins the key of the server's
    commands (``name+id+base64``). Without it, the client trusts the key in the server's response.

    Nothing is opened before it is used. Raises :class:`UsageError` for an invalid server or key,
    :class:`AuditInvalid` for an invalid ``command_key``.
    """

    def __init__(
        self,
        server: str,
        key: str,
        registration: Callable[[], Registration],
        runner: Runner,
        folder: Path,
        *,
        command_key: str | None = None,
        limits: Limits | None = None,
        warn: Warn = print_warning,
        now: Now | None = None,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self._settings = ClientSettings(
            address=parse_address(server),
            key=Secret(key),
            registration=registration,
            runner=runner,
            folder=folder.absolute(),
            limits=limits or Limits(),
            pinned=None if command_key is None else Key.from_text(command_key),
            notices=Notices(warn),
            now=now or _wall_clock,
            tls=tls,
        )
        self._warn = warn
        self._reset()

    def _reset(self, *, starts: bool = False) -> None:
        self._lock = threading.RLock()
        self._runtime: ClientRuntime | None = None
        self._active_runtime: ClientRuntime | None = None
        """The started runtime until the exporter is closed. It is read without the lock."""
        self._starts = starts
        self._started = False
        self._closed = False
        self._dropped = 0

    def __repr__(self) -> str:
        return f"<Link to {self._settings.address}>"

    def start(self) -> None:
        """Start sending. Later calls have no effect."""
        if self._active_runtime is not None:
            return
        build_all_decoders()
        with self._lock:
            self._starts = True
        run_outside_sessions(self._opened)

    def place(self) -> Path:
        """Return a new path for the capture of one exchange."""
        runtime = self._active_runtime or run_outside_sessions(self._opened)
        if runtime is None:
            return self._settings.folder / "nowhere" / entropy(8).hex()
        return runtime.spool.place()

    def offer(self, exchange: Exchange, capture: Path | Contents | None) -> None:
        """Take ``exchange`` and its recording."""
        runtime = self._active_runtime or run_outside_sessions(self._opened)
        if runtime is None:
            with self._lock:
                self._dropped += 1
        else:
            run_outside_sessions(runtime.spool.offer, exchange, capture)

    def status(self) -> ClientStatus:
        """Return the state."""
        with self._lock:
            runtime = self._runtime
        if runtime is not None:
            return runtime.status()
        return ClientStatus(
            state="closed" if self._closed else "new",
            dropped=self._dropped,
            error=self._settings.notices.last,
        )

    def close(self, timeout: float) -> None:
        """Send exchanges for at most ``timeout`` seconds, and end. Later calls have no effect."""
        with self._lock:
            closed, self._closed = self._closed, True
            runtime, self._active_runtime = self._runtime, None
        if runtime is not None and not closed:
            run_outside_sessions(runtime.close, timeout)

    def after_fork(self) -> None:
        """Reset a forked child, which becomes an agent with its own id when it is next used."""
        runtime, starts = self._runtime, self._starts and not self._closed
        self._settings = msgspec.structs.replace(self._settings, notices=Notices(self._warn))
        self._reset(starts=starts)
        if runtime is not None:
            runtime.abandon()

    def _opened(self) -> ClientRuntime | None:
        """Return the runtime, started if requested. Returns None if the folder is not usable."""
        with self._lock:
            if self._closed:
                return None
            try:
                if self._runtime is None:
                    self._runtime = ClientRuntime.open(self._settings)
                    self._settings.notices.well("folder")
                    self._say_if_open_to_all()
            except OSError as error:
                self._settings.notices.warn(
                    "folder",
                    f"exchanges are not recorded: {self._settings.folder} cannot be used "
                    f"({error.strerror or error})",
                )
            if self._runtime is not None and self._starts and not self._started:
                self._started = True
                self._start(self._runtime)
                self._active_runtime = self._runtime
            return self._runtime

    def _start(self, runtime: ClientRuntime) -> None:
        try:
            runtime.start()
        except RuntimeError as error:  # Python is ending, and starts no threads any more
            self._settings.notices.note("threads", str(error))

    def _say_if_open_to_all(self) -> None:
        if not self._settings.address.is_private:
            self._settings.notices.warn(
                "address",
                f"{self._settings.address} is not https: the agent's key can be read on its way",
            )
            self._settings.notices.well("address")
