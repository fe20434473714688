"""Outbound calls of an exchange, read from its recording, and conversations with models as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import msgspec

from reenact.exchange.comparison.calls import Call, as_asked, read_calls
from reenact.exchange.model import Exchange
from reenact.server.exchanges.service import check_calls, with_recording
from reenact.server.runtime import Server
from reenact.server.web.components.formatting import (
    LONGEST,
    block,
    bytes_preview,
    count,
    folded,
    pairs,
    pretty,
    value,
)
from reenact.server.web.components.html import Child, Html, breakable, fragment, tag
from reenact.store.source import SeekableSource
from reenact.views.content import conversation
from reenact.views.recorded_calls import RecordedCall, read_run

__all__ = [
    "CallDetails",
    "call_target",
    "conversations",
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


Said = dict[str, Any]
_SIZE: Final = 4 << 20
Shown = dict[tuple[int, str], int]
"""A tree of messages: from the number of one, and what follows it, to the number of that."""
_SHORT: Final = 200


def conversations(found: Sequence[CallDetails]) -> list[Html]:
    """Return model calls as messages, up to about 4 MiB of HTML.

    Messages that an earlier call already showed are collapsed, because an agent sends the complete
    conversation each time.
    """
    shown: Shown = {}
    articles: list[Html] = []
    left = _SIZE
    for told in found:
        if left <= 0:
            calls = count(len(found) - len(articles), "more model call")
            said = f"The messages of {calls} are too long for this page. The rows above have them."
            articles.append(tag("p", said, class_="dim"))
            break
        articles.append(_article(told, told.talk or [], _known(shown, told.talk or []), left))
        left -= len(articles[-1])
    return articles


def _article(told: CallDetails, said: Sequence[Said], known: int, left: int) -> Html:
    before = count(known, "message")
    new, left = _messages(said[known:], left)
    old, left = _messages(said[:known], left)
    return tag(
        "article",
        tag("h3", call_target(told)),
        folded(f"{before} as above", *old) if known else None,
        *new,
        class_="talk",
    )


def _messages(said: Sequence[Said], left: int) -> tuple[list[Html], int]:
    """Return the messages that fit into ``left`` characters, and the rest of these."""
    shown: list[Html] = []
    for one in said:
        if left <= 0:
            more = count(len(said) - len(shown), "more message")
            shown.append(tag("p", f"{more}, too long for this page", class_="dim"))
            break
        shown.append(_message(one))
        left -= len(shown[-1])
    return shown, left


def _known(shown: Shown, said: Sequence[Said]) -> int:
    """Count the leading messages that the page already shows, and add all messages to ``shown``.

    The last message is the response and never counts.
    """
    known = at = 0
    for number, one in enumerate(said):
        step = at, _content(one)
        if step in shown and known == number < len(said) - 1:
            known += 1
        at = shown.setdefault(step, len(shown) + 1)
    return known


def _content(said: Said) -> str:
    """Return a key of the message content, without its cost.

    A response equals the assistant message that repeats it.
    """
    role = "assistant" if said.get("role") == "answer" else said.get("role")
    kept = ("text", "calls", "results", "attached", "refusal")
    return pretty([role, {name: said[name] for name in kept if said.get(name)}])


def call_target(told: CallDetails) -> Html:
    """Render the target of a call: its model and operation."""
    operation = breakable(told.call.operation)
    if not told.model or told.model == told.call.operation:
        return tag("b", operation)
    return fragment(tag("b", breakable(told.model)), " ", tag("span", operation, class_="dim"))


def _message(said: Said) -> Html:
    role = str(said.get("role", ""))
    known = role if role in ("user", "assistant", "system", "tool", "answer") else "other"
    return tag("div", tag("p", role, class_="role"), *_parts(said), class_=f"said {known}")


def _parts(said: Said) -> Iterator[Child]:
    if said.get("reasoning"):
        yield folded("Reasoning", block(str(said["reasoning"])))
    if said.get("text"):
        text = str(said["text"])
        yield tag("div", text, class_="text") if len(text) <= LONGEST else block(text)
    for name, arguments in said.get("calls", ()):
        yield tag("div", tag("b", f"calls {name}"), " ", value(arguments))
    for name, result in said.get("results", ()):
        yield tag("div", tag("b", f"{name or 'a tool'} gave"), " ", _given(result))
    for one in said.get("attached", ()):
        yield tag("div", value(one))
    for name in ("refusal", "error", "stopped", "usage"):
        if said.get(name):
            yield tag("div", f"{name}: ", _plainly(said[name]), class_="dim")


def _given(result: Any) -> Html:
    """Show a text unchanged, because it is often JSON and would be escaped twice."""
    if not isinstance(result, str):
        return value(result)
    return tag("code", result, class_="value") if len(result) <= _SHORT else block(result)


def _plainly(item: Any) -> Child:
    """Return words and counts without the syntax of JSON."""
    if isinstance(item, str):
        return item
    if isinstance(item, dict) and all(type(number) is int for number in item.values()):
        return ", ".join(f"{number:,} {name}" for name, number in item.items())
    return value(item)
