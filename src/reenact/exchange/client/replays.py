"""Replays in the app: download of their sources, and execution in a bounded number of threads.

The end of a replay is written to the journal before it is reported.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections import deque
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import quote

import msgspec

from reenact._system import Now, monotonic
from reenact.errors import ReenactError
from reenact.exchange.client.command_journal import ReplayEnd
from reenact.exchange.client.interface import (
    FinishedReplay,
    Refusal,
    ReplayCancelled,
    ReplayJob,
    Runner,
)
from reenact.exchange.client.limits import Limits
from reenact.exchange.client.spool import Spool
from reenact.exchange.client.transport import Channel, Response, Transport, Unreachable, read_fault
from reenact.exchange.client.workers import BackOff, WorkerThread
from reenact.exchange.model import Command, Payload, RecordingRef, ReplaySource
from reenact.exchange.payload import payload_digest
from reenact.store.files import make_private_folder
from reenact.store.pack import unpack

__all__ = [
    "AcceptedReplay",
    "Fetcher",
    "ReplayQueue",
    "Unavailable",
    "payload_of",
    "replay_path",
]

T = TypeVar("T")

Wait = Callable[[float], bool]
"""Waits for a number of seconds, or returns False at once if time is up."""


class Unavailable(Exception):
    """The source of a replay is not available or does not match the command."""


def replay_path(agent_id: str, replay_id: str, part: str) -> str:
    """Return the path ``…/replays/ID/part``."""
    agent, replay = quote(agent_id, safe=""), quote(replay_id, safe="")
    return f"/api/v1/agents/{agent}/replays/{replay}/{part}"


def payload_of(command: Command, source: ReplaySource) -> Payload:
    """Return the payload to replay. Raises :class:`Unavailable` if it does not match the signed
    digest."""
    payload = command.modified_payload or source.payload
    try:
        found = payload_digest(payload)
    except ReenactError as error:
        raise Unavailable(f"the payload cannot be used: {error.message}") from None
    if found != command.payload_digest:
        raise Unavailable("the payload is not the one that the command was signed for")
    return payload


class _NotNow(Exception):
    """The server is temporarily unavailable."""

    def __init__(self, why: str, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.retry_after = retry_after


class Fetcher:
    """Downloads for one replay, in one thread. Requests are repeated while ``wait`` returns True."""

    def __init__(
        self, channel: Channel, agent_id: str, replay_id: str, limits: Limits, wait: Wait
    ) -> None:
        self._channel = channel
        self._agent_id = agent_id
        self._replay_id = replay_id
        self._limits = limits
        self._wait = wait

    def source(self) -> ReplaySource:
        """Download the payload. Raises :class:`Unavailable`."""
        body = self._get("source", self._limits.source_bytes)
        try:
            return msgspec.json.decode(body, type=ReplaySource)
        except msgspec.MsgspecError as error:
            raise Unavailable(f"the source cannot be read: {error}") from None

    def recording(self, ref: RecordingRef, folder: Path) -> Path:
        """Download and unpack the recording into ``folder``. Raises :class:`Unavailable`, and
        OSError if it cannot be written."""
        if ref.size > self._limits.recording_bytes:
            raise Unavailable(f"the recording is larger than {self._limits.recording_bytes} bytes")
        packed, target = folder / "packed", folder / "capture"
        self._again_and_again("recording", lambda: self._download(ref, packed))
        try:
            unpack(packed, target, most=self._limits.unpacked_bytes)
        except ReenactError as error:
            shutil.rmtree(target, ignore_errors=True)
            raise Unavailable(f"the recording cannot be used: {error.code}") from None
        packed.unlink()
        return target

    def _download(self, ref: RecordingRef, packed: Path) -> None:
        streamed = self._channel.stream(
            "GET",
            replay_path(self._agent_id, self._replay_id, "recording"),
        )
        found, size = hashlib.sha256(), 0
        with packed.open("wb") as file:
            for piece in streamed.chunks:
                size += len(piece)
                if size > ref.size and streamed.status == 200:
                    self._channel.close()
                    raise Unavailable("the recording is larger than announced")
                found.update(piece)
                file.write(piece)
        _check(streamed.with_body(b""))
        if f"sha256:{found.hexdigest()}" != ref.digest:
            raise Unavailable("the recording is not the one that was promised: its digest differs")

    def _get(self, part: str, limit: int) -> bytes:
        path = replay_path(self._agent_id, self._replay_id, part)

        def ask() -> bytes:
            response = self._channel.request("GET", path, most=limit)
            _check(response)
            return response.body

        return self._again_and_again(part, ask)

    def _again_and_again(self, part: str, work: Callable[[], T]) -> T:
        back_off = BackOff(self._limits)
        while True:
            try:
                return work()
            except Unreachable as error:
                why, pause = str(error), back_off.failed()
            except _NotNow as error:
                why, pause = str(error), back_off.failed(error.retry_after)
            if not self._wait(pause):
                raise Unavailable(f"the {part} cannot be had: {why}")


def _check(response: Response) -> None:
    """Raise :class:`_NotNow` for a temporary failure, :class:`Unavailable` for a permanent one."""
    if response.status == 200:
        return
    why = read_fault(response).message
    if response.status >= 500 or response.status == 429:
        raise _NotNow(why, response.retry_after)
    raise Unavailable(f"the server does not give it: {why}")


StopReason = Literal["", "cancel", "deadline", "closing"]

_STOPPED: dict[StopReason, ReplayEnd] = {
    "": ReplayEnd("cancelled"),
    "cancel": ReplayEnd("cancelled"),
    "deadline": ReplayEnd("cancelled", "deadline", "it was not done in time"),
    "closing": ReplayEnd("failed", "agent_restarted", "the app has ended"),
}
_UNRECORDED = Refusal("no_recording", "its outbound calls were not recorded")


class AcceptedReplay:
    """Accepted command. :meth:`stop` sets ``cancelled`` and ``why``."""

    def __init__(self, command: Command, now: int) -> None:
        self.command = command
        self.since = monotonic()
        self.until = self.since + _seconds_for(command, now)
        self.cancelled = threading.Event()
        self.why: StopReason = ""

    @property
    def replay_id(self) -> str:
        return self.command.replay_id

    def rest(self, seconds: float, within: float) -> bool:
        """Wait. Returns False if the replay is cancelled, or if it could not begin ``within``
        seconds after it was accepted."""
        left = self.since + within - monotonic()
        return left > seconds and not self.cancelled.wait(seconds)

    def stop(self, why: StopReason) -> None:
        """Cancel the replay. The first reason counts."""
        self.why = self.why or why
        self.cancelled.set()


def _seconds_for(command: Command, now: int) -> float:
    """Return the seconds until the deadline of a command, limited to the time that the server
    granted.

    The clock is read once, because it can be set while the replay runs.
    """
    if not command.deadline:
        return inf
    return (command.deadline - max(now, command.issued_at)) / 1000


class ReplayQueue:
    """Queue of replays with a bounded number of threads.

    ``folder`` holds temporary files. ``began`` is called when a replay starts, ``ended`` with its
    end.
    """

    def __init__(
        self,
        transport: Transport,
        runner: Runner,
        spool: Spool,
        folder: Path,
        *,
        agent_id: str,
        limits: Limits,
        now: Now,
        began: Callable[[str], None],
        ended: Callable[[str, ReplayEnd], None],
    ) -> None:
        self._transport = transport
        self._runner = runner
        self._spool = spool
        self._folder = folder
        self._agent_id = agent_id
        self._limits = limits
        self._now = now
        self._began = began
        self._ended = ended
        self._changed = threading.Condition()  # covers what follows
        self._waiting: deque[AcceptedReplay] = deque()
        self._running: dict[str, AcceptedReplay] = {}
        self._threads: set[WorkerThread] = set()
        self._closing = False

    # Called by other threads

    def has_room(self) -> bool:
        """Return whether a replay can be submitted."""
        with self._changed:
            return not self._closing and len(self._waiting) < self._limits.waiting

    def submit(self, command: Command) -> None:
        """Queue a replay."""
        thread = WorkerThread("replay", self._work)
        with self._changed:
            self._waiting.append(AcceptedReplay(command, self._now()))
            starts = len(self._threads) < self._limits.replays
            if starts:
                self._threads.add(thread)
        if starts:
            thread.start()

    def cancel(self, replay_id: str) -> None:
        """Cancel ``replay_id``, running or waiting."""
        for order in self._orders():
            if order.replay_id == replay_id:
                order.stop("cancel")

    def expire(self) -> None:
        """Cancel replays at their deadlines."""
        now = monotonic()
        for order in self._orders():
            if now >= order.until:
                order.stop("deadline")

    def next_deadline(self) -> float | None:
        """Return the seconds until the next deadline, or None."""
        due = [order.until for order in self._orders() if not order.cancelled.is_set()]
        first = min(due, default=inf)
        return None if first == inf else max(0.0, first - monotonic())

    def is_running(self, replay_id: str) -> bool:
        with self._changed:
            return replay_id in self._running

    def ids(self) -> tuple[str, ...]:
        """Return the ids of running and waiting replays."""
        return tuple(order.replay_id for order in self._orders())

    def close(self, until: float) -> None:
        """Cancel all replays, and wait for their end until the time ``until`` (:func:`monotonic`)."""
        with self._changed:
            self._closing = True
        for order in self._orders():
            order.stop("closing")
        with self._changed:
            self._changed.wait_for(lambda: not self._threads, max(0.0, until - monotonic()))

    def _orders(self) -> tuple[AcceptedReplay, ...]:
        with self._changed:
            return (*self._running.values(), *self._waiting)

    # The threads' work

    def _work(self) -> None:
        while (order := self._next()) is not None:
            self._ended(order.replay_id, self._perform(order))
            with self._changed:
                del self._running[order.replay_id]

    def _next(self) -> AcceptedReplay | None:
        with self._changed:
            if self._waiting:
                order = self._waiting.popleft()
                self._running[order.replay_id] = order
                return order
            self._threads = {one for one in self._threads if one is not threading.current_thread()}
            self._changed.notify_all()
            return None

    def _perform(self, order: AcceptedReplay) -> ReplayEnd:
        if order.cancelled.is_set():
            return _STOPPED[order.why]
        if monotonic() - order.since > self._limits.turn_within:
            return ReplayEnd("refused", "busy", "other replays took too long")
        into = self._spool.place()
        folder = self._folder / into.name
        try:
            make_private_folder(folder, exist_ok=False)
            return self._run(order, folder, into)
        except ReplayCancelled:
            return _STOPPED[order.why]
        except Unavailable as error:
            if order.cancelled.is_set():
                return _STOPPED[order.why]
            return ReplayEnd("failed", "source_unavailable", str(error))
        except OSError as error:
            return ReplayEnd(
                "failed", "internal", f"a file: {error.strerror or type(error).__name__}"
            )
        except BaseException as error:  # noqa: BLE001 - a failure of the app's code must not end the thread
            return ReplayEnd("failed", "internal", type(error).__name__)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(into, ignore_errors=True)

    def _run(self, order: AcceptedReplay, folder: Path, into: Path) -> ReplayEnd:
        command = order.command
        channel = self._transport.channel()
        try:
            fetcher = Fetcher(
                channel,
                self._agent_id,
                order.replay_id,
                self._limits,
                lambda seconds: order.rest(seconds, self._limits.turn_within),
            )
            source = fetcher.source()
            payload = payload_of(command, source)
            refusal = self._runner.check(command, payload, source.redacted)
            if refusal is None and source.recording is None and command.boundaries == "recorded":
                refusal = _UNRECORDED
            if refusal is not None:
                return ReplayEnd("refused", refusal.code, refusal.message)
            capture = self._capture(command, source, fetcher, folder)
        finally:
            channel.close()
        if order.cancelled.is_set():
            raise ReplayCancelled
        self._began(order.replay_id)
        job = ReplayJob(command, payload, source.redacted, capture, into, order.cancelled)
        return self._keep(order, self._runner.run(job))

    @staticmethod
    def _capture(
        command: Command, source: ReplaySource, fetcher: Fetcher, folder: Path
    ) -> Path | None:
        if source.recording is None or command.boundaries == "live":
            return None
        return fetcher.recording(source.recording, folder)

    def _keep(self, order: AcceptedReplay, finished: FinishedReplay) -> ReplayEnd:
        replay = finished.exchange.replay
        if replay is None or replay.replay_id != order.replay_id:
            return ReplayEnd("failed", "internal", "what was run is not marked as this replay")
        if self._spool.offer(finished.exchange, finished.capture):
            return ReplayEnd("completed")
        return ReplayEnd("failed", "internal", "the app has no room for the exchange")
