"""Noise pages: the rules of a route, learning from replays, and hiding a single difference."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.responses import RedirectResponse, Response

from reenact.exchange.comparison.differences import Changed
from reenact.exchange.comparison.result import Comparison
from reenact.exchange.comparison.route_noise import merged, propose
from reenact.format.json_path import format_pointer, parse_pointer
from reenact.policy.noise import NoiseRule
from reenact.server.auth.permissions import ResourceScope
from reenact.server.context import RequestContext
from reenact.server.exchanges.service import get_exchange
from reenact.server.problems import Problem
from reenact.server.replays.compare import (
    Learning,
    ReplayPair,
    RouteRules,
    change_noise,
    learn_noise,
    list_noise_rules,
    replay_pairs,
)
from reenact.server.replays.result import with_rules
from reenact.server.storage.rows import exchange_of
from reenact.server.web.components.diff import PathChange, path_changes
from reenact.server.web.components.formatting import badge, clock, count, folded
from reenact.server.web.components.forms import (
    Form,
    form,
    input_field,
    read_form,
    select_field,
    to_request,
)
from reenact.server.web.components.html import Child, Html, fragment, link, tag, url
from reenact.server.web.components.layout import alert, page
from reenact.server.web.components.tables import table
from reenact.server.web.exchanges.comparison import Beside

__all__ = [
    "do_add_rule",
    "do_learn_rules",
    "do_remove_rule",
    "hide_links",
    "may_change",
    "noise_link",
    "rules_at",
    "said",
    "show_hiding",
    "show_noise",
]

_KINDS: Final = ("ignore", "present", "regex", "tolerance", "unordered")
_WORDS: Final = (
    ("ignore", "any value or no value"),
    ("present", "both have a value"),
    ("regex", "both match the complete pattern"),
    (
        "tolerance",
        "numbers that are near each other: at most absolute apart, or relative times the "
        "larger one",
    ),
    ("unordered", "lists with the same items, in any order"),
)


def rules_at(app: str, route: str) -> str:
    """Return the address of a route's rules."""
    return url("/noise", app=app, route=route)


def may_change(context: RequestContext, app: str) -> bool:
    """Return whether the user is allowed to change the noise rules of ``app``."""
    return context.may("replay:execute", ResourceScope(None, app)).allowed


async def show_noise(context: RequestContext) -> Response:
    """Handle ``GET /noise``: show all routes with rules, or the rules of one ``app`` and ``route``."""
    app, route = context.query("app"), context.query("route")
    return await _rules(context, app, route) if app and route else await _routes(context)


async def _routes(context: RequestContext) -> Response:
    found = await list_noise_rules(context, context.query("app"), context.query("route"))
    rows: list[tuple[Child, ...]] = [
        (
            link(rules_at(one.app, one.route), one.route, class_="route"),
            one.app,
            count(len(one.rules), "rule"),
        )
        for one in found
        if one.rules
    ]
    none = "No route has rules. Hide a difference where a replay is compared with its original."
    return page(
        context,
        "Noise",
        tag(
            "p",
            "Values that differ in every run, such as ids and times, and are ignored in comparisons.",
        ),
        table(("Route", "App", "Rules"), rows, none=none, caption="Routes with noise rules"),
        here="/replays",
    )


async def _rules(
    context: RequestContext, app: str, route: str, problem: Problem | None = None
) -> Response:
    found = await list_noise_rules(context, app, route)
    known = found[0] if found else RouteRules(app, route, [])
    may = may_change(context, app)
    heads = ("Where", "What may differ", "Note", "")
    rows = [_row(context, known, number, one, may) for number, one in enumerate(known.rules)]
    return page(
        context,
        "Noise rules",
        tag("p", link("/noise", "Noise"), " of ", tag("b", route), f" in {app}"),
        alert(problem) if problem is not None else None,
        table(heads, rows, none="There are none.", caption=f"Noise rules of {route}"),
        _learn(context, app, route, await replay_pairs(context, app, route)) if may else None,
        _add(context, app, route) if may else None,
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
    context: RequestContext, known: RouteRules, number: int, one: dict[str, Any], may: bool
) -> tuple[Child, ...]:
    remove = form(
        context,
        "/noise/remove",
        *_named(known.app, known.route),
        tag("input", type="hidden", name="rule", value=msgspec.json.encode(one).decode()),
        button="Remove",
        class_="inline",
    )
    return (tag("code", one["path"]), said(one), one.get("note", ""), remove if may else "")


