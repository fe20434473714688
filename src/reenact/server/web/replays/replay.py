"""Replay page: progress, reasons for failure, and comparison with the original."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from sqlalchemy import Row
from starlette.responses import RedirectResponse, Response

from reenact.exchange.model import TERMINAL
from reenact.server.auth.permissions import (
    Permission,
    ResourceScope,
    replay_permission,
)
from reenact.server.context import RequestContext
from reenact.server.exchanges.schema import ReplayView
from reenact.server.exchanges.service import get_exchange
from reenact.server.replays.compare import compare_exchanges, compare_replay
from reenact.server.replays.service import cancel_replay, read_replay
from reenact.server.storage.rows import exchange_of
from reenact.server.tenants.service import environment_kinds
from reenact.server.web.admin.agents import agent_link
from reenact.server.web.components.formatting import (
    block,
    duration,
    environment,
    facts,
    folded,
    judged,
    pretty,
    replay_state,
    stamp,
)
from reenact.server.web.components.forms import (
    already_sent_notice,
    can_replay,
    denial,
    form,
    missing_permissions,
)
from reenact.server.web.components.html import Child, Html, fragment, link, tag, url
from reenact.server.web.components.layout import page
from reenact.server.web.components.tables import list_part
from reenact.server.web.exchanges.comparison import PARTS, comparison
from reenact.server.web.exchanges.noise import hide_links, noise_link
from reenact.server.web.replays.plan import drivers_of, files_of

__all__ = [
    "WAYS_OUT",
    "do_cancel",
    "failure_notice",
    "show_comparison",
    "show_replay",
]

_WAY: Final = (
    ("requested", "Requested", "requested_at"),
    ("delivered", "Delivered", "delivered_at"),
    ("running", "Running", "started_at"),
)

_SAME: Final = "This is the resulting replay. No second replay was started."


async def show_replay(context: RequestContext) -> Response:
    """Handle ``GET /replays/{id}``: show the progress, or the original and the replay at the end."""
    found = await read_replay(context, context.path("id"))
    kind = (await environment_kinds(context)).get(found.environment, "production")
    over = found.state in TERMINAL
    place = ResourceScope(found.environment, found.app)
    needed = replay_permission("non-production" if kind == "non-production" else "production")
    denied = (
        missing_permissions(context, [needed], place) if can_replay(context) and not over else []
    )
    refresh = tag("noscript", tag("meta", http_equiv="refresh", content="2"))
    return page(
        context,
        f"Replay of {found.route_id}",
        already_sent_notice(found.source_exchange_id, _SAME)
        if context.query("sent") == "before"
        else None,
        _progress(found),
        denial(context, denied, place) if denied else None,
        _about(context, found, await agent_link(context, found.agent_id, found.app)),
        await _compared(context, found) if over and found.exchange_id else None,
        here="/replays",
        heading=fragment(
            environment(found.environment, kind),
            tag(
                "span",
                replay_state(found.state, found.verdict, found.ending),
                " ",
                judged(found.verdict, "", found.ending, found.http_status),
                data_part="state",
            ),
            _actions(context, found, over, denied),
        ),
        head=() if over else (refresh,),
    )


def _progress(found: ReplayView) -> Html:
    """Show the progress.

    Scripts follow the server's events. Without scripts, the page reloads every two seconds.
    """
    over = found.state in TERMINAL
    times = [getattr(found, field) for _, _, field in _WAY]
    before = [0, *times]
    steps = [
        _step(label, at, name == found.state, since)
        for (name, label, _), at, since in zip(_WAY, times, before, strict=False)
    ]
    last = found.state.capitalize() if over else "Ended"
    steps.append(_step(last, found.ended_at, False, max(before)))
    return tag(
        "div",
        tag("ol", *steps, class_="way", data_part="way"),
        failure_notice(found),
        tag("p", role="status", id="live", class_="dim"),
        class_="progress",
        data_events=None if over else url("/api/v1/replays/{}/events", found.replay_id),
        data_state=found.state,
    )


def _step(label: str, at: int, now: bool, since: int) -> Html:
    """Render a step of the progress. ``since`` is the time of the previous step, or 0."""
    kind = "now" if now else "done" if at else "ahead"
    took = f"after {duration(at - since)}" if 0 < since <= at else ""
    return tag(
        "li",
        tag("b", label),
        stamp(at, none=""),
        tag("span", took, class_="took") if took else None,
        class_=kind,
        aria_current="step" if now else None,
    )


def _about(context: RequestContext, found: ReplayView, agent: Child) -> Html:
    edit = folded("Requested edit", block(pretty(found.patch))) if found.patch else None
    return fragment(
        facts(
            (
                ("Original", _exchange(found.source_exchange_id)),
                ("Reason", found.reason),
                ("By", found.requested_by),
                ("Agent", agent),
                ("Outbound calls", found.boundaries.replace("_", " ")),
                ("Drivers", drivers_of(found.containment)),
                ("Files", files_of(found.containment)),
                ("Environment variables", f"{found.environment_variables} values"),
                ("Audit record", _record(context, found)),
                ("Replay", tag("code", found.replay_id)),
            )
        ),
        edit,
    )


def _exchange(exchange_id: str) -> Html:
    return link(url("/exchanges/{}", exchange_id), tag("code", exchange_id))


def _record(context: RequestContext, found: ReplayView) -> Child:
    """Render the audit record, with a link for users who can read the log."""
    name = f"№ {found.audit_seq}"
    return link(url("/audit/{}", str(found.audit_seq)), name) if _may_audit(context) else name


def _may_audit(context: RequestContext) -> bool:
    return context.has_anywhere("audit:read")


def _actions(
    context: RequestContext, found: ReplayView, over: bool, denied: Sequence[Permission]
) -> Html:
    cancel = form(
        context,
        url("/replays/{}/cancel", found.replay_id),
        button="Cancel the replay",
        class_="",
        disabled=bool(denied),
    )
    there = "/exchanges/{}/replay"
    again = link(url(there, found.source_exchange_id), "Replay again", class_="button")
    like = url(there, found.source_exchange_id, like=found.replay_id)
    further = link(like, "Edit further …", class_="button")
    edited = bool(found.patch and found.exchange_id)
    acts: Child = (further if edited else None, again) if over else cancel
    prove = _may_audit(context)
    return tag(
        "div",
        acts if can_replay(context) else None,
        link(
            url("/api/v1/replays/{}/proof", found.replay_id),
            "Proof",
            class_="button",
            download=True,
        )
        if prove
        else None,
        class_="actions",
    )


async def _compared(context: RequestContext, found: ReplayView) -> Html:
    before = await get_exchange(context, found.source_exchange_id)
    after = await get_exchange(context, found.exchange_id)
    beside = hide_links(context, before.app, before.exchange_id, after.exchange_id, found.replay_id)
    return fragment(
        comparison(
            await compare_replay(context, found.replay_id),
            exchange_of(before),
            exchange_of(after),
            beside,
            places=await _places(context, before, after),
            parts={name: list_part(context, name) for name in PARTS},
        ),
        noise_link(before.app, before.route_id),
    )


async def _places(context: RequestContext, before: Row[Any], after: Row[Any]) -> tuple[Html, Html]:
    """Render the environments and apps of two exchanges."""
    kinds = await environment_kinds(context)

    def place(one: Row[Any]) -> Html:
        kind = kinds.get(one.environment, "production")
        return fragment(environment(one.environment, kind), " ", one.app)

    return place(before), place(after)


async def do_cancel(context: RequestContext) -> Response:
    """Handle ``POST /replays/{id}/cancel``: request cancellation and redirect to the replay."""
    found = await cancel_replay(context, context.path("id"))
    return RedirectResponse(url("/replays/{}", found.replay_id), 303)


async def show_comparison(context: RequestContext) -> Response:
    """Show the comparison of any two exchanges."""
    found = await compare_exchanges(context, context.path("a"), context.path("b"))
    before, after = [await get_exchange(context, context.path(name)) for name in ("a", "b")]
    beside = hide_links(context, before.app, before.exchange_id, after.exchange_id)
    names = ("first", "second")
    places = await _places(context, before, after)
    parts = {name: list_part(context, name) for name in PARTS}
    shown = comparison(found, exchange_of(before), exchange_of(after), beside, names, places, parts)
    way = noise_link(before.app, before.route_id)
    return page(context, f"{before.route_id}, side by side", shown, way, here="/exchanges")


Way = Literal["form", "agents", "original", ""]

WAYS_OUT: Final[dict[str, tuple[str, Way]]] = {
    "signature_invalid": ("The agent has registered with another server: restart the app.", ""),
    "expired": ("Compare the clocks of server and app, and ask for it again.", "form"),
    "nonce_reused": ("Ask for it again.", "form"),
    "wrong_agent": ("Check the list of agents.", "agents"),
    "not_replayable": ("Give what is missing in the form, or credentials to the agent.", "form"),
    "drivers_undeclared": (
        "Declare the drivers in the app and replay the exchange again.",
        "agents",
    ),
    "no_recording": ("Let its calls go out: recorded then live, or live.", "form"),
    "revision_mismatch": ("Replay it through the current route.", "form"),
    "route_unknown": ("The app has no such route any more: choose another agent.", "form"),
    "busy": ("Wait until its other replays have ended.", "agents"),
    "depth": ("Replay the original instead.", "original"),
    "agent_restarted": (
        "Request it again: an interrupted replay is not restarted automatically.",
        "form",
    ),
    "source_unavailable": ("The agent could not get the recording: does it reach this server?", ""),
    "internal": ("Look at the log of the app.", ""),
    "not_delivered": ("Is the app running? Look at its agents.", "agents"),
    "not_started": ("The app took it and did not begin: look at its log.", ""),
    "not_finished": ("The app did not end in time: look at its log.", ""),
}
"""Suggested action by the code of a replay, and the page for it."""

_WORDS: Final[dict[Way, str]] = {
    "form": "To the form",
    "agents": "To the agents",
    "original": "To the original",
}


def failure_notice(found: ReplayView) -> Html | None:
    """Return a notice about a failed replay, or None."""
    if not found.code and not found.message:
        return None
    words, way = WAYS_OUT.get(found.code, ("", ""))
    code = tag("code", found.code, class_="dim") if found.code else None
    return tag(
        "div",
        tag("p", tag("strong", found.message or found.code.replace("_", " ")), " ", code),
        tag("p", words) if words else None,
        tag("p", link(_place(found, way), _WORDS[way]), class_="ways") if way else None,
        class_="alert",
    )


def _place(found: ReplayView, way: Way) -> str:
    there = {
        "form": "/exchanges/{}/replay",
        "original": "/exchanges/{}",
    }
    if way in there:
        return url(there[way], found.source_exchange_id)
    return url("/agents", app=found.app)
