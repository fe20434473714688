"""Sender of spooled exchanges, in order, until the server confirms them.

An exchange is removed after the confirmation. The server stores an exchange once that it receives
twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from reenact._system import monotonic
from reenact.exchange.client.ingest import (
    IngestItem,
    IngestResult,
    encode_items,
    prepare_item,
    read_results,
    without_recording,
)
from reenact.exchange.client.limits import Limits
from reenact.exchange.client.slots import orphans
from reenact.exchange.client.spool import Entry, Spool
from reenact.exchange.client.transport import Response, Transport, Unreachable, read_fault
from reenact.exchange.client.workers import BackOff, Notices

__all__ = ["Sender", "Terms"]

_MOST = 500
"""Maximum number of exchanges in one request."""
_UNREADABLE = frozenset({400, 413, 415, 422})
"""Statuses for a request that the server will never accept."""
_HEADERS = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
_LOOK_EVERY = 60.0
"""Seconds between searches for exchanges of dead processes."""
_NOW = 0.0
_TOO_LARGE = "its recording is too large for the server"


class Terms:
    """Limits that the server has sent at registration."""

    def __init__(self, max_batch_bytes: int) -> None:
        self.max_batch_bytes = max_batch_bytes


class Sender:
    """Thread that sends the spool in :meth:`run`, until :meth:`stop`."""

    def __init__(
        self,
        transport: Transport,
        spool: Spool,
        terms: Terms,
        notices: Notices,
        *,
        agent_id: str,
        slots: Path,
        limits: Limits,
        back_off: Callable[[Limits], BackOff] = BackOff,
    ) -> None:
        self._channel = transport.channel()
        self._server = str(transport.address)
        self._spool = spool
        self._terms = terms
        self._notices = notices
        self._agent_id = agent_id
        self._slots = slots
        self._back_off = back_off(limits)
        self._changed = threading.Condition()
        self._until: float | None = None
        self._is_idle = False
        self._is_urgent = False
        self._gather_seconds = limits.gather_seconds
        self._sent = float("-inf")
        self._batch = _MOST
        self._looked = float("-inf")

    def wake(self, *, urgent: bool = False) -> None:
        """Wake the thread. An ``urgent`` exchange does not wait for others. The call is cheap while
        the sender is busy."""
        if urgent or self._is_idle:
            with self._changed:
                self._is_urgent = self._is_urgent or urgent
                self._changed.notify_all()

    def stop(self, until: float) -> None:
        """Send until the spool is empty or the time ``until`` (:func:`monotonic`), then end."""
        with self._changed:
            self._until = until
            self._changed.notify_all()

    def abort(self) -> None:
        """End at once. The next process sends the current request again."""
        self.stop(monotonic())
        self._channel.abort()

    def abandon(self) -> None:
        """Release the parent's connection in a forked child."""
        self._channel.abandon()

    def run(self) -> None:
        """Send until the client stops."""
        try:
            while self._wait_for_work():
                self._gather()
                pause = self._send_some()
                if pause > _NOW and not self._wait(pause):
                    return
        finally:
            self._channel.close()

    # Waiting

    def _wait_for_work(self) -> bool:
        """Wait for exchanges. Returns False to end."""
        while True:
            if self._is_over():
                return False
            self._look_for_orphans()
            if self._spool.count:
                return True
            with self._changed:
                if self._until is not None:
                    return False
                # Set before the check of the spool, so that an exchange offered later wakes this thread.
                self._is_idle = True
                try:
                    if not self._spool.count:
                        self._changed.wait(_LOOK_EVERY)
                finally:
                    self._is_idle = False

    def _gather(self) -> None:
        """Wait for more exchanges, unless one is urgent. A request costs as much as recording ten
        exchanges."""
        with self._changed:
            while self._until is None and not self._is_urgent and self._spool.count < self._batch:
                left = self._sent + self._gather_seconds - monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            self._is_urgent = False
            self._sent = monotonic()

    def _is_over(self) -> bool:
        with self._changed:
            return self._until is not None and monotonic() >= self._until

    def _wait(self, seconds: float) -> bool:
        """Wait, at most until the time given to :meth:`stop`. Returns False if no time is left."""
        until = monotonic() + seconds
        with self._changed:
            while (left := until - monotonic()) > 0:
                if self._until is not None:
                    left = min(left, self._until - monotonic())
                    if left <= 0:
                        return False
                self._changed.wait(left)
        return True

    def _look_for_orphans(self) -> None:
        if self._until is not None or monotonic() < self._looked + _LOOK_EVERY:
            return
        self._looked = monotonic()
        try:
            for folder in orphans(self._slots):
                self._spool.adopt(folder)
        except OSError as error:
            self._notices.note("orphans", f"what another process left is out of reach: {error}")

    # Sending

    def _send_some(self) -> float:
        """Send one request. Returns the seconds to wait before the next."""
        try:
            items = self._collect()
            if not items:
                return _NOW
            response = self._channel.request(
                "POST", "/api/v1/ingest", body=encode_items(items), headers=_HEADERS
            )
            return self._take(response, items)
        except Unreachable as error:
            self._notices.note("server", f"{self._server} cannot be reached: {error}")
        except OSError as error:
            self._notices.warn(
                "reading", f"what waits cannot be made ready to be sent: {error.strerror or error}"
            )
        return self._back_off.failed()

    def _collect(self) -> list[IngestItem]:
        """Return the oldest exchanges that fit into one request.

        Entries that cannot be prepared, because the disk is full, are skipped. Raises OSError if
        all fail.
        """
        most, size = self._terms.max_batch_bytes, 0
        items: list[IngestItem] = []
        stuck: OSError | None = None
        for entry in self._spool.first(self._batch):
            try:
                item = self._prepare(entry)
            except OSError as error:
                stuck = error
                continue
            if item is None:
                continue
            if size + item.size > most and items:
                break
            items.append(item)
            size += item.size
        if stuck is not None and not items:
            raise stuck
        return items

    def _prepare(self, entry: Entry) -> IngestItem | None:
        try:
            item = prepare_item(entry, self._agent_id)
        except msgspec.MsgspecError:
            self._spool.reject(entry, "it is damaged")
            return None
        if item.size > self._terms.max_batch_bytes and item.packed is not None:
            item = without_recording(item, _TOO_LARGE)
        self._spool.measure(entry)
        return item

    def _take(self, response: Response, items: list[IngestItem]) -> float:
        if response.status == 200:
            results = read_results(response, items)
            if results is None:
                self._notices.warn("answer", f"{self._server} does not answer as a Reenact server")
                return self._back_off.failed()
            return self._settle(results, items)
        if response.status in _UNREADABLE:
            return self._take_apart(response, items)
        return self._postpone(response)

    def _settle(self, results: list[IngestResult], items: list[IngestItem]) -> float:
        for result, item in zip(results, items, strict=True):
            if result.status == "refused":
                self._refuse(item, result.code, result.message)
        taken = zip(results, items, strict=True)
        self._spool.remove(*(sent.entry for result, sent in taken if result.status != "refused"))
        self._back_off.succeeded()
        for topic in ("server", "key", "answer", "reading"):
            self._notices.well(topic)
        self._batch = min(_MOST, self._batch * 2)
        return _NOW

    def _take_apart(self, response: Response, items: list[IngestItem]) -> float:
        """Find the exchange that the server rejects, by bisection."""
        if len(items) > 1:
            self._batch = len(items) // 2
            return _NOW
        fault, (item,) = read_fault(response), items
        if response.status == 413 and item.packed is not None:
            without_recording(item, _TOO_LARGE)
        else:
            self._refuse(item, fault.code, fault.message)
        return _NOW

    def _refuse(self, item: IngestItem, code: str, message: str) -> None:
        self._spool.reject(item.entry, f"{code}: {message}")
        self._notices.warn(
            f"refused {code}",
            f"{self._server} does not take an exchange of {item.exchange.route_id}: {message} "
            f"({code}); it is stored in the folder refused",
        )

    def _postpone(self, response: Response) -> float:
        fault = read_fault(response)
        if response.status in (401, 403):
            self._notices.warn(
                "key",
                f"{self._server} does not take the agent's key: {fault.message} ({fault.code}); "
                "exchanges are stored until it accepts the key",
            )
            return self._back_off.refused()
        if response.status < 500 and response.status not in (408, 429):
            self._notices.warn(
                "answer", f"{self._server} does not answer as a Reenact server ({response.status})"
            )
        else:
            self._notices.note(
                "server", f"{self._server} answers {response.status}: {fault.message}"
            )
        return self._back_off.failed(response.retry_after)
