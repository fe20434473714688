"""The parts of a link in one process, put together: three threads, and one for each replay.

``folder/spool/N`` is the process's slot; ``folder/refused`` is shared by all processes.
"""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Callable
from pathlib import Path

import msgspec

from reenact._system import Now, monotonic
from reenact.audit.keys import Key
from reenact.exchange.link.address import Address, Secret
from reenact.exchange.link.aside import Aside
from reenact.exchange.link.inbox import Inbox
from reenact.exchange.link.journal import Done, Journal
from reenact.exchange.link.limits import Limits
from reenact.exchange.link.notices import Notices
from reenact.exchange.link.own import OwnThread
from reenact.exchange.link.ports import LinkState, LinkStatus, Runner
from reenact.exchange.link.registrar import Registrar
from reenact.exchange.link.replaying import Replays
from reenact.exchange.link.sending import Sender, Terms
from reenact.exchange.link.slots import Slot, claim_slot
from reenact.exchange.link.spool import Spool
from reenact.exchange.link.streaming import Listener
from reenact.exchange.link.supervising import Supervisor
from reenact.exchange.link.transport import Transport, Unreachable
from reenact.exchange.model import PROTOCOL, Heartbeat, Registered, Registration, StateReport

__all__ = ["Plan", "Works"]

_SHARE = 0.8
"""Of the time for closing that goes to sending; the rest is for saying goodbye."""
_RUNNING = StateReport(state="running", epoch=0)
_GRACE = 1.0
"""Seconds for a thread to end once its connection is gone."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
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


class Works:
    """Made by :meth:`open`, in the process that uses it."""

    def __init__(self, plan: Plan, slot: Slot) -> None:
        self._plan = plan
        self._slot = slot
        limits, notices = plan.limits, plan.notices
        self._transport = Transport(plan.address, plan.key, limits, tls=plan.tls)
        self._aside = Aside(plan.folder / "refused", most=limits.aside_entries)
        self._spool = Spool(
            slot.folder,
            self._aside,
            notices,
            max_bytes=limits.spool_bytes,
            offered=lambda urgent: self._sender.wake(urgent=urgent),
        )
        self._journal = Journal(slot.folder / "journal")
        self._registrar = Registrar()
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
        self._replays = Replays(
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
        inbox = Inbox(
            self._registrar,
            self._journal,
            self._replays,
            notices,
            self._supervisor.say,
            now=plan.now,
        )
        self._listener = Listener(
            self._transport,
            self._registrar,
            notices,
            inbox.receive,
            self._superseded,
            limits=limits,
        )
        self._threads: tuple[OwnThread, ...] = ()
        self._is_superseded = False
        self._is_closed = False
        self._known: Registration | None = None

    def _supervise(self) -> Supervisor:
        return Supervisor(
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
    def open(cls, plan: Plan) -> Works:
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
            restarted = Done("failed", "agent_restarted", "the app was restarted")
            done = Done("completed") if replay in completed else restarted
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
            OwnThread("link", self._supervisor.run),
            OwnThread("commands", self._listener.run),
            OwnThread("sending", self._sender.run),
        )
        for thread in self._threads:
            thread.start()

    def status(self) -> LinkStatus:
        return LinkStatus(
            state=self._state(),
            agent_id=self._slot.agent_id,
            spooled=self._spool.count,
            dropped=self._spool.dropped,
            refused=self._aside.count,
            running=self._replays.ids(),
            error=self._plan.notices.last,
        )

    def _state(self) -> LinkState:
        if self._is_closed or not self._threads:
            return "closed" if self._is_closed else "new"
        if self._is_superseded:
            return "superseded"
        if self._supervisor.is_refused:
            return "refused"
        return "connected" if self._listener.connected else "connecting"

    def close(self, timeout: float) -> None:
        """See :class:`~reenact.exchange.link.ports.Carrier`."""
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

    def _end(self, thread: OwnThread) -> bool:
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

    def _ended(self, replay: str, done: Done) -> None:
        try:
            self._journal.end(replay, done, self._plan.now())
        except OSError as error:
            self._plan.notices.warn("journal", f"no journal can be written ({error.strerror})")
        self._tell(replay, done)

    def _tell(self, replay: str, done: Done) -> None:
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
