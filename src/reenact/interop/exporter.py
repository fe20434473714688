"""A recording of ours as HTTP exchanges and entries, for other formats to write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reenact.boundaries.http.stored_body import served_body
from reenact.boundaries.http.wire import Head, Pairs, Request
from reenact.errors import RrError
from reenact.format.event import Data, Event
from reenact.interop.model import Exchange, Found, Losses, rebuilt, settled
from reenact.rr.entries import read as read_entry

__all__ = ["give"]

_FRAME = frozenset({"run_start", "run_end"})
"""Events that say nothing of calls."""


def give(events: Iterable[Event]) -> Found:
    """Return the convertible calls of a recording, in delivery order.

    Sealed values are not exported; their placeholders are.
    """
    found = Found()
    asked: dict[int, Data] = {}
    lanes = set()
    for event in events:
        lanes.add(event.lane)
        if event.type == "llm_request":
            asked[event.seq] = event.data
        elif event.type == "llm_response":
            _add_call(found, asked.pop(event.parent or 0, {}), event)
        elif event.type == "nondeterministic":
            _add(found, event)
        elif event.type not in _FRAME:
            found.losses.note("events")
    found.losses.note("no_response", len(asked))
    found.losses.note("order", len(lanes) - 1 if len(found.items) > 1 and lanes else 0)
    return found


def _add(found: Found, event: Event) -> None:
    data = event.data
    if "withheld" in data:
        found.losses.note("withheld")
    elif data.get("source") == "network":
        _add_call(found, data, event)
    elif "err" in data and isinstance(data.get("response"), (str, bytes)):
        _add_entry(found, event)
    else:
        found.losses.note("events")


def _add_entry(found: Found, event: Event) -> None:
    try:
        found.items.append(read_entry(event.data, f"event {event.seq}"))
    except RrError:
        found.losses.note("events")


def _add_call(found: Found, asked: Data, event: Event) -> None:
    losses = found.losses
    request, answer = asked.get("request"), event.data.get("response")
    if str(event.data.get("op", "")).startswith("websocket"):
        losses.note("websocket")
    elif not isinstance(request, dict) or not {"method", "url"} <= request.keys():
        losses.note("events")  # a call that was made by hand
    elif "error" in event.data and not isinstance(answer, dict):
        losses.note("error")
    elif not isinstance(answer, dict) or "status" not in answer:
        losses.note("no_response")
    else:
        losses.note("error", int("error" in event.data))
        found.items.append(_exchange(asked, answer, event, losses))


def _exchange(asked: Data, answer: Data, event: Event, losses: Losses) -> Exchange:
    headers = _pairs(answer.get("headers"))
    head = Head(
        status=int(answer["status"]),
        reason=str(answer.get("reason", "")),
        version=str(answer.get("version", "HTTP/1.1")),
        headers=headers,
    )
    losses.note("kept_decoded", int("decoded" in answer))
    losses.note("pieces", int(bool(answer.get("cuts"))))
    exchange = Exchange(
        request=_request(asked, losses),
        head=head,
        body=served_body(answer, headers) or b"",
        ts=event.ts,
        duration=_duration(event.data),
        redacted="redacted" in event.data,
    )
    return settled(exchange, losses)


def _request(asked: Data, losses: Losses) -> Request:
    compared: Data = asked["request"]
    sent = asked.get("sent")
    said: Data = sent if isinstance(sent, dict) else {}
    request = Request(
        method=str(compared["method"]),
        url=str(said.get("url", compared["url"])),
        headers=_pairs(said.get("headers")),
    )
    return rebuilt(request, compared, str(asked.get("rawHash", "")), losses)


def _pairs(value: Any) -> Pairs:
    return tuple((str(name), str(given)) for name, given in value or ())


def _duration(data: Data) -> int:
    timing = data.get("timing")
    offsets = timing.get("offsets") if isinstance(timing, dict) else None
    last = offsets[-1] if isinstance(offsets, list) and offsets else 0
    return last if isinstance(last, int) else 0
