"""The noise rules of a route: what does not count when two exchanges are compared."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.responses import RedirectResponse, Response

from reenact.exchange.comparison.rules import NoiseRule, merged
from reenact.server.access import Place
from reenact.server.asking import Ask
from reenact.server.exchanges.comparing import RouteRules, change_noise, learn_noise, read_noise
from reenact.server.pages.acting import form, labelled, options
from reenact.server.pages.forms import Filled, Form, read_form
from reenact.server.pages.lists import table
from reenact.server.pages.markup import Child, Html, fragment, link, tag, url
from reenact.server.pages.noise_pairs import Pair, pairs_of
from reenact.server.pages.saying import clock, count
from reenact.server.pages.shell import alert, page
from reenact.server.pages.values import folded
from reenact.server.problems import Problem

__all__ = [
    "do_add_rule",
    "do_learn_rules",
    "do_remove_rule",
    "may_change",
    "rules_at",
    "said",
    "show_noise",
]

_KINDS: Final = ("ignore", "present", "regex", "tolerance", "unordered")
_WORDS: Final = (
    ("ignore", "whatever stands there, or does not"),
    ("present", "both have something there"),
    ("regex", "both match the pattern as a whole"),
    (
        "tolerance",
        "numbers that are near each other: at most absolute apart, or relative times the "
        "larger one",
    ),
    ("unordered", "lists with the same items, in any order"),
)


def rules_at(app: str, route: str) -> str:
    """The page of a route's rules."""
    return url("/noise", app=app, route=route)


def may_change(ask: Ask, app: str) -> bool:
    """May the one who asks change the rules of ``app``?"""
    return ask.may("replay:execute", Place(None, app)).allowed


async def show_noise(ask: Ask) -> Response:
    """``GET /noise``: all routes that have rules; with ``app`` and ``route`` those of one."""
    app, route = ask.query("app"), ask.query("route")
    return await _rules(ask, app, route) if app and route else await _routes(ask)


async def _routes(ask: Ask) -> Response:
    found = await read_noise(ask)
    rows: list[tuple[Child, ...]] = [
        (
            link(rules_at(one.app, one.route), one.route, class_="route"),
            one.app,
            count(len(one.rules), "rule"),
        )
        for one in found.items
        if one.rules
    ]
    none = "No route has rules. Hide a difference where a replay is compared with its original."
    return page(
        ask,
        "Noise",
        tag("p", "What differs in every run, such as ids and times, and does not count."),
        table(("Route", "App", "Rules"), rows, none=none, caption="Routes with noise rules"),
        here="/replays",
    )


async def _rules(ask: Ask, app: str, route: str, problem: Problem | None = None) -> Response:
    found = await read_noise(Filled(ask, query={"app": app, "route": route}))
    known = found.items[0] if found.items else RouteRules(app, route, [])
    may = may_change(ask, app)
    heads = ("Where", "What may differ", "Note", "")
    rows = [_row(ask, known, number, one, may) for number, one in enumerate(known.rules)]
    return page(
        ask,
        "Noise rules",
        tag("p", link("/noise", "Noise"), " of ", tag("b", route), f" in {app}"),
        alert(problem) if problem is not None else None,
        table(heads, rows, none="There are none.", caption=f"Noise rules of {route}"),
        _learn(ask, app, route, await pairs_of(ask, app, route)) if may else None,
        _add(ask, app, route) if may else None,
        tag(
            "p",
            "Verdicts that were given stay; what is compared from now on is compared by these "
            "rules, also on pages.",
            class_="dim",
        ),
        here="/replays",
        status=200 if problem is None else problem.status,
    )


def _row(
    ask: Ask, known: RouteRules, number: int, one: dict[str, Any], may: bool
) -> tuple[Child, ...]:
    remove = form(
        ask,
        "/noise/remove",
        *_named(known.app, known.route),
        tag("input", type="hidden", name="rule", value=msgspec.json.encode(one).decode()),
        button="Remove",
        class_="inline",
    )
    return (tag("code", one["path"]), said(one), one.get("note", ""), remove if may else "")


def said(one: dict[str, Any]) -> Html:
    """A rule in words."""
    more = [one["pattern"]] if one.get("pattern") else []
    more += [f"{name} {one[name]:g}" for name in ("absolute", "relative") if one.get(name)]
    return fragment(one.get("kind", "ignore"), " ", tag("code", ", ".join(more)) if more else None)


