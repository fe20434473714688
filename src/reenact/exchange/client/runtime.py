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
from reenact.exchange.client.commands import CommandInbox, CommandListener
from reenact.exchange.client.interface import ClientState, ClientStatus, Runner
from reenact.exchange.client.journal import Journal, ReplayEnd
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
from reenact.store.buffered_sink import Contents
from reenact.store.warning import Warn, print_warning

__all__ = [
    "ClientRuntime",
    "ClientSettings",
    "ServerExporter",
]

_SHARE = 0.8
"""Of the time for closing that goes to sending; the rest is for saying goodbye."""
_RUNNING = StateReport(state="running", epoch=0)
_GRACE = 1.0
"""Seconds for a thread to end once its connection is gone."""


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a link is made of, in whichever process."""

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
    """Made by :meth:`open`, in the process that uses it."""

    def __init__(self, plan: ClientSettings, slot: Slot) -> None:
        self._plan = plan
        self._slot = slot
        limits, notices = plan.limits, plan.notices
        self._transport = Transport(plan.address, plan.key, limits, tls=plan.tls)
        self._aside = DeadLetters(plan.folder / "refused", most=limits.aside_entries)
        self._spool = Spool(
            slot.folder,
            self._aside,
            notices,
            max_bytes=limits.spool_bytes,
            offered=lambda urgent: self._sender.wake(urgent=urgent),
        )
        self._journal = Journal(slot.folder / "journal")
        self._registrar = RegistrationState()
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
            plan.runner,
            self._spool,
            slot.folder / "replays",
            agent_id=slot.agent_id,
            limits=limits,
            now=plan.now,
            began=lambda replay: self._supervisor.say(replay, _RUNNING),
            ended=self._ended,
        )
        self._supervisor = self._supervise()
        inbox = CommandInbox(
            self._registrar,
            self._journal,
            self._replays,
            notices,
            self._supervisor.say,
            now=plan.now,
        )
        self._listener = CommandListener(
            self._transport,
            self._registrar,
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
            self._registrar,
            self._plan.notices,
            registration=self._registration,
            heartbeat=self._heartbeat,
            welcomed=self._welcomed,
            said=self._said,
            superseded=self._superseded,
            deadline=self._replays.next_deadline,
            expire=self._replays.expire,
            limits=self._plan.limits,
            pinned=self._plan.pinned,
        )

    @classmethod
    def open(cls, plan: ClientSettings) -> ClientRuntime:
        """Claim a slot, and take up what its last process left. Raises OSError."""
        slot = claim_slot(plan.folder / "spool")
        try:
            works = cls(plan, slot)
            works._recover()
        except BaseException:
            slot.release()
            raise
        return works

    def _recover(self) -> None:
        shutil.rmtree(self._slot.folder / "replays", ignore_errors=True)
        self._spool.recover()
        self._journal.open(self._plan.now())
        begun = self._journal.unended()
        completed = self._spool.replays() if begun else frozenset()
        for replay in begun:
            restarted = ReplayEnd("failed", "agent_restarted", "the app was restarted")
            done = ReplayEnd("completed") if replay in completed else restarted
            self._journal.end(replay, done, self._plan.now())
        for replay, done in self._journal.unsaid():
            self._tell(replay, done)

    # What the app asks for

    @property
    def spool(self) -> Spool:
        return self._spool

    def start(self) -> None:
        """Begin. Raises RuntimeError where Python starts no threads any more."""
        self._threads = (
            WorkerThread("link", self._supervisor.run),
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
            refused=self._aside.count,
            running=self._replays.ids(),
            error=self._plan.notices.last,
        )

    def _state(self) -> ClientState:
        if self._is_closed or not self._threads:
            return "closed" if self._is_closed else "new"
        if self._is_superseded:
            return "superseded"
        if self._supervisor.is_refused:
            return "refused"
        return "connected" if self._listener.connected else "connecting"

    def close(self, timeout: float) -> None:
        """See :class:`~reenact.exchange.client.interface.Carrier`."""
        until = monotonic() + timeout
        self._is_closed = True
        self._registrar.stop()
        self._listener.reconnect()
        self._replays.close(monotonic() + timeout * _SHARE / 2)
        self._sender.stop(monotonic() + timeout * _SHARE)
        ended = [thread.ended(until - monotonic()) or self._end(thread) for thread in self._threads]
        if self._threads and all(ended):
            self._supervisor.say_goodbye(self._transport, until)
        if all(ended) and not self._replays.ids():
            self._journal.close()
            self._spool.close()
            self._slot.release()

    def _end(self, thread: WorkerThread) -> bool:
        self._sender.abort()
        self._supervisor.abort()
        return thread.ended(_GRACE)

    def abandon(self) -> None:
        """In a forked child, which has neither the threads nor the right to the slot."""
        for part in (self._sender, self._supervisor, self._listener, self._journal, self._spool):
            part.abandon()
        self._slot.release()

    # What the parts tell each other

    def _registration(self) -> Registration:
        try:
            said = self._plan.registration()
        except Exception as error:
            self._plan.notices.warn("app", f"the app cannot say what it is: {error!r}")
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
        self._registrar.stop()
        self._plan.notices.warn(
            "superseded",
            f"another process is the agent {self._slot.agent_id} now, and gets its commands: "
            "give each copy of the app a folder of its own",
        )

    def _ended(self, replay: str, done: ReplayEnd) -> None:
        try:
            self._journal.end(replay, done, self._plan.now())
        except OSError as error:
            self._plan.notices.warn("journal", f"no journal can be written ({error.strerror})")
        self._tell(replay, done)

    def _tell(self, replay: str, done: ReplayEnd) -> None:
        if done.state != "completed":
            self._supervisor.say(
                replay,
                StateReport(state=done.state, epoch=0, code=done.code, message=done.message),
            )

    def _said(self, replay: str, report: StateReport) -> None:
        if report.state in ("delivered", "running"):
            return
        try:
            self._journal.say(replay, self._plan.now())
        except OSError as error:
            self._plan.notices.warn("journal", f"no journal can be written ({error.strerror})")


def _wall_clock() -> int:
    """Read anew each time: an app runs for months."""
    return start_clock()()


class ServerExporter:
    """A :class:`~reenact.exchange.client.interface.Carrier` to the server at ``server``.

    ``registration()`` says what the app is now, and is asked at every heartbeat; the agent's id in
    it is the link's own, one for each process, kept in ``folder``, which the processes of an app
    share. ``command_key`` pins the key of the server's commands (``name+id+base64``); without it,
    the one that the server gives at registration is trusted.

    Nothing is opened before it is used. Raises :class:`UsageError` for a server or a key that is
    none, :class:`AuditInvalid` for such a ``command_key``.
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
        self._plan = ClientSettings(
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
        self._works: ClientRuntime | None = None
        self._at_work: ClientRuntime | None = None
        """The same once it has been started, until the link is closed: known without the lock."""
        self._starts = starts
        self._started = False
        self._closed = False
        self._dropped = 0

    def __repr__(self) -> str:
        return f"<Link to {self._plan.address}>"

    def start(self) -> None:
        """Begin to carry. Twice is once."""
        if self._at_work is not None:
            return
        build_all_decoders()
        with self._lock:
            self._starts = True
        run_outside_sessions(self._opened)

    def place(self) -> Path:
        """A path for one exchange's capture, where nothing is yet."""
        works = self._at_work or run_outside_sessions(self._opened)
        if works is None:
            return self._plan.folder / "nowhere" / entropy(8).hex()
        return works.spool.place()

    def offer(self, exchange: Exchange, capture: Path | Contents | None) -> None:
        """Take ``exchange``, and its recording with it."""
        works = self._at_work or run_outside_sessions(self._opened)
        if works is None:
            with self._lock:
                self._dropped += 1
        else:
            run_outside_sessions(works.spool.offer, exchange, capture)

    def status(self) -> ClientStatus:
        """How it is doing."""
        with self._lock:
            works = self._works
        if works is not None:
            return works.status()
        return ClientStatus(
            state="closed" if self._closed else "new",
            dropped=self._dropped,
            error=self._plan.notices.last,
        )

    def close(self, timeout: float) -> None:
        """Send what can be sent within ``timeout`` seconds, and end. Twice is once."""
        with self._lock:
            closed, self._closed = self._closed, True
            works, self._at_work = self._works, None
        if works is not None and not closed:
            run_outside_sessions(works.close, timeout)

    def after_fork(self) -> None:
        """In a forked child: start afresh, as an agent of its own, when it is next used."""
        works, starts = self._works, self._starts and not self._closed
        self._plan = msgspec.structs.replace(self._plan, notices=Notices(self._warn))
        self._reset(starts=starts)
        if works is not None:
            works.abandon()

    def _opened(self) -> ClientRuntime | None:
        """The parts, at work if they shall be. None where there is no place for them."""
        with self._lock:
            if self._closed:
                return None
            try:
                if self._works is None:
                    self._works = ClientRuntime.open(self._plan)
                    self._plan.notices.well("folder")
                    self._say_if_open_to_all()
            except OSError as error:
                self._plan.notices.warn(
                    "folder",
                    f"exchanges are not recorded: {self._plan.folder} cannot be used "
                    f"({error.strerror or error})",
                )
            if self._works is not None and self._starts and not self._started:
                self._started = True
                self._start(self._works)
                self._at_work = self._works
            return self._works

    def _start(self, works: ClientRuntime) -> None:
        try:
            works.start()
        except RuntimeError as error:  # Python is ending, and starts no threads any more
            self._plan.notices.note("threads", str(error))

    def _say_if_open_to_all(self) -> None:
        if not self._plan.address.is_private:
            self._plan.notices.warn(
                "address",
                f"{self._plan.address} is not https: the agent's key can be read on its way",
            )
            self._plan.notices.well("address")
