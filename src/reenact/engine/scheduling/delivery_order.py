"""Recorded order of deliveries, read from the log only as far as requested. Pure.

Invariants:

- ``_queue`` holds the deliveries that were read and not passed, in the order of their events.
- ``_ahead`` holds the tokens of ``_queue`` that are still to be delivered. A token leaves it once,
  by ``drop`` (delivered) or ``skip`` (never requested).
- Only ``head`` and ``is_to_come`` read the log, one event at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

__all__ = ["Delivery", "DeliveryOrder", "DeliveryToken"]

DeliveryToken = int | tuple[str, str]
"""Identity of a delivery.

The result of a call has the seq of the event that completed it. Everything else (a timer, a chunk,
a result that a thread posts to a loop) has its lane and its name in that lane."""


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """One position in the order."""

    token: DeliveryToken
    lane: str
    seq: int


class DeliveryOrder:
    """Deliveries in the order of their events, read on demand.

    ``read_on`` reads one more event of the recording and returns False at its end. ``passed_over``
    returns whether a lane belongs to a stubbed tool or to a different process. It is called only if
    ``some_apart`` is set.
    """

    def __init__(self, read_on: Callable[[], bool], passed_over: Callable[[str], bool]) -> None:
        self.some_apart = False
        """True if ``passed_over`` accepts any lane."""
        self.limit: int | None = None
        """Seq of the first event that is not replayed, because the run is forked there."""
        self._read_on = read_on
        self._passed_over = passed_over
        self._left_out: set[tuple[str, str]] = set()
        self._queue: deque[Delivery] = deque()
        self._ahead: set[DeliveryToken] = set()
        self._unwanted: set[DeliveryToken] = set()

    def add(self, token: DeliveryToken, lane: str, seq: int) -> None:
        """Append the delivery of event ``seq``, which was just read."""
        if token in self._unwanted:
            self._unwanted.remove(token)
            return
        self._queue.append(Delivery(token, lane, seq))
        self._ahead.add(token)

    def head(self) -> Delivery | None:
        """Return the next delivery, or None at the end of the order or at its limit."""
        queue = self._queue
        while True:
            while not queue:
                if not self._read_on():
                    return None
            first = queue[0]
            if self.limit is not None and first.seq >= self.limit:
                return None
            if first.token in self._ahead:
                # Lanes and chunks can be left out after their deliveries were read, so both are
                # checked here, when a delivery becomes the head.
                left_out = self._left_out and self._is_left_out(first.token)
                if not left_out and not (self.some_apart and self._passed_over(first.lane)):
                    return first
                self._ahead.discard(first.token)
            queue.popleft()

    def leave_out(self, lane: str, family: str) -> None:
        """Skip ``family:0``, ``family:1`` … of ``lane``, whether they have been read or not."""
        self._left_out.add((lane, family))

    def _is_left_out(self, token: DeliveryToken) -> bool:
        if isinstance(token, int):
            return False
        return (token[0], token[1].rpartition(":")[0]) in self._left_out

    def is_ahead(self, token: DeliveryToken) -> bool:
        """Return whether ``token`` was read and not yet delivered or skipped. Reads nothing."""
        return token in self._ahead

    def is_to_come(self, token: DeliveryToken) -> bool:
        """Return whether ``token`` is still to be delivered. Reads the log until it is found."""
        while token not in self._ahead and self._read_on():
            pass
        return token in self._ahead

    def skip(self, token: DeliveryToken) -> None:
        """Skip ``token``, whether it has been read or not, because no call will request it."""
        if token in self._ahead:
            self._ahead.discard(token)
        elif not isinstance(token, int):
            self._unwanted.add(token)

    def drop(self, token: DeliveryToken) -> None:
        """Remove ``token``, which was delivered or never will be."""
        self._ahead.discard(token)
