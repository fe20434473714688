"""Registration at the server: identity, heartbeats, state reports, and deregistration."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from urllib.parse import quote

import msgspec

from reenact._system import monotonic
from reenact.audit.keys import Key
from reenact.errors import AuditInvalid
from reenact.exchange.client.limits import Limits
from reenact.exchange.client.replays import replay_path
from reenact.exchange.client.transport import Fault, Response, Transport, Unreachable, read_fault
from reenact.exchange.client.workers import BackOff, Notices
from reenact.exchange.model import Heartbeat, Registered, Registration, StateReport

__all__ = [
    "AgentIdentity",
    "RegistrationState",
    "RegistrationWorker",
]


class AgentIdentity(msgspec.Struct, frozen=True):
    """Identity at the server. ``key`` verifies commands."""

    agent_id: str
    epoch: int
    tenant: str
    key: Key


class RegistrationState:
    """Shared registration state. Threads wait for a registration until it is stopped."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        """Notified when the state, or the work of a waiting thread, changes."""
        self._post: AgentIdentity | None = None
        self._stopped = False

    @property
    def identity(self) -> AgentIdentity | None:
        with self.changed:
            return self._post

    @property
    def is_stopped(self) -> bool:
        with self.changed:
            return self._stopped

    def registered(self, identity: AgentIdentity) -> None:
        """Store a registration."""
        with self.changed:
            self._post = identity
            self.changed.notify_all()

    def forgotten(self, identity: AgentIdentity) -> None:
        """Remove ``identity``, which the server does not know any more. The app registers again."""
        with self.changed:
            if self._post == identity:
                self._post = None
                self.changed.notify_all()

    def stop(self) -> None:
        """Stop all waiting threads."""
        with self.changed:
            self._stopped = True
            self.changed.notify_all()

    def wait(self) -> AgentIdentity | None:
        """Wait for a registration. Returns None after :meth:`stop`."""
        with self.changed:
            self.changed.wait_for(lambda: self._stopped or self._post is not None)
            return None if self._stopped else self._post

    def pause(self, seconds: float) -> bool:
        """Wait. Returns False after :meth:`stop`."""
        until = monotonic() + seconds
        with self.changed:
            while not self._stopped and (left := until - monotonic()) > 0:
                self.changed.wait(left)
            return not self._stopped


_MOST_REPORTS = 10_000
_LONGEST_BEAT = 60.0
_MESSAGE = 1_000
_NOW = 0.0


class RegistrationWorker:
    """Thread for registration, heartbeats and state reports, in :meth:`run`.

    ``registration`` returns the current description of the app, ``heartbeat`` its load.
    ``welcomed`` is called with the server's response, ``said`` with each report that the server has
    received, ``superseded`` when a different process has taken over. ``deadline`` returns the
    seconds until ``expire`` has to be called.
    """

    def __init__(
        self,
        transport: Transport,
        registration_state: RegistrationState,
        notices: Notices,
        *,
        registration: Callable[[], Registration],
        heartbeat: Callable[[], Heartbeat],
        welcomed: Callable[[Registered], None],
        said: Callable[[str, StateReport], None],
        superseded: Callable[[], None],
        deadline: Callable[[], float | None],
        expire: Callable[[], None],
        limits: Limits,
        pinned: Key | None = None,
        back_off: Callable[[Limits], BackOff] = BackOff,
    ) -> None:
        self._channel = transport.channel()
        self._server = str(transport.address)
        self._registration_state = registration_state
        self._notices = notices
        self._registration = registration
        self._heartbeat = heartbeat
        self._welcomed = welcomed
        self._said = said
        self._superseded = superseded
        self._deadline = deadline
        self._expire = expire
        self._limits = limits
        self._pinned = pinned
        self._back_off = back_off(limits)
        self._reports: deque[tuple[str, StateReport]] = deque()
        self._registered_as: Registration | None = None
        self._beat_every = 15.0
        self._next_beat = 0.0
        self.is_refused = False

    # Called by other threads

    def say(self, replay_id: str, report: StateReport) -> None:
        """Queue a report about a replay."""
        clipped = msgspec.structs.replace(report, message=report.message[:_MESSAGE])
        with self._registration_state.changed:
            if len(self._reports) < _MOST_REPORTS:
                self._reports.append((replay_id, clipped))
            self._registration_state.changed.notify_all()

    def wake(self) -> None:
        """Wake the thread, because there is earlier work."""
        with self._registration_state.changed:
            self._registration_state.changed.notify_all()

    def abort(self) -> None:
        """Abort the current request."""
        self._channel.abort()

    def abandon(self) -> None:
        """Release the parent's connection in a forked child."""
        self._channel.abandon()

    # The thread's work

    def run(self) -> None:
        """Work until the client stops."""
        try:
            while not self._registration_state.is_stopped:
                self._expire()
                pause = self._do_next()
                if pause > _NOW:
                    self._pause(pause)
        finally:
            self._channel.close()

    def _do_next(self) -> float:
        """Do one task. Returns the seconds to wait before the next one."""
        identity = self._registration_state.identity
        try:
            if identity is None:
                return self._register()
            if monotonic() >= self._next_beat:
                return self._beat(identity)
            if self._reports:
                return self._report(identity)
        except Unreachable as error:
            self._notices.note("server", f"{self._server} cannot be reached: {error}")
            return self._back_off.failed()
        self._rest()
        return _NOW

    def _rest(self) -> None:
        """Wait for the next heartbeat, or for work."""
        with self._registration_state.changed:
            if not (
                self._reports
                or self._registration_state.identity is None
                or self._registration_state.is_stopped
            ):
                self._registration_state.changed.wait(self._bounded(self._next_beat - monotonic()))

    def _pause(self, seconds: float) -> None:
        """Wait, and end replays at their deadlines."""
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0 and self._registration_state.pause(
            self._bounded(left)
        ):
            self._expire()

    def _bounded(self, seconds: float) -> float:
        deadline = self._deadline()
        return max(0.0, seconds if deadline is None else min(seconds, deadline + 0.001))

    # Registration

    def _register(self) -> float:
        registration = self._registration()
        response = self._post("/api/v1/agents", registration)
        if response.status != 200:
            return self._not_now(response)
        try:
            registered = msgspec.json.decode(response.body, type=Registered)
            key = self._pinned or Key.from_text(registered.command_key)
        except (msgspec.MsgspecError, AuditInvalid):
            self._notices.warn("answer", f"{self._server} does not answer as a Reenact server")
            return self._back_off.failed()
        if key.to_text() != registered.command_key:
            self._notices.warn(
                "pin", "the server's command key is not the pinned one: its commands are refused"
            )
        self._registered_as = registration
        self._beat_every = min(max(registered.heartbeat_seconds, 0.05), _LONGEST_BEAT)
        self._goes_well()
        self._welcomed(registered)
        self._registration_state.registered(
            AgentIdentity(registration.agent_id, registered.epoch, registered.tenant, key)
        )
        return _NOW

    def _beat(self, identity: AgentIdentity) -> float:
        if self._registration() != self._registered_as:
            self._registration_state.forgotten(identity)  # its routes have changed
            return _NOW
        beat = msgspec.structs.replace(self._heartbeat(), epoch=identity.epoch)
        response = self._post(f"{_path(identity)}/heartbeat", beat)
        if response.status >= 300:
            return self._not_now(response, identity)
        self._goes_well()
        return _NOW

    def _report(self, identity: AgentIdentity) -> float:
        replay_id, report = self._reports[0]
        path = replay_path(identity.agent_id, replay_id, "state")
        response = self._post(path, msgspec.structs.replace(report, epoch=identity.epoch))
        fault = read_fault(response) if response.status >= 300 else None
        if fault is not None and _comes_later(response, fault):
            self._put_off(replay_id)
            return self._not_now(response, identity)
        self._reports.popleft()  # it is known, or never will be
        self._said(replay_id, report)
        self._back_off.succeeded()
        return _NOW

    def _put_off(self, replay_id: str) -> None:
        """Move the reports of a replay to the end, in their order, so that other replays are
        reported."""
        with self._registration_state.changed:
            self._reports = deque(sorted(self._reports, key=lambda report: report[0] == replay_id))

    def say_goodbye(self, transport: Transport, until: float) -> None:
        """Send the remaining reports until the time ``until``, and deregister. Called after
        :meth:`run`."""
        identity = self._registration_state.identity
        if identity is None:
            return
        self._channel = transport.channel()
        try:
            while self._reports and monotonic() < until:
                if self._report(identity) > _NOW:
                    break
            if monotonic() < until:
                path = f"{_path(identity)}?epoch={identity.epoch}"
                self._channel.request("DELETE", path, seconds=self._seconds(until))
        except Unreachable as error:
            self._notices.note("server", f"{self._server} cannot be reached: {error}")
        finally:
            self._channel.close()

    def _post(self, path: str, value: object) -> Response:
        return self._channel.request(
            "POST",
            path,
            body=msgspec.json.encode(value),
            headers={"Content-Type": "application/json"},
            seconds=self._limits.control_seconds,
        )

    def _seconds(self, until: float) -> float:
        return max(0.1, min(self._limits.control_seconds, until - monotonic()))

    def _goes_well(self) -> None:
        self._next_beat = monotonic() + self._beat_every
        self._back_off.succeeded()
        self.is_refused = False
        for topic in ("server", "registration", "answer"):
            self._notices.well(topic)

    def _not_now(self, response: Response, identity: AgentIdentity | None = None) -> float:
        fault = read_fault(response)
        if identity is not None and response.status == 404:
            self._registration_state.forgotten(identity)
        elif identity is not None and response.status == 409:
            self._superseded()
        elif response.status in (401, 403):
            self.is_refused = True
            self._notices.warn(
                "registration",
                f"{self._server} does not take this agent: {fault.message} ({fault.code})",
            )
            return self._back_off.refused()
        else:
            self._notices.note(
                "server", f"{self._server} answers {response.status}: {fault.message}"
            )
        return self._back_off.failed(response.retry_after)


def _comes_later(response: Response, fault: Fault) -> bool:
    """Return whether a report is sent again later. Reports that the server rejects are sent once."""
    if response.status >= 500 or response.status in (401, 403, 408, 429):
        return True
    return fault.code in ("agent_unknown", "agent_superseded")


def _path(identity: AgentIdentity) -> str:
    return f"/api/v1/agents/{quote(identity.agent_id, safe='')}"