def _named(app: str, route: str) -> tuple[Html, Html]:
    return (
        tag("input", type="hidden", name="app", value=app),
        tag("input", type="hidden", name="route", value=route),
    )


def _learn(ask: Ask, app: str, route: str, pairs: list[Pair]) -> Html:
    words = "What differs between two replays in which nothing was changed is noise."
    none = "There are no two completed replays of one exchange of this route without an edit."
    choices = [
        tag(
            "option",
            f"{clock(one.first_at)} and {clock(one.second_at)} UTC, of {one.exchange_id}",
            value=f"{one.first} {one.second}",
        )
        for one in pairs
    ]
    chosen = tag("label", tag("span", "Two replays"), tag("select", *choices, name="replays"))
    learn = form(ask, "/noise/learn", *_named(app, route), chosen, button="Learn from them")
    return tag(
        "section",
        tag("h2", "Learn"),
        tag("p", words),
        learn if pairs else tag("p", none, class_="dim"),
    )


def _add(ask: Ask, app: str, route: str) -> Html:
    kinds = tag("dl", *(fragment(tag("dt", name), tag("dd", words)) for name, words in _WORDS))
    return tag(
        "section",
        tag("h2", "Write one"),
        form(
            ask,
            "/noise",
            *_named(app, route),
            labelled("Where, such as /result/body/id", "path", required=True, wide=True),
            options("What may differ", "kind", _KINDS),
            labelled("Pattern (regex)", "pattern"),
            labelled("Absolute (tolerance)", "absolute"),
            labelled("Relative (tolerance)", "relative"),
            labelled("Note", "note"),
            button="Add it",
        ),
        folded(
            "What the kinds mean",
            kinds,
            tag(
                "p",
                "Places begin with /result, /processors/NAME, /calls/OPERATION or /start; * stands "
                "for one step, ** for any number of them.",
            ),
        ),
    )


async def do_add_rule(ask: Ask) -> Response:
    """``POST /noise``: adds a rule, and leads to ``back`` or the rules; else the rules, and why not."""
    sent = await read_form(ask)
    return await _changed(ask, sent, lambda old: merged(old, (_rule(sent),)))


async def do_remove_rule(ask: Ask) -> Response:
    """``POST /noise/remove``: and back to the rules. One that is gone already is gone."""
    sent = await read_form(ask)
    try:
        gone = msgspec.json.decode(sent.one("rule"), type=NoiseRule)
    except msgspec.DecodeError:
        raise Problem("invalid", "this is no rule", field="rule") from None
    return await _changed(ask, sent, lambda old: tuple(one for one in old if one != gone))


async def do_learn_rules(ask: Ask) -> Response:
    """``POST /noise/learn``: what the API learns from two replays."""
    sent = await read_form(ask)
    try:
        await learn_noise(Filled(ask, {"replays": sent.one("replays").split()}))
    except Problem as problem:
        if problem.status in (403, 404):
            raise
        return await _rules(ask, sent.one("app"), sent.one("route"), problem)
    return RedirectResponse(rules_at(sent.one("app"), sent.one("route")), 303)


async def _changed(ask: Ask, sent: Form, change: Any) -> Response:
    app, route = sent.one("app"), sent.one("route")
    try:
        await change_noise(ask, app, route, change)
    except Problem as problem:
        if problem.status == 403:
            raise
        return await _rules(ask, app, route, problem)
    one, other = sent.one("a"), sent.one("b")
    there = url("/exchanges/{}/compare/{}", one, other) if one and other else rules_at(app, route)
    replay = sent.one("replay")
    return RedirectResponse(url("/replays/{}", replay) if replay else there, 303)


def _rule(sent: Form) -> NoiseRule:
    try:
        sizes = {name: float(sent.one(name) or 0) for name in ("absolute", "relative")}
        words = {name: sent.one(name) for name in ("path", "kind", "pattern", "note")}
        return msgspec.convert({**words, **sizes}, NoiseRule)
    except (ValueError, msgspec.ValidationError) as error:
        raise Problem("invalid", f"this is no rule: {error}") from None
