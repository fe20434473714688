"""Sending what is spooled, in order, until the server says that it has it.

An exchange is removed when the server says so, and not before: what is sent twice is stored once.
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
"""Exchanges in one request."""
_UNREADABLE = frozenset({400, 413, 415, 422})
"""Something in the request is what the server will never take."""
_HEADERS = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
_LOOK_EVERY = 60.0
"""Seconds between looks for what processes that are gone have left."""
_NOW = 0.0
_TOO_LARGE = "its recording is too large for the server"


class Terms:
    """What the server has said at registration, as far as sending goes."""

    def __init__(self, max_batch_bytes: int) -> None:
        self.max_batch_bytes = max_batch_bytes


class Sender:
    """Works in :meth:`run`, in a thread of its own, until :meth:`stop`."""

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
        """There is something to send, ``urgent`` if it must not wait for more. Costs next to nothing
        while the sender is busy."""
        if urgent or self._is_idle:
            with self._changed:
                self._is_urgent = self._is_urgent or urgent
                self._changed.notify_all()

    def stop(self, until: float) -> None:
        """Go on until the spool is empty or the time (:func:`monotonic`) has come, then end."""
        with self._changed:
            self._until = until
            self._changed.notify_all()

    def abort(self) -> None:
        """End at once; what is being sent is sent again by the next process."""
        self.stop(monotonic())
        self._channel.abort()

    def abandon(self) -> None:
        """In a forked child: let go of what is the parent's."""
        self._channel.abandon()

    def run(self) -> None:
        """The thread's work."""
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
        """True when there is something to send, False when it is time to end."""
        while True:
            if self._is_over():
                return False
            self._look_for_orphans()
            if self._spool.count:
                return True
            with self._changed:
                if self._until is not None:
                    return False
                # Said before the spool is looked at: whoever offers something afterwards sees it.
                self._is_idle = True
                try:
                    if not self._spool.count:
                        self._changed.wait(_LOOK_EVERY)
                finally:
                    self._is_idle = False

    def _gather(self) -> None:
        """Wait until the last request is some time ago, so that more exchanges go into the next one,
        unless something is urgent. A request costs as much as ten exchanges that are recorded."""
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
        """Wait; whoever stops us shortens it to the time that is left. False when that is none."""
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
            parcels = self._collect()
            if not parcels:
                return _NOW
            response = self._channel.request(
                "POST", "/api/v1/ingest", body=encode_items(parcels), headers=_HEADERS
            )
            return self._take(response, parcels)
        except Unreachable as error:
            self._notices.note("server", f"{self._server} cannot be reached: {error}")
        except OSError as error:
            self._notices.warn(
                "reading", f"what waits cannot be made ready to be sent: {error.strerror or error}"
            )
        return self._back_off.failed()

    def _collect(self) -> list[IngestItem]:
        """The oldest exchanges that fit into one request. Where some cannot be made ready, because
        the disk is full, others may be. Raises OSError when none can."""
        most, size = self._terms.max_batch_bytes, 0
        parcels: list[IngestItem] = []
        stuck: OSError | None = None
        for entry in self._spool.first(self._batch):
            try:
                parcel = self._prepare(entry)
            except OSError as error:
                stuck = error
                continue
            if parcel is None:
                continue
            if size + parcel.size > most and parcels:
                break
            parcels.append(parcel)
            size += parcel.size
        if stuck is not None and not parcels:
            raise stuck
        return parcels

    def _prepare(self, entry: Entry) -> IngestItem | None:
        try:
            parcel = prepare_item(entry, self._agent_id)
        except msgspec.MsgspecError:
            self._spool.set_aside(entry, "it is damaged")
            return None
        if parcel.size > self._terms.max_batch_bytes and parcel.packed is not None:
            parcel = without_recording(parcel, _TOO_LARGE)
        self._spool.measure(entry)
        return parcel

    def _take(self, response: Response, parcels: list[IngestItem]) -> float:
        if response.status == 200:
            results = read_results(response, parcels)
            if results is None:
                self._notices.warn("answer", f"{self._server} does not answer as a Reenact server")
                return self._back_off.failed()
            return self._settle(results, parcels)
        if response.status in _UNREADABLE:
            return self._take_apart(response, parcels)
        return self._postpone(response)

    def _settle(self, results: list[IngestResult], parcels: list[IngestItem]) -> float:
        for result, parcel in zip(results, parcels, strict=True):
            if result.status == "refused":
                self._refuse(parcel, result.code, result.message)
        taken = zip(results, parcels, strict=True)
        self._spool.remove(*(sent.entry for result, sent in taken if result.status != "refused"))
        self._back_off.succeeded()
        for topic in ("server", "key", "answer", "reading"):
            self._notices.well(topic)
        self._batch = min(_MOST, self._batch * 2)
        return _NOW

    def _take_apart(self, response: Response, parcels: list[IngestItem]) -> float:
        """Find the one that the server cannot take, by halves."""
        if len(parcels) > 1:
            self._batch = len(parcels) // 2
            return _NOW
        fault, (parcel,) = read_fault(response), parcels
        if response.status == 413 and parcel.packed is not None:
            without_recording(parcel, _TOO_LARGE)
        else:
            self._refuse(parcel, fault.code, fault.message)
        return _NOW

    def _refuse(self, parcel: IngestItem, code: str, message: str) -> None:
        self._spool.set_aside(parcel.entry, f"{code}: {message}")
        self._notices.warn(
            f"refused {code}",
            f"{self._server} does not take an exchange of {parcel.exchange.route_id}: {message} "
            f"({code}); it is kept in the folder refused",
        )

    def _postpone(self, response: Response) -> float:
        fault = read_fault(response)
        if response.status in (401, 403):
            self._notices.warn(
                "key",
                f"{self._server} does not take the agent's key: {fault.message} ({fault.code}); "
                "exchanges are kept until it does",
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
