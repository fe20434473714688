"""Commands of the server: the stream, their verification, and their execution.

The checks are in the order that the protocol specifies. A command is written to the journal before it
is executed. A replay that is in the journal is never run again.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from reenact._net.sse import Event, EventParser, EventTooLarge
from reenact._system import Now
from reenact.audit.keys import Key
from reenact.errors import ExtraMissing
from reenact.exchange.client.interface import Refusal
from reenact.exchange.client.journal import Journal, KnownReplay, ReplayEnd
from reenact.exchange.client.limits import CLOCKS_DIFFER, Limits
from reenact.exchange.client.registration import AgentIdentity, RegistrationState
from reenact.exchange.client.replays import ReplayQueue
from reenact.exchange.client.transport import Channel, Response, Transport, Unreachable, read_fault
from reenact.exchange.client.workers import BackOff, Notices
from reenact.exchange.command_signature import verify_document
from reenact.exchange.model import PROTOCOL, Command, StateReport

__all__ = [
    "CommandInbox",
    "CommandListener",
    "Forged",
    "Report",
    "Unreadable",
    "check_command",
    "read_command",
]


class Unreadable(Exception):
    """Not a command at all: nobody can be told what became of it."""


class Forged(msgspec.Struct, frozen=True):
    """It does not come from who may send it, or is meant for another: nothing that it says, not
    even the id of the replay, is to be believed."""

    code: str
    message: str


def read_command(data: str) -> tuple[dict[str, Any], Command]:
    """The document as it came, and the command in it. Raises :class:`Unreadable`."""
    try:
        document = msgspec.json.decode(data)
        command = msgspec.convert(document, Command)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Unreadable(f"a command cannot be read: {error}") from None
    if command.v != PROTOCOL:
        raise Unreadable(f"a command has version {command.v}, and {PROTOCOL} is understood")
    return document, command


def check_command(
    document: dict[str, Any],
    command: Command,
    *,
    key: Key,
    tenant: str,
    agent_id: str,
    now: int,
    known: KnownReplay | None,
    nonce_used_by: str | None,
) -> Forged | Refusal | None:
    """None: it is to be obeyed, or, where its replay is ``known``, to be answered as before.

    ``nonce_used_by`` is the command that came with the same nonce, if any did.
    """
    if not verify_document(document, key):
        return Forged("signature_invalid", "the command is not signed by the server's key")
    if command.tenant != tenant or command.agent_id != agent_id:
        return Forged("wrong_agent", "the command is for another agent")
    if nonce_used_by not in (None, command.command_id):
        return Refusal("nonce_reused", "its nonce came with another command before")
    if known is not None:
        return None
    if now > command.expires_at + CLOCKS_DIFFER:
        return Refusal("expired", "the command came too late")
    if command.type == "replay" and command.deadline and now > command.deadline:
        return Refusal("expired", "its deadline has passed")
    return None


_COMMANDS = frozenset({"replay", "cancel"})


class Report(Protocol):
    """Tells the server of a replay, some time soon, in order."""

    def __call__(self, replay_id: str, report: StateReport) -> None: ...


class CommandInbox:
    """``receive`` is called by one thread, and never raises."""

    def __init__(
        self,
        registrar: RegistrationState,
        journal: Journal,
        replays: ReplayQueue,
        notices: Notices,
        say: Report,
        *,
        now: Now,
    ) -> None:
        self._registrar = registrar
        self._journal = journal
        self._replays = replays
        self._notices = notices
        self._say = say
        self._now = now

    def receive(self, event: Event) -> None:
        """Take an event of the stream. Those that are no commands are passed over."""
        post = self._registrar.post
        if event.name not in _COMMANDS or post is None:
            return
        try:
            self._obey(event.data, post)
        except Unreadable as error:
            self._notices.warn("command", str(error))
        except ExtraMissing as error:
            self._notices.warn("command", f"commands cannot be verified: {error} ({error.hint})")

    def _obey(self, data: str, post: AgentIdentity) -> None:
        document, command = read_command(data)
        known = self._journal.find(command.replay_id)
        found = check_command(
            document,
            command,
            key=post.key,
            tenant=post.tenant,
            agent_id=post.agent_id,
            now=self._now(),
            known=known,
            nonce_used_by=self._journal.used_by(command.nonce),
        )
        if isinstance(found, Forged):
            self._notices.warn(f"command {found.code}", f"refused: {found.message}")
        if found is not None:
            self._refuse(command, found, known)
        elif command.type == "cancel":
            self._cancel(command, known)
        elif known is not None:
            self._repeat(command.replay_id, known)
        else:
            self._accept(command)

    def _refuse(self, command: Command, found: Forged | Refusal, known: KnownReplay | None) -> None:
        """Not said of a replay that is known: it would be believed of the one that is under way."""
        if known is None and command.type == "replay":
            self._tell(command.replay_id, ReplayEnd("refused", found.code, found.message))

    def _accept(self, command: Command) -> None:
        done = None
        if not self._replays.has_room():
            done = ReplayEnd("refused", "busy", "too many replays wait already")
        if not self._write_down(command, done):
            return
        if done is not None:
            self._tell(command.replay_id, done)
            return
        self._say(command.replay_id, StateReport(state="delivered", epoch=0))
        self._replays.submit(command)

    def _cancel(self, command: Command, known: KnownReplay | None) -> None:
        if known is None:  # it came before what it cancels
            if self._write_down(command, ReplayEnd("cancelled")):
                self._tell(command.replay_id, ReplayEnd("cancelled"))
            return
        if self._journal.used_by(command.nonce) is None and not self._use(command):
            return
        if known.done is None:
            self._replays.cancel(command.replay_id)
        else:
            self._repeat(command.replay_id, known)

    def _write_down(self, command: Command, done: ReplayEnd | None) -> bool:
        """False when that is impossible: then nothing is done."""
        try:
            self._journal.accept(
                command.replay_id,
                command.command_id,
                command.nonce,
                command.expires_at,
                self._now(),
                done,
            )
        except OSError as error:
            self._cannot_write(error)
            self._tell(
                command.replay_id,
                ReplayEnd("failed", "internal", "the app cannot write its journal"),
            )
            return False
        self._notices.well("journal")
        return True

    def _use(self, command: Command) -> bool:
        try:
            self._journal.use(command.nonce, command.command_id, command.expires_at, self._now())
        except OSError as error:
            self._cannot_write(error)
            return False
        self._notices.well("journal")
        return True

    def _cannot_write(self, error: OSError) -> None:
        self._notices.warn(
            "journal", f"commands are refused: no journal can be written ({error.strerror})"
        )

    def _repeat(self, replay_id: str, known: KnownReplay) -> None:
        """Say again what was said before."""
        if known.done is None or known.done.state == "completed":
            ran = known.done is not None or self._replays.is_running(replay_id)
            self._say(replay_id, StateReport(state="running" if ran else "delivered", epoch=0))
        else:
            self._tell(replay_id, known.done)

    def _tell(self, replay_id: str, done: ReplayEnd) -> None:
        if done.state != "completed":
            self._say(
                replay_id,
                StateReport(state=done.state, epoch=0, code=done.code, message=done.message),
            )


_MOST_RETRY = 60.0
_ID = re.compile(r"[!-~]{1,128}")
"""What can be sent back in a header."""


class CommandListener:
    """Works in :meth:`run`, in a thread of its own. ``receive`` gets each event, in order;
    ``superseded`` is called when another process has taken over."""

    def __init__(
        self,
        transport: Transport,
        registrar: RegistrationState,
        notices: Notices,
        receive: Callable[[Event], None],
        superseded: Callable[[], None],
        *,
        limits: Limits,
        back_off: Callable[[Limits], BackOff] = BackOff,
    ) -> None:
        self._transport = transport
        self._registrar = registrar
        self._notices = notices
        self._receive = receive
        self._superseded = superseded
        self._limits = limits
        self._back_off = back_off(limits)
        self._last_id = ""
        self._retry: float | None = None
        self._lock = threading.Lock()
        self._channel: Channel | None = None
        self.connected = False

    def abandon(self) -> None:
        """In a forked child: let go of what is the parent's."""
        if self._channel is not None:
            self._channel.abandon()

    def run(self) -> None:
        """The thread's work."""
        while (post := self._registrar.wait()) is not None:
            pause = self._listen(post)
            if pause is None or not self._registrar.pause(pause):
                return

    def reconnect(self) -> None:
        """End the stream that is open, from another thread: it is begun anew, or it is over."""
        with self._lock:
            if self._channel is not None:
                self._channel.abort()

    def _listen(self, post: AgentIdentity) -> float | None:
        """Until it breaks off. Seconds to wait before the next try, None when there is none."""
        channel = self._transport.channel()
        with self._lock:
            self._channel = channel
        try:
            if self._registrar.post != post:
                return 0.0
            return self._follow(channel, post)
        except (Unreachable, EventTooLarge) as error:
            self._notices.note("stream", f"the stream of commands broke off: {error}")
            return self._back_off.failed(self._retry)
        finally:
            self.connected = False
            channel.close()

    def _follow(self, channel: Channel, post: AgentIdentity) -> float | None:
        streamed = channel.stream(
            "GET",
            f"/api/v1/agents/{quote(post.agent_id, safe='')}/commands?epoch={post.epoch}",
            headers=self._headers(),
            silence=self._limits.silence_seconds,
        )
        if streamed.status != 200:
            body = b"".join(piece for piece, _ in zip(streamed.chunks, range(16), strict=False))
            return self._not_now(streamed.with_body(body), post)
        self.connected = True
        self._notices.well("stream")
        parser = EventParser(most=self._limits.event_bytes, last_id=self._last_id)
        for piece in streamed.chunks:
            events = parser.feed(piece)
            self._back_off.succeeded()
            for event in events:
                if event.name == "superseded":
                    return self._gives_way(post)
                self._receive(event)
            self._last_id = parser.last_id if _ID.fullmatch(parser.last_id) else ""
            if parser.retry is not None:
                self._retry = min(parser.retry / 1000, _MOST_RETRY)
        return self._back_off.failed(self._retry)

    def _headers(self) -> dict[str, str]:
        asked = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        return {**asked, "Last-Event-ID": self._last_id} if self._last_id else asked

    def _gives_way(self, post: AgentIdentity) -> float | None:
        if self._registrar.post != post:
            return 0.0  # by ourselves, registered anew meanwhile
        self._superseded()
        return None

    def _not_now(self, response: Response, post: AgentIdentity) -> float | None:
        fault = read_fault(response)
        self._notices.note("stream", f"the server gives no commands: {fault.message}")
        if response.status == 404:
            self._registrar.forgotten(post)
        elif response.status == 409:
            return self._gives_way(post)
        elif response.status in (401, 403):
            return self._back_off.refused()
        return self._back_off.failed(response.retry_after)
