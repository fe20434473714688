"""The stream of commands: kept open, resumed where it broke off, ended when a newer one takes over."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from urllib.parse import quote

import msgspec

from reenact.exchange.link.batches import fault_of
from reenact.exchange.link.limits import Limits
from reenact.exchange.link.notices import Notices
from reenact.exchange.link.registrar import Post, Registrar
from reenact.exchange.link.sse import EventTooLarge, Parser, Sent
from reenact.exchange.link.transport import Answer, Channel, Transport, Unreachable
from reenact.exchange.link.waiting import BackOff

__all__ = ["Listener"]

_MOST_RETRY = 60.0
_ID = re.compile(r"[!-~]{1,128}")
"""What can be sent back in a header."""


class Listener:
    """Works in :meth:`run`, in a thread of its own. ``receive`` gets each event, in order;
    ``superseded`` is called when another process has taken over."""

    def __init__(
        self,
        transport: Transport,
        registrar: Registrar,
        notices: Notices,
        receive: Callable[[Sent], None],
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

    def _listen(self, post: Post) -> float | None:
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

    def _follow(self, channel: Channel, post: Post) -> float | None:
        streamed = channel.stream(
            "GET",
            f"/api/v1/agents/{quote(post.agent_id, safe='')}/commands?epoch={post.epoch}",
            headers=self._headers(),
            seconds=self._limits.request_seconds,
            silence=self._limits.silence_seconds,
        )
        if streamed.answer.status != 200:
            body = b"".join(piece for piece, _ in zip(streamed.chunks, range(16), strict=False))
            return self._not_now(msgspec.structs.replace(streamed.answer, body=body), post)
        self.connected = True
        self._notices.well("stream")
        parser = Parser(most=self._limits.event_bytes)
        parser.last_id = self._last_id
        for piece in streamed.chunks:
            events = parser.feed(piece)
            self._back_off.succeeded()
            for sent in events:
                if sent.event == "superseded":
                    return self._gives_way(post)
                self._receive(sent)
            self._last_id = parser.last_id if _ID.fullmatch(parser.last_id) else ""
            if parser.retry is not None:
                self._retry = min(parser.retry / 1000, _MOST_RETRY)
        return self._back_off.failed(self._retry)

    def _headers(self) -> dict[str, str]:
        asked = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        return {**asked, "Last-Event-ID": self._last_id} if self._last_id else asked

    def _gives_way(self, post: Post) -> float | None:
        if self._registrar.post != post:
            return 0.0  # by ourselves, registered anew meanwhile
        self._superseded()
        return None

    def _not_now(self, answer: Answer, post: Post) -> float | None:
        fault = fault_of(answer)
        self._notices.note("stream", f"the server gives no commands: {fault.message}")
        if answer.status == 404:
            self._registrar.forgotten(post)
        elif answer.status == 409:
            return self._gives_way(post)
        elif answer.status in (401, 403):
            return self._back_off.refused()
        return self._back_off.failed(answer.retry_after)