def said(one: dict[str, Any]) -> Html:
    """Describe a rule in words."""
    more = [one["pattern"]] if one.get("pattern") else []
    more += [f"{name} {one[name]:g}" for name in ("absolute", "relative") if one.get(name)]
    return fragment(one.get("kind", "ignore"), " ", tag("code", ", ".join(more)) if more else None)


def _named(app: str, route: str) -> tuple[Html, Html]:
    return (
        tag("input", type="hidden", name="app", value=app),
        tag("input", type="hidden", name="route", value=route),
    )


def _learn(context: RequestContext, app: str, route: str, pairs: list[ReplayPair]) -> Html:
    words = "Differences between two replays without edits are noise."
    none = "Replay an exchange of this route twice without edits first."
    choices = [
        tag(
            "option",
            f"{clock(one.first_at)} and {clock(one.second_at)} UTC, of {one.exchange_id}",
            value=f"{one.first} {one.second}",
        )
        for one in pairs
    ]
    chosen = tag("label", tag("span", "Two replays"), tag("select", *choices, name="replays"))
    learn = form(context, "/noise/learn", *_named(app, route), chosen, button="Learn from them")
    return tag(
        "section",
        tag("h2", "Learn"),
        tag("p", words),
        learn if pairs else tag("p", none, class_="dim"),
    )


def _add(context: RequestContext, app: str, route: str) -> Html:
    kinds = tag("dl", *(fragment(tag("dt", name), tag("dd", words)) for name, words in _WORDS))
    return tag(
        "section",
        tag("h2", "Write one"),
        form(
            context,
            "/noise",
            *_named(app, route),
            input_field("Path, such as /result/body/id", "path", required=True, wide=True),
            select_field("What may differ", "kind", _KINDS),
            input_field("Pattern (regex)", "pattern"),
            input_field("Absolute (tolerance)", "absolute"),
            input_field("Relative (tolerance)", "relative"),
            input_field("Note", "note"),
            button="Add it",
        ),
        folded(
            "Kinds of rules",
            kinds,
            tag(
                "p",
                "Places begin with /result, /processors/NAME, /calls/OPERATION or /start; * stands "
                "for one step, ** for any number of them.",
            ),
        ),
    )


async def do_add_rule(context: RequestContext) -> Response:
    """Handle ``POST /noise``: add a rule and redirect to ``back`` or the rules.

    If it is refused, show the reason.
    """
    sent = await read_form(context)
    return await _changed(context, sent, lambda old: merged(old, (_rule(sent),)))


async def do_remove_rule(context: RequestContext) -> Response:
    """Handle ``POST /noise/remove``: delete a rule, if it still exists, and redirect to the rules."""
    sent = await read_form(context)
    try:
        gone = msgspec.json.decode(sent.one("rule"), type=NoiseRule)
    except msgspec.DecodeError:
        raise Problem("invalid", "not a noise rule", field="rule") from None
    return await _changed(context, sent, lambda old: tuple(one for one in old if one != gone))


async def do_learn_rules(context: RequestContext) -> Response:
    """Handle ``POST /noise/learn``: learn rules from two replays."""
    sent = await read_form(context)
    try:
        wanted = to_request({"replays": sent.one("replays").split()}, Learning)
        await learn_noise(context, wanted)
    except Problem as problem:
        if problem.status in (403, 404):
            raise
        return await _rules(context, sent.one("app"), sent.one("route"), problem)
    return RedirectResponse(rules_at(sent.one("app"), sent.one("route")), 303)


