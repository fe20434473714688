"""One exchange: what came in, what happened to it step by step, and what came out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from starlette.responses import Response

from reenact.server.asking import Ask
from reenact.server.exchanges.history import read_exchange
from reenact.server.exchanges.replays import read_replays
from reenact.server.exchanges.shapes import ExchangeView, ReplayView
from reenact.server.pages.acting import may_replay
from reenact.server.pages.agent_names import agent_named
from reenact.server.pages.calls import spoken
from reenact.server.pages.conversation import conversation
from reenact.server.pages.documents import Passage, passages
from reenact.server.pages.forms import Filled
from reenact.server.pages.gaps import changes
from reenact.server.pages.kinds import kinds_of
from reenact.server.pages.lines import side_by_side
from reenact.server.pages.lists import table
from reenact.server.pages.markup import Child, Html, breakable, fragment, link, tag, url
from reenact.server.pages.saying import badge, count, duration, environment, revision, stamp, whole
from reenact.server.pages.shell import page
from reenact.server.pages.timeline import Entry, bar, entries
from reenact.server.pages.told import Told, tell
from reenact.server.pages.values import facts, folded, payload, value, wrong

__all__ = ["show_exchange"]

_MOST: Final = 1_000
_EXCHANGE: Final = re.compile(r"\b(ex_[0-9a-f]{32})\b")


async def show_exchange(ask: Ask) -> Response:
    """``GET /exchanges/{id}``: one that the asker may read, with its timeline and replays."""
    found = await read_exchange(ask)
    told = await tell(ask.server, ask.tenant, found)
    kind = (await kinds_of(ask)).get(found.environment, "production")
    talks = [one for one in told if one.talk]
    replays = await read_replays(Filled(ask, query={"exchange": found.exchange_id}))
    return page(
        ask,
        found.route_id,
        _about(found, await agent_named(ask, found.agent_id, found.app)),
        _not_replayable(found.not_replayable) if found.not_replayable else None,
        wrong(found.error),
        _section("What happened", _timeline(found, told)),
        _section("Conversation", *map(conversation, talks)) if talks else None,
        tag(
            "div",
            _section("What came in", payload(found.start, found.redacted)),
            _section("What came out", _came_out(found)),
            class_="inout",
        ),
        _section("Replays", _replays(replays.items)) if found.replays else None,
        here="/exchanges",
        heading=fragment(
            environment(found.environment, kind), badge(found.status), _actions(ask, found)
        ),
    )


def _not_replayable(why: str) -> Html:
    """With a way to the exchange that it is a part of."""
    parts = _EXCHANGE.split(why)
    said = (link(url("/exchanges/{}", one), one) if at % 2 else one for at, one in enumerate(parts))
    return tag("p", badge("not replayable", tone="warn"), " ", *said)


def _section(title: str, *inside: Child) -> Html:
    return tag("section", tag("h2", title), *inside)


def _actions(ask: Ask, found: ExchangeView) -> Html:
    exchange_id = found.exchange_id
    edit = link(url("/exchanges/{}/replay", exchange_id), "Edit and replay", class_="button main")
    return tag(
        "div",
        edit if may_replay(ask) and not found.not_replayable else None,
        link(url("/exchanges/{}/related", exchange_id), "Related", class_="button"),
        link(url("/exchanges/{}/view", exchange_id), "Recording", class_="button")
        if found.recording
        else None,
        class_="actions",
    )


def _about(found: ExchangeView, agent: Child) -> Html:
    trace, replay = found.trace, found.replay
    related = found.correlation_id
    return facts(
        (
            ("Started (UTC)", stamp(found.started_at)),
            ("Duration", duration(found.duration)),
            ("HTTP status", _http_status(found)),
            ("App", link(url("/exchanges", app=found.app), found.app)),
            ("Route", link(_of_route(found), "all of this route")),
            ("Agent", agent),
            ("Version", found.code_version),
            ("Revision", revision(found.revision)),
            ("Exchange", _id(found.exchange_id)),
            (
                "Correlation",
                link(url("/exchanges", correlationId=related), related) if related else None,
            ),
            (
                "Trace",
                link(url("/exchanges", traceId=trace.trace_id), trace.trace_id[:16])
                if trace
                else None,
            ),
            (
                "Replay of",
                fragment(
                    link(url("/exchanges/{}", replay.source_exchange_id), "the original"),
                    " · ",
                    link(url("/replays/{}", replay.replay_id), "side by side"),
                )
                if replay
                else None,
            ),
        )
    )


def _http_status(found: ExchangeView) -> str:
    status = found.result.properties.get("http.status") if found.result is not None else None
    return str(status) if isinstance(status, int) else ""


def _of_route(found: ExchangeView) -> str:
    return url("/exchanges", app=found.app, route=found.route_id)


def _id(exchange_id: str) -> Html:
    """With the way to all that is known of it."""
    way = link(
        url("/api/v1/exchanges/{}", exchange_id), "JSON", title="all of it, as the API has it"
    )
    return fragment(tag("code", exchange_id), " ", way)


def _came_out(found: ExchangeView) -> Html:
    if found.result is not None:
        return payload(found.result)
    why = "Nothing: it failed before there was an answer." if found.error else "Nothing."
    return tag("p", why, class_="dim")


def _timeline(found: ExchangeView, told: Sequence[Told]) -> Html:
    rows = [*entries(found, told)]
    if not rows:
        return tag("p", "It has no steps, and made no calls.", class_="dim")
    documents = passages(found)
    more = len(rows) - _MOST
    return fragment(
        tag("p", _counted(found, told), class_="dim"),
        tag("div", *(_row(one, found, documents) for one in rows[:_MOST]), class_="timeline"),
        tag("p", f"and {count(more, 'row')} more", class_="dim") if more > 0 else None,
    )


def _counted(found: ExchangeView, told: Sequence[Told]) -> str:
    counts = ((len(found.processors), "step"), (len(told), "outbound call"))
    return ", ".join(count(number, noun) for number, noun in counts if number)


def _row(entry: Entry, found: ExchangeView, documents: dict[int, Passage]) -> Html:
    if entry.processor is not None:
        one = entry.processor
        name = fragment(tag("b", one.processor_id), " ", tag("span", _kind(one), class_="dim"))
        state = badge(one.status) if one.status != "completed" else None
        inside, tone = [*_step(entry, documents)], str(one.status)
    else:
        assert entry.told is not None  # a row is one or the other
        call = entry.told.call
        name = fragment(
            tag("span", call.type, class_="dim"), " ", tag("b", breakable(call.operation))
        )
        state = _state(entry.told)
        inside, tone = [*_call(entry.told)], f"call {_known(call.type)}"
    head = fragment(
        tag("span", name, " ", state, class_="name"),
        bar(entry, found.duration, tone),
        tag("span", _length(entry), class_="number"),
    )
    return folded(head, *inside, class_=f"row depth-{entry.depth}")


def _state(told: Told) -> Html | None:
    call = told.call
    if call.refused is True:
        return badge("refused")
    if call.error:
        return badge("failed")
    return badge("asked otherwise", tone="warn") if call.asked is not msgspec.UNSET else None


def _length(entry: Entry) -> str:
    """Calls are timed in whole milliseconds, processors more closely."""
    if entry.told is not None and entry.told.served:
        return "recorded"
    if entry.processor is None and entry.length < 1:
        return "< 1 ms" if entry.start is not None else ""
    return duration(entry.length)


def _known(kind: str) -> str:
    return kind if kind in ("llm", "tool", "network", "process", "mcp") else "other"


def _kind(one: Any) -> str:
    said = [] if one.kind == "step" else [one.kind]
    if one.iteration is not None:
        said.append(f"round {one.iteration + 1}")
    if one.branch:
        said.append(f"→ {one.branch}")
    return " ".join(said)


def _label(words: str) -> Html:
    return tag("h3", words, class_="label")


def _step(entry: Entry, documents: dict[int, Passage]) -> Iterator[Child]:
    one = entry.processor
    if one is None:
        return
    yield wrong(one.error)
    if one.changes:
        yield _label(f"Changed {count(len(one.changes), 'place')}")
        yield changes(one.changes)
    if one.seq in documents:
        passage = documents[one.seq]
        both = side_by_side(passage.before, passage.after, caption="Payload before and after")
        yield folded("Payload before and after", both)
    for name, item in (("Given", one.input), ("Gave", one.output)):
        if item is not msgspec.UNSET:
            yield _label(name)
            yield value(item)
    if not one.changes and one.input is msgspec.UNSET and one.output is msgspec.UNSET:
        yield tag("p", "It changed nothing.", class_="dim")


def _call(told: Told) -> Iterator[Child]:
    call = told.call
    otherwise = call.asked is not msgspec.UNSET
    if call.refused is True:
        yield tag("p", "It is not in the recording, and got no answer.", class_="wrong")
    elif told.served:
        yield tag("p", _from_recording(told), class_="dim")
    if otherwise:
        yield _label("Asked in this replay")
        yield spoken(call.asked)
    request = "Recorded request that was answered" if otherwise else "Request"
    for name, item in ((request, call.request), ("Answer", call.response), ("Error", call.error)):
        if item is not None:
            yield _label(name)
            yield spoken(item)


def _from_recording(told: Told) -> str:
    by = told.call.answered_by
    which = f", of event {by}" if by is not msgspec.UNSET else ""
    took = duration(told.ended - told.began)
    return f"It was served from the recording{which}; there it took {took}."


def _replays(replays: Sequence[ReplayView]) -> Html:
    heads = ("Requested (UTC)", "State", "Verdict", "By", "Reason")
    rows = (
        (
            link(url("/replays/{}", one.replay_id), stamp(one.requested_at), class_="route"),
            badge(one.state),
            badge(one.verdict) if one.verdict else "",
            whole(one.requested_by),
            one.reason,
        )
        for one in replays
    )
    return table(heads, rows, none="", caption="Replays of this exchange", brief=True)
