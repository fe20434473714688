"""Hiding a difference from now on: what would do it, and what it would do to the comparison at hand."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from starlette.responses import Response

from reenact.exchange.comparison.changes import Changed
from reenact.exchange.comparison.learning import propose
from reenact.exchange.comparison.result import Comparison
from reenact.exchange.comparison.rules import NoiseRule
from reenact.exchange.pointer import parse_pointer, spell_pointer
from reenact.server.asking import Ask
from reenact.server.exchanges.completing import with_rules
from reenact.server.exchanges.documents import exchange_of
from reenact.server.exchanges.history import get_exchange
from reenact.server.pages.acting import form
from reenact.server.pages.comparison import Beside
from reenact.server.pages.gaps import Gap, changes
from reenact.server.pages.markup import Html, link, tag, url
from reenact.server.pages.noise import may_change, rules_at, said
from reenact.server.pages.saying import badge
from reenact.server.pages.shell import page
from reenact.server.problems import Problem

__all__ = ["hiding", "noise_way", "show_hiding"]

_NOTE = "hidden by hand"


def noise_way(app: str, route: str) -> Html:
    """To the rules of a route."""
    return tag("p", link(rules_at(app, route), "Noise rules of this route"), class_="ways")


def hiding(ask: Ask, app: str, one: str, other: str, replay: str = "") -> Beside:
    """Links beside the differences of two exchanges, for those who may hide them."""
    if not may_change(ask, app):
        return lambda root, gap: None

    def way(root: tuple[str, ...], gap: Gap | None) -> Html:
        place = spell_pointer((*root, *(parse_pointer(gap.path) if gap is not None else ())))
        there = url("/noise/hide", a=one, b=other, path=place, replay=replay)
        return link(there, "hide …", class_="hide", aria_label=f"hide {place} from now on")

    return way


async def show_hiding(ask: Ask) -> Response:
    """``GET /noise/hide``: the rules that would hide the difference at ``path`` between ``a`` and
    ``b``, each with what it would do."""
    one, other = [await get_exchange(ask, ask.query(name)) for name in ("a", "b")]
    before, after = exchange_of(one), exchange_of(other)
    async with ask.server.intake.readers.turn(ask.tenant):
        [now] = await with_rules(ask.server, ask.tenant, one.app, before, after, [()])
    root, change = _found(now, ask.query("path"))
    rules = propose(root, change) if change is not None else (NoiseRule(spell_pointer(root)),)
    noted = [msgspec.structs.replace(rule, note=_NOTE) for rule in rules]
    async with ask.server.intake.readers.turn(ask.tenant):
        then = await with_rules(
            ask.server, ask.tenant, one.app, before, after, [(rule,) for rule in noted]
        )
    return page(
        ask,
        "Hide a difference",
        tag("p", _back(ask), " of ", tag("b", one.route_id), f" in {one.app}"),
        changes([change]) if change is not None else tag("p", tag("code", ask.query("path"))),
        tag("p", "It is now ", badge(now.verdict), f", {_left(now)}."),
        *(
            _choice(ask, one.app, one.route_id, rule, found, now)
            for rule, found in zip(noted, then, strict=True)
        ),
        tag(
            "p",
            "A rule holds for every comparison of this route, wherever the app runs. ",
            link(rules_at(one.app, one.route_id), "All rules of the route"),
            class_="dim",
        ),
        here="/replays",
    )


def _back(ask: Ask) -> Html:
    """To where the difference was seen."""
    pair = url("/exchanges/{}/compare/{}", ask.query("a"), ask.query("b"))
    replay = ask.query("replay")
    return link(url("/replays/{}", replay) if replay else pair, "Comparison")


def _choice(
    ask: Ask, app: str, route: str, rule: NoiseRule, then: Comparison, now: Comparison
) -> Html:
    hidden = _count(now) - _count(then)
    fields = {
        "app": app,
        "route": route,
        **{name: ask.query(name) for name in ("a", "b", "replay")},
        **{name: str(value) for name, value in msgspec.to_builtins(rule).items()},
        "kind": rule.kind,
    }
    return tag(
        "section",
        tag("h2", said(msgspec.to_builtins(rule))),
        tag("p", tag("code", rule.path)),
        tag("p", "It would be ", badge(then.verdict), f": {hidden} hidden, {_left(then)}."),
        form(
            ask,
            "/noise",
            *(tag("input", type="hidden", name=name, value=text) for name, text in fields.items()),
            button="Hide it from now on",
        ),
    )


def _count(found: Comparison) -> int:
    counts = found.counts
    return counts.changed + counts.added + counts.removed


def _left(found: Comparison) -> str:
    number = _count(found)
    return f"{number:,} {'difference counts' if number == 1 else 'differences count'}"


def _found(now: Comparison, path: str) -> tuple[tuple[str, ...], Changed | None]:
    """Where ``path`` is, and what differs there; all of a processor or a call without that. Raises
    :class:`Problem` when nothing differs there any more."""
    for root, change in _differences(now):
        place = (*root, *parse_pointer(change.path)) if change is not None else root
        if spell_pointer(place) == path:
            return root, change
    raise Problem("not_found", "nothing differs there any more", hint="it may be hidden already")


def _differences(now: Comparison) -> Iterator[tuple[tuple[str, ...], Changed | None]]:
    yield from ((("result",), one) for one in now.result if not one.noise)
    for processor in now.processors:
        root = ("processors", processor.processor_id)
        yield from ((root, one) for one in processor.changes if not one.noise)
        if processor.state in ("added", "removed") and not processor.noise:
            yield root, None
    for call in now.calls:
        root = ("calls", call.operation)
        yield from ((root, one) for one in call.changes if not one.noise)
        if call.state in ("added", "removed") and not call.noise:
            yield root, None
