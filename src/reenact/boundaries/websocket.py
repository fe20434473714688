"""Websockets as a boundary sees them: an opening, then messages both ways, each a call of its own.

This is for websockets what :mod:`reenact.boundaries.http` is for requests. A boundary makes an
:class:`Opening`, says how it is done for real, and gets what the server said and a :class:`Link`,
through which every message goes. The real connection, where there is one, stays with the boundary:
each call is given a function that uses it, which a replay never calls.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

from reenact.boundaries.messages import (
    Accepted,
    Message,
    MessageCodec,
    Opening,
    OpeningCodec,
    PlainCodec,
    link_call,
    opening_call,
    request_of,
)
from reenact.boundaries.wire import Errors
from reenact.engine.call import Call, Decision, GoLive, Pass, Refuse
from reenact.engine.codecs import ResultCodec
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.session.session import Session
from reenact.errors import PolicyRefused
from reenact.format.event import Data

__all__ = ["Accepted", "Errors", "Link", "Message", "Opening", "open_link", "open_link_async"]

_ERRORS = Errors()

# Opening


def open_link(
    session: Session, opening: Opening, live: Callable[[], Accepted], errors: Errors = _ERRORS
) -> tuple[Accepted, Link | None]:
    """What the server answers to ``opening``, and the link; raises what the library raises.

    ``live()`` connects for real. There is no link where the policy lets the connection pass by: the
    program then gets the real one.
    """
    call = opening_call(session, opening)
    if session.is_late():
        return live(), None
    decision, opened = session.decisions.decide(call, blocks=True)
    accepted = session.gateway.carry_out(decision, opened, live, OpeningCodec(errors))
    return accepted, _linked(session, decision, opened, errors)


async def open_link_async(
    session: Session,
    opening: Opening,
    live: Callable[[], Awaitable[Accepted]],
    errors: Errors = _ERRORS,
) -> tuple[Accepted, Link | None]:
    """The same for a coroutine."""
    call = opening_call(session, opening)
    if session.is_late():
        return await live(), None
    decision, opened = session.decisions.decide(call, blocks=False)
    accepted = await session.gateway.carry_out_async(decision, opened, live, OpeningCodec(errors))
    return accepted, _linked(session, decision, opened, errors)


def _linked(
    session: Session, decision: Decision, opened: InFlightCall, errors: Errors
) -> Link | None:
    if isinstance(decision, Pass):
        return None
    name = _name(session, opened.lane.name)
    return Link(session, name, errors, is_live=isinstance(decision, GoLive))


_counts: WeakKeyDictionary[Session, Counter[str]] = WeakKeyDictionary()


def _name(session: Session, lane: str) -> str:
    """``lane/n``: the n-th connection that this lane opened. Calls of other kinds before it do not
    change it."""
    with session.lock:
        counts = _counts.setdefault(session, Counter())
        counts[lane] += 1
        return f"{lane}/{counts[lane]}"


# Messages


class Link:
    """An open connection: what is done with it, as calls of its session.

    Every method takes ``live``, which does it for real. It runs in no session, and it is not called
    in a replay.
    """

    def __init__(self, session: Session, name: str, errors: Errors, *, is_live: bool) -> None:
        self.session = session
        self.name = name
        """The same in every run."""
        self.is_live = is_live
        """Is there a real connection?"""
        self._plain = PlainCodec(errors)
        self._receives = MessageCodec(errors)
        self._ahead: deque[Message] = deque()

    # Threads

    def receive(self, live: Callable[[], Message]) -> Message:
        """The next message."""
        message: Message = self._carry_out("recv", {}, live, self._receives)
        return message

    def send(self, message: Message, live: Callable[[], Any]) -> None:
        """Send ``message``."""
        self._carry_out("send", request_of(message), live, self._plain)

    def ask(self, operation: str, request: Data, live: Callable[[], Any]) -> Any:
        """Anything else: ``close``, ``ping``. What ``live`` returns is a JSON value, or None."""
        return self._carry_out(operation, request, live, self._plain)

    def _carry_out(
        self, operation: str, request: Data, live: Callable[[], Any], codec: ResultCodec
    ) -> Any:
        session, call = self.session, link_call(self.name, operation, request)
        if session.is_late():
            return session.gateway.call(call, live, codec)
        decision, opened = self._decide(call, blocks=True)
        return session.gateway.carry_out(decision, opened, live, codec)

    # Tasks

    async def receive_async(self, live: Callable[[], Awaitable[Message]]) -> Message:
        """The next message. One that has come when the program gives up waiting is kept for who
        asks next."""

        async def next_message() -> Message:
            if not self._ahead:
                self._ahead.append(await live())
            return self._ahead[0]

        message: Message = await self._carry_out_async("recv", {}, next_message, self._receives)
        if self._ahead:
            self._ahead.popleft()
        return message

    async def send_async(self, message: Message, live: Callable[[], Awaitable[Any]]) -> None:
        """Send ``message``."""
        await self._carry_out_async("send", request_of(message), live, self._plain)

    async def ask_async(
        self, operation: str, request: Data, live: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Anything else: ``close``, ``ping``. What ``live`` gives is a JSON value, or None."""
        return await self._carry_out_async(operation, request, live, self._plain)

    async def _carry_out_async(
        self, operation: str, request: Data, live: Callable[[], Awaitable[Any]], codec: ResultCodec
    ) -> Any:
        session, call = self.session, link_call(self.name, operation, request)
        if session.is_late():
            return await session.gateway.acall(call, live, codec)
        decision, opened = self._decide(call, blocks=False)
        return await session.gateway.carry_out_async(decision, opened, live, codec)

    # Both

    def _decide(self, call: Call, *, blocks: bool) -> tuple[Decision, InFlightCall]:
        decision, opened = self.session.decisions.decide(call, blocks=blocks)
        if isinstance(decision, (GoLive, Pass)) and not self.is_live:
            if self.session.mode == "update":
                self.session.given_up = f"a websocket cannot be updated in part ({call.operation})"
            decision = Refuse(error=_nobody_is_connected(call.operation))
        return decision, opened


def _nobody_is_connected(operation: str) -> PolicyRefused:
    return PolicyRefused(
        f"a websocket that was opened from the recording cannot go on live: {operation} is not "
        "recorded",
        hint="record the whole conversation again (mode rewrite)",
        operation=operation,
    )
