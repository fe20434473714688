"""Meaning of model calls: of requests and responses, of recorded events, and of their turns.

A lens returns None for traffic that it cannot read. Such traffic is recorded and replayed as plain
network traffic. The functions for events take their data as plain objects. They return None if the
stored data is not enough, for example for a redacted body or a model call without HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, Protocol, TypeVar

import msgspec

from reenact.format.event import Data
from reenact.lenses.content import content_of, refused
from reenact.lenses.fields import decode, listed, mapped, text
from reenact.lenses.model import Answered, Asked, Message
from reenact.lenses.registry import Lens, lens_named, lens_of, may_ask, place_of

__all__ = [
    "Recorded",
    "Turn",
    "Undo",
    "conversation",
    "messages",
    "read_event",
    "read_request",
    "read_response",
    "read_with",
]


def read_request(method: str, url: str, body: Any) -> Asked | None:
    """Read a request with the JSON value ``body``. Never raises.

    Returns None if it is not a model call.
    """
    if not isinstance(body, dict) or not may_ask(method, url):
        return None
    place = place_of(url)
    lens = lens_of(place.path)
    return None if lens is None else _safely(lens.asked, place, body)


def messages(asked: Asked) -> tuple[Message, ...]:
    """Return the messages of a request for display. Never raises."""
    lens = lens_named(asked.lens)
    if lens is None or not isinstance(asked.input, dict):
        return ()
    return _safely(lens.messages, asked.input) or ()


def read_response(asked_lens: str, status: int, content_type: str, body: bytes) -> Answered | None:
    """Read the response to a request that the lens ``asked_lens`` read. Never raises.

    ``body`` has no content codings. A truncated stream results in a partial reply that is not
    ``complete``. Returns None for an unknown lens, and for a body that is not a reply of a model
    API.
    """
    lens = lens_named(asked_lens)
    return None if lens is None else _safely(read_with, lens, status, content_type, body)


def read_with(lens: Lens, status: int, content_type: str, body: bytes) -> Answered | None:
    """Read a response with ``lens``. It can raise, unlike :func:`read_response`."""
    content = content_of(content_type, body)
    if status >= 400:
        return Answered(error=refused(status, content))
    return None if content is None else lens.answered(content)


_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def _safely(
    read: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
) -> _Result | None:
    """Call ``read`` and return None for an exception, because a faulty lens must not affect the
    recorded program."""
    try:
        return read(*args, **kwargs)
    except Exception:  # noqa: BLE001 - the bytes are recorded and replayed in any case
        return None


Undo = Callable[[bytes, str], bytes | None]
"""Gives the text behind the content codings of a body, or None if it cannot. The lenses do not know
codings; ``reenact.boundaries.http.encoding`` does."""


class Recorded(Protocol):
    """Attributes that are read from an event."""

    @property
    def seq(self) -> int: ...
    @property
    def type(self) -> str: ...
    @property
    def lane(self) -> str: ...
    @property
    def parent(self) -> int | None: ...
    @property
    def data(self) -> Data: ...


class Turn(msgspec.Struct, kw_only=True):
    """One model call.

    ``seq`` is the number of its request. ``end`` is the number of its response, or None if the call
    did not complete. ``asked`` and ``answered`` are None if no lens can read them. The other
    attributes come from the events and are always set.
    """

    seq: int
    lane: str
    provider: str
    model: str
    attempt: int | None = None
    call: int | None = None
    asked: Asked | None = None
    answered: Answered | None = None
    end: int | None = None
    stop_reason: str | None = None
    usage: dict[str, Any] | None = None
    error: str | None = None


def conversation(events: Iterable[Recorded], *, undo: Undo | None = None) -> list[Turn]:
    """Return the model calls among ``events``, in the order of their start.

    ``events`` must be in the order of their seq. The last call of a run is ``conversation(…)[-1]``.
    """
    turns: list[Turn] = []
    known: dict[int, Turn] = {}
    for event in events:
        if event.type == "llm_request":
            turn = _begun(event)
            turns.append(turn)
            known[event.seq] = turn
        elif event.type == "llm_response" and event.parent is not None:
            _end(known.pop(event.parent, None), event, undo)
    return turns


def _begun(event: Recorded) -> Turn:
    data = event.data
    asked = read_event(data)
    return Turn(
        seq=event.seq,
        lane=event.lane,
        provider=text(data.get("provider")),
        model=text(data.get("model")),
        attempt=_number(data.get("attempt")),
        call=_number(data.get("call")),
        asked=asked if isinstance(asked, Asked) else None,
    )


def _end(turn: Turn | None, event: Recorded, undo: Undo | None) -> None:
    if turn is None:
        return
    data = event.data
    lens = turn.asked.lens if turn.asked is not None else ""
    answered = read_event(data, lens=lens, undo=undo)
    turn.end = event.seq
    turn.answered = answered if isinstance(answered, Answered) else None
    turn.stop_reason = text(data.get("stopReason")) or None
    usage = data.get("usage")
    turn.usage = usage if isinstance(usage, dict) else None
    turn.error = _error(data, turn.answered)


def _error(data: Data, answered: Answered | None) -> str | None:
    """Return the exception that ended the call, or the error of the provider."""
    failure = mapped(data.get("error"))
    told = ": ".join(
        item for item in (text(failure.get("class")), text(failure.get("message"))) if item
    )
    return told or (answered.error if answered is not None else None)


def _number(value: Any) -> int | None:
    return value if type(value) is int else None


def read_event(data: Data, *, lens: str = "", undo: Undo | None = None) -> Asked | Answered | None:
    """Read the data of an ``llm_request`` or an ``llm_response`` event. Never raises.

    Returns None if no lens can read it. ``lens`` is the lens of the request, because a response
    does not name it.
    """
    request = data.get("request")
    if isinstance(request, dict):
        return _asked(request)
    response = data.get("response")
    named = text(data.get("lens")) or lens
    return _answered(response, named, undo) if isinstance(response, dict) else None


def _asked(request: Data) -> Asked | None:
    body = request.get("body")
    if isinstance(body, (str, bytes)):
        body, _ = decode(body)
    return read_request(text(request.get("method")), text(request.get("url")), body)


def _answered(response: Data, lens: str, undo: Undo | None) -> Answered | None:
    status = _number(response.get("status"))
    body = response.get("body")
    if status is None or "bodySecret" in response:
        return None
    content = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    coding = "" if "decoded" in response else _header(response, "content-encoding")
    if coding and isinstance(content, bytes):
        content = None if undo is None else undo(content, coding)
        if content is None:
            return None
    if content is not None and not isinstance(content, bytes):
        return None
    return read_response(lens, status, _header(response, "content-type"), content or b"")


def _header(response: Data, name: str) -> str:
    """Join all headers of this name. They are stored as pairs."""
    found = [
        text(pair[1])
        for pair in listed(response.get("headers"))
        if isinstance(pair, list) and len(pair) == 2 and text(pair[0]).lower() == name
    ]
    return ", ".join(found)
