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
from reenact.exchange.client.command_journal import Journal, KnownReplay, ReplayEnd
from reenact.exchange.client.interface import Refusal
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
    """The event is not a command, so its result cannot be reported."""


class Forged(msgspec.Struct, frozen=True):
    """Command with an invalid signature or for a different agent. Its content, including the id of
    the replay, is not trusted."""

    code: str
    message: str


def read_command(data: str) -> tuple[dict[str, Any], Command]:
    """Return the JSON document and the command in it. Raises :class:`Unreadable`."""
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
    """Return why the command is refused, or None.

    A command whose replay is ``known`` gets the previous response. ``nonce_used_by`` is the command
    that came with the same nonce, if there was one.
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
    """Sends the state of a replay to the server, later and in order."""

    def __call__(self, replay_id: str, report: StateReport) -> None: ...


class CommandInbox:
    """Receiver of commands. One thread calls :meth:`receive`, which never raises."""

    def __init__(
        self,
        registration_state: RegistrationState,
        journal: Journal,
        replays: ReplayQueue,
        notices: Notices,
        say: Report,
        *,
        now: Now,
    ) -> None:
        self._registration_state = registration_state
        self._journal = journal
        self._replays = replays
        self._notices = notices
        self._say = say
        self._now = now

    def receive(self, event: Event) -> None:
        """Execute a command. Other events are ignored."""
        identity = self._registration_state.identity
        if event.name not in _COMMANDS or identity is None:
            return
        try:
            self._obey(event.data, identity)
        except Unreadable as error:
            self._notices.warn("command", str(error))
        except ExtraMissing as error:
            self._notices.warn("command", f"commands cannot be verified: {error} ({error.hint})")

    def _obey(self, data: str, identity: AgentIdentity) -> None:
        document, command = read_command(data)
        known = self._journal.find(command.replay_id)
        found = check_command(
            document,
            command,
            key=identity.key,
            tenant=identity.tenant,
            agent_id=identity.agent_id,
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
        """Report a refusal, unless the replay is known: the report would apply to the running one."""
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
        """Write a command to the journal. Returns False if that fails; the command must not be
        executed then."""
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
        """Report the known state of a replay again."""
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
"""Ids that can be sent in a header."""


class CommandListener:
    """Thread that reads the command stream in :meth:`run`.

    ``receive`` is called with each event, in order. ``superseded`` is called when a different
    process has taken over.
    """

    def __init__(
        self,
        transport: Transport,
        registration_state: RegistrationState,
        notices: Notices,
        receive: Callable[[Event], None],
        superseded: Callable[[], None],
        *,
        limits: Limits,
        back_off: Callable[[Limits], BackOff] = BackOff,
    ) -> None:
        self._transport = transport
        self._registration_state = registration_state
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
        """Release the parent's connection in a forked child."""
        if self._channel is not None:
            self._channel.abandon()

    def run(self) -> None:
        """Read the stream until the client stops."""
        while (identity := self._registration_state.wait()) is not None:
            pause = self._listen(identity)
            if pause is None or not self._registration_state.pause(pause):
                return

    def reconnect(self) -> None:
        """End the open stream from another thread. It is opened again unless the client stops."""
        with self._lock:
            if self._channel is not None:
                self._channel.abort()

    def _listen(self, identity: AgentIdentity) -> float | None:
        """Read until the stream ends. Returns the seconds to wait before the next try, None to
        stop."""
        channel = self._transport.channel()
        with self._lock:
            self._channel = channel
        try:
            if self._registration_state.identity != identity:
                return 0.0
            return self._follow(channel, identity)
        except (Unreachable, EventTooLarge) as error:
            self._notices.note("stream", f"the stream of commands broke off: {error}")
            return self._back_off.failed(self._retry)
        finally:
            self.connected = False
            channel.close()

    def _follow(self, channel: Channel, identity: AgentIdentity) -> float | None:
        streamed = channel.stream(
            "GET",
            f"/api/v1/agents/{quote(identity.agent_id, safe='')}/commands?epoch={identity.epoch}",
            headers=self._headers(),
            silence=self._limits.silence_seconds,
        )
        if streamed.status != 200:
            body = b"".join(piece for piece, _ in zip(streamed.chunks, range(16), strict=False))
            return self._not_now(streamed.with_body(body), identity)
        self.connected = True
        self._notices.well("stream")
        parser = EventParser(most=self._limits.event_bytes, last_id=self._last_id)
        for piece in streamed.chunks:
            events = parser.feed(piece)
            self._back_off.succeeded()
            for event in events:
                if event.name == "superseded":
                    return self._gives_way(identity)
                self._receive(event)
            self._last_id = parser.last_id if _ID.fullmatch(parser.last_id) else ""
            if parser.retry is not None:
                self._retry = min(parser.retry / 1000, _MOST_RETRY)
        return self._back_off.failed(self._retry)

    def _headers(self) -> dict[str, str]:
        asked = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        return {**asked, "Last-Event-ID": self._last_id} if self._last_id else asked

    def _gives_way(self, identity: AgentIdentity) -> float | None:
        if self._registration_state.identity != identity:
            return 0.0  # this process has registered again
        self._superseded()
        return None

    def _not_now(self, response: Response, identity: AgentIdentity) -> float | None:
        fault = read_fault(response)
        self._notices.note("stream", f"the server gives no commands: {fault.message}")
        if response.status == 404:
            self._registration_state.forgotten(identity)
        elif response.status == 409:
            return self._gives_way(identity)
        elif response.status in (401, 403):
            return self._back_off.refused()
        return self._back_off.failed(response.retry_after)
