"""Running replays: a few at once, each in a thread of its own, ended when they have to.

What became of a replay is written down before it is said.
"""

from __future__ import annotations

import shutil
import threading
from collections import deque
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Literal

from reenact._system import Now, monotonic
from reenact.exchange.link.fetching import Fetcher, Unavailable, payload_of
from reenact.exchange.link.journal import Done
from reenact.exchange.link.limits import Limits
from reenact.exchange.link.own import OwnThread
from reenact.exchange.link.ports import Finished, Refusal, ReplayCancelled, ReplayJob, Runner
from reenact.exchange.link.spool import Spool
from reenact.exchange.link.transport import Transport
from reenact.exchange.model import Command, ReplaySource
from reenact.store.files import make_private_folder

__all__ = ["Order", "Replays"]

Why = Literal["", "cancel", "deadline", "closing"]

_STOPPED: dict[Why, Done] = {
    "": Done("cancelled"),
    "cancel": Done("cancelled"),
    "deadline": Done("cancelled", "deadline", "it was not done in time"),
    "closing": Done("failed", "agent_restarted", "the app has ended"),
}
_UNRECORDED = Refusal("no_recording", "its outbound calls were not recorded")


class Order:
    """A command that was accepted. ``cancelled`` is set by :meth:`stop`, which says why."""

    def __init__(self, command: Command, now: int) -> None:
        self.command = command
        self.since = monotonic()
        self.until = self.since + _seconds_for(command, now)
        self.cancelled = threading.Event()
        self.why: Why = ""

    @property
    def replay_id(self) -> str:
        return self.command.replay_id

    def rest(self, seconds: float, within: float) -> bool:
        """Wait, unless it is to end, or would have to begin earlier, ``within`` seconds after it was
        accepted: then False."""
        left = self.since + within - monotonic()
        return left > seconds and not self.cancelled.wait(seconds)

    def stop(self, why: Why) -> None:
        """End it as soon as it notices. The first reason counts."""
        self.why = self.why or why
        self.cancelled.set()


def _seconds_for(command: Command, now: int) -> float:
    """That a command leaves, from ``now`` on: until its deadline, and never more than the server has
    given it. Once it is accepted nobody looks at the clock, which may be set meanwhile."""
    if not command.deadline:
        return inf
    return (command.deadline - max(now, command.issued_at)) / 1000


class Replays:
    """``folder`` is for what they need while they run, and emptied when a link starts. ``began`` is
    told of a replay that starts, ``ended`` what became of one."""

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
        ended: Callable[[str, Done], None],
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
        self._waiting: deque[Order] = deque()
        self._running: dict[str, Order] = {}
        self._threads: set[OwnThread] = set()
        self._closing = False

    # What others ask for

    def has_room(self) -> bool:
        """May one more be submitted?"""
        with self._changed:
            return not self._closing and len(self._waiting) < self._limits.waiting

    def submit(self, command: Command) -> None:
        """It is run when it is its turn."""
        thread = OwnThread("replay", self._work)
        with self._changed:
            self._waiting.append(Order(command, self._now()))
            starts = len(self._threads) < self._limits.replays
            if starts:
                self._threads.add(thread)
        if starts:
            thread.start()

    def cancel(self, replay_id: str) -> None:
        """End ``replay_id``, whether it runs or waits."""
        for order in self._orders():
            if order.replay_id == replay_id:
                order.stop("cancel")

    def expire(self) -> None:
        """End those whose deadline has come."""
        now = monotonic()
        for order in self._orders():
            if now >= order.until:
                order.stop("deadline")

    def next_deadline(self) -> float | None:
        """Seconds until the first deadline of those that are not ending yet."""
        due = [order.until for order in self._orders() if not order.cancelled.is_set()]
        first = min(due, default=inf)
        return None if first == inf else max(0.0, first - monotonic())

    def is_running(self, replay_id: str) -> bool:
        with self._changed:
            return replay_id in self._running

    def ids(self) -> tuple[str, ...]:
        """Of all that run or wait."""
        return tuple(order.replay_id for order in self._orders())

    def close(self, until: float) -> None:
        """End them all, and wait for that until the time (:func:`monotonic`) has come."""
        with self._changed:
            self._closing = True
        for order in self._orders():
            order.stop("closing")
        with self._changed:
            self._changed.wait_for(lambda: not self._threads, max(0.0, until - monotonic()))

    def _orders(self) -> tuple[Order, ...]:
        with self._changed:
            return (*self._running.values(), *self._waiting)

    # The threads' work

    def _work(self) -> None:
        while (order := self._next()) is not None:
            self._ended(order.replay_id, self._perform(order))
            with self._changed:
                del self._running[order.replay_id]

    def _next(self) -> Order | None:
        with self._changed:
            if self._waiting:
                order = self._waiting.popleft()
                self._running[order.replay_id] = order
                return order
            self._threads = {one for one in self._threads if one is not threading.current_thread()}
            self._changed.notify_all()
            return None

    def _perform(self, order: Order) -> Done:
        if order.cancelled.is_set():
            return _STOPPED[order.why]
        if monotonic() - order.since > self._limits.turn_within:
            return Done("refused", "busy", "other replays took too long")
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
            return Done("failed", "source_unavailable", str(error))
        except OSError as error:
            return Done("failed", "internal", f"a file: {error.strerror or type(error).__name__}")
        except BaseException as error:  # noqa: BLE001 - the app's own code ran, and the app goes on
            return Done("failed", "internal", type(error).__name__)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(into, ignore_errors=True)

    def _run(self, order: Order, folder: Path, into: Path) -> Done:
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
                return Done("refused", refusal.code, refusal.message)
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

    def _keep(self, order: Order, finished: Finished) -> Done:
        replay = finished.exchange.replay
        if replay is None or replay.replay_id != order.replay_id:
            return Done("failed", "internal", "what was run is not marked as this replay")
        if self._spool.offer(finished.exchange, finished.capture):
            return Done("completed")
        return Done("failed", "internal", "the app has no room for the exchange")
