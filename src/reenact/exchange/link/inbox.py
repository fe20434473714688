"""Commands as they come: judged, written down, and only then obeyed."""

from __future__ import annotations

from typing import Protocol

from reenact._system import Now
from reenact.errors import ExtraMissing
from reenact.exchange.link.journal import Done, Journal, Known
from reenact.exchange.link.judging import Forged, Unreadable, judge, read_command
from reenact.exchange.link.notices import Notices
from reenact.exchange.link.ports import Refusal
from reenact.exchange.link.registrar import Post, Registrar
from reenact.exchange.link.replaying import Replays
from reenact.exchange.link.sse import Sent
from reenact.exchange.model import Command, StateReport

__all__ = ["Inbox", "Say"]

_COMMANDS = frozenset({"replay", "cancel"})


class Say(Protocol):
    """Tells the server of a replay, some time soon, in order."""

    def __call__(self, replay_id: str, report: StateReport) -> None: ...


class Inbox:
    """``receive`` is called by one thread, and never raises."""

    def __init__(
        self,
        registrar: Registrar,
        journal: Journal,
        replays: Replays,
        notices: Notices,
        say: Say,
        *,
        now: Now,
    ) -> None:
        self._registrar = registrar
        self._journal = journal
        self._replays = replays
        self._notices = notices
        self._say = say
        self._now = now

    def receive(self, sent: Sent) -> None:
        """Take an event of the stream. Those that are no commands are passed over."""
        post = self._registrar.post
        if sent.event not in _COMMANDS or post is None:
            return
        try:
            self._obey(sent.data, post)
        except Unreadable as error:
            self._notices.warn("command", str(error))
        except ExtraMissing as error:
            self._notices.warn("command", f"commands cannot be verified: {error} ({error.hint})")

    def _obey(self, data: str, post: Post) -> None:
        document, command = read_command(data)
        known = self._journal.find(command.replay_id)
        found = judge(
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

    def _refuse(self, command: Command, found: Forged | Refusal, known: Known | None) -> None:
        """Not said of a replay that is known: it would be believed of the one that is under way."""
        if known is None and command.type == "replay":
            self._tell(command.replay_id, Done("refused", found.code, found.message))

    def _accept(self, command: Command) -> None:
        done = None
        if not self._replays.has_room():
            done = Done("refused", "busy", "too many replays wait already")
        if not self._write_down(command, done):
            return
        if done is not None:
            self._tell(command.replay_id, done)
            return
        self._say(command.replay_id, StateReport(state="delivered", epoch=0))
        self._replays.submit(command)

    def _cancel(self, command: Command, known: Known | None) -> None:
        if known is None:  # it came before what it cancels
            if self._write_down(command, Done("cancelled")):
                self._tell(command.replay_id, Done("cancelled"))
            return
        if self._journal.used_by(command.nonce) is None and not self._use(command):
            return
        if known.done is None:
            self._replays.cancel(command.replay_id)
        else:
            self._repeat(command.replay_id, known)

    def _write_down(self, command: Command, done: Done | None) -> bool:
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
                command.replay_id, Done("failed", "internal", "the app cannot write its journal")
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

    def _repeat(self, replay_id: str, known: Known) -> None:
        """Say again what was said before."""
        if known.done is None or known.done.state == "completed":
            ran = known.done is not None or self._replays.is_running(replay_id)
            self._say(replay_id, StateReport(state="running" if ran else "delivered", epoch=0))
        else:
            self._tell(replay_id, known.done)

    def _tell(self, replay_id: str, done: Done) -> None:
        if done.state != "completed":
            self._say(
                replay_id,
                StateReport(state=done.state, epoch=0, code=done.code, message=done.message),
            )