async def _changed(context: RequestContext, sent: Form, change: Any) -> Response:
    app, route = sent.one("app"), sent.one("route")
    try:
        await change_noise(context, app, route, change)
    except Problem as problem:
        if problem.status == 403:
            raise
        return await _rules(context, app, route, problem)
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
        raise Problem("invalid", f"not a noise rule: {error}") from None


_NOTE = "hidden by hand"


def noise_link(app: str, route: str) -> Html:
    """Return a link to the rules of a route."""
    return tag("p", link(rules_at(app, route), "Noise rules of this route"), class_="ways")


def hide_links(context: RequestContext, app: str, one: str, other: str, replay: str = "") -> Beside:
    """Return a renderer of links that hide a difference, for users with permission."""
    if not may_change(context, app):
        return lambda root, gap: None

    def way(root: tuple[str, ...], gap: PathChange | None) -> Html:
        place = format_pointer((*root, *(parse_pointer(gap.path) if gap is not None else ())))
        there = url("/noise/hide", a=one, b=other, path=place, replay=replay)
        return link(there, "hide …", class_="hide", aria_label=f"hide {place} from now on")

    return way


async def show_hiding(context: RequestContext) -> Response:
    """Handle ``GET /noise/hide``: show the rules that would hide the difference at ``path`` between
    ``a`` and ``b``, with the effect of each."""
    one, other = [await get_exchange(context, context.query(name)) for name in ("a", "b")]
    before, after = exchange_of(one), exchange_of(other)
    async with context.server.intake.readers.turn(context.tenant):
        [now] = await with_rules(context.server, context.tenant, one.app, before, after, [()])
    root, change = _found(now, context.query("path"))
    rules = propose(root, change) if change is not None else (NoiseRule(format_pointer(root)),)
    noted = [msgspec.structs.replace(rule, note=_NOTE) for rule in rules]
    async with context.server.intake.readers.turn(context.tenant):
        then = await with_rules(
            context.server, context.tenant, one.app, before, after, [(rule,) for rule in noted]
        )
    return page(
        context,
        "Hide a difference",
        tag("p", _back(context), " of ", tag("b", one.route_id), f" in {one.app}"),
        path_changes([change])
        if change is not None
        else tag("p", tag("code", context.query("path"))),
        tag("p", "It is now ", badge(now.verdict), f", {_left(now)}."),
        *(
            _choice(context, one.app, one.route_id, rule, found, now)
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


def _back(context: RequestContext) -> Html:
    """Return a link to the page that showed the difference."""
    pair = url("/exchanges/{}/compare/{}", context.query("a"), context.query("b"))
    replay = context.query("replay")
    return link(url("/replays/{}", replay) if replay else pair, "Comparison")


def _choice(
    context: RequestContext,
    app: str,
    route: str,
    rule: NoiseRule,
    then: Comparison,
    now: Comparison,
) -> Html:
    hidden = _count(now) - _count(then)
    fields = {
        "app": app,
        "route": route,
        **{name: context.query(name) for name in ("a", "b", "replay")},
        **{name: str(value) for name, value in msgspec.to_builtins(rule).items()},
        "kind": rule.kind,
    }
    return tag(
        "section",
        tag("h2", said(msgspec.to_builtins(rule))),
        tag("p", tag("code", rule.path)),
        tag("p", "It would be ", badge(then.verdict), f": {hidden} hidden, {_left(then)}."),
        form(
            context,
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
    """Return the tokens of ``path`` and its difference, or None for a complete processor or call.

    Raises :class:`Problem` if nothing differs at ``path``.
    """
    for root, change in now.differences():
        place = (*root, *parse_pointer(change.path)) if change is not None else root
        if format_pointer(place) == path:
            return root, change
    raise Problem(
        "not_found", "nothing differs there any more", hint="it is possibly hidden already"
    )
