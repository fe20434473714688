"""Outbound calls of an exchange, read from its recording, and their messages as HTML."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Final

import msgspec

from reenact.exchange.comparison.calls import Call, as_asked, read_calls
from reenact.exchange.model import Exchange
from reenact.server.exchanges.recordings import check_calls, with_recording
from reenact.server.runtime import Server
from reenact.server.web.components.html import Html, fragment, tag
from reenact.server.web.components.values import block, bytes_preview, pairs, value
from reenact.store.source import SeekableSource
from reenact.views.calls import RecordedCall, read_run
from reenact.views.content import conversation

__all__ = [
    "CallDetails",
    "http_message",
    "read_call_details",
]


class CallDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Outbound call with its times in milliseconds since the epoch.

    ``talk`` has the messages of a model call including the response, and ``model`` its model.
    ``served`` means that a replay got the recorded response; the times are from the recording.
    """

    call: Call
    began: int
    ended: int
    talk: list[dict[str, Any]] | None = None
    model: str = ""
    served: bool = False


async def read_call_details(
    server: Server, tenant: str, exchange: Exchange
) -> tuple[CallDetails, ...]:
    """Read the calls of ``exchange`` in order, or none without a recording.

    The calls of a replay have the requests that were made.
    """
    if exchange.recording is None:
        return ()

    def read(source: SeekableSource) -> tuple[CallDetails, ...]:
        check_calls(source, server.limits.called)
        steps_of = exchange.processors
        calls = as_asked(read_calls(source, steps_of), exchange.replay, steps_of).calls
        with closing(source.reopen()) as again:
            lanes = read_run(again).lanes.values()
            steps = {step.seq: step for lane in lanes for step in lane}
            return tuple(_told(call, steps.get(call.seq), exchange) for call in calls)

    async with server.intake.readers.turn(tenant):
        return await with_recording(server, tenant, exchange.recording.digest, read)


def _told(call: Call, step: RecordedCall | None, exchange: Exchange) -> CallDetails:
    if step is None:
        return CallDetails(call=call, began=0, ended=0)
    told = CallDetails(
        call=call,
        began=step.began,
        ended=step.ended,
        talk=conversation(step),
        model=step.name if step.kind == "llm" else "",
        served=exchange.replay is not None and step.began < exchange.started_at,
    )
    step.let_go()
    return told


_PARTS: Final = ("method", "url", "status", "headers", "body", "type")


def http_message(item: Any) -> Html:
    """Show a request or a response."""
    if not isinstance(item, dict) or not _first_line(item):
        return value(item)
    headers = _headers(item.get("headers"))
    known = _PARTS if headers is not None else tuple({*_PARTS} - {"headers"})
    rest = {name: part for name, part in item.items() if name not in known}
    return fragment(
        tag("p", tag("code", _first_line(item)), class_="first"),
        pairs(headers) if headers else None,
        _body(item["body"]) if item.get("body") not in (None, "") else None,
        value(rest) if rest else None,
    )


def _first_line(item: dict[str, Any]) -> str:
    url, status = item.get("url"), item.get("status")
    if isinstance(url, str):
        return f"{item.get('method') or ''} {url}".strip()
    return str(status) if isinstance(status, int) else ""


def _headers(found: Any) -> list[tuple[str, str]] | None:
    """Return the headers as pairs, or None if they have a different structure."""
    items = [*found.items()] if isinstance(found, dict) else found or []
    if not isinstance(items, list) or not all(map(_is_pair, items)):
        return None
    return [(str(name), str(text)) for name, text in items]


def _is_pair(one: Any) -> bool:
    return isinstance(one, (list, tuple)) and len(one) == 2


def _body(body: Any) -> Html:
    if isinstance(body, str):
        return block(body)
    if isinstance(body, dict) and [*body] == ["$bytes"]:
        return bytes_preview(str(body["$bytes"]))
    return value(body)
