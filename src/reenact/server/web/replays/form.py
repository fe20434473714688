"""Replay form: edit the payload, preview the replay, and submit it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Row
from starlette.responses import RedirectResponse, Response

from reenact.exchange.model import BOUNDARIES, ENVIRONMENT_VARIABLES, Exchange, Payload
from reenact.server.agents.service import AgentView, search_agents
from reenact.server.context import MOST_ITEMS, RequestContext
from reenact.server.exchanges.service import get_exchange
from reenact.server.problems import Problem
from reenact.server.replays.schema import ReplayRequest
from reenact.server.replays.service import read_replay, replay_of_key, request_replay
from reenact.server.storage.rows import Page, exchange_of
from reenact.server.tenants.service import environment_kinds
from reenact.server.web.components.formatting import environment, stamp
from reenact.server.web.components.forms import (
    Form,
    already_sent_notice,
    is_key,
    new_key,
    read_form,
    to_request,
)
from reenact.server.web.components.html import Child, Html, fragment, link, tag, textarea, url
from reenact.server.web.components.layout import alert, csrf, page
from reenact.server.web.exchanges.calls import read_call_details
from reenact.server.web.replays.draft import (
    TYPES,
    Draft,
    Mistake,
    api_edit,
    draft_of,
    payload_of,
    position_text,
    read_draft,
)
from reenact.server.web.replays.plan import ReplayPlan, plan_panel, plan_replay

__all__ = [
    "Options",
    "check_replay",
    "do_replay",
    "edit_replay",
    "editor",
    "preview_replay",
    "read_options",
]

_AGAIN: Final = "Sending the unchanged form again starts no second replay."
_OTHERWISE: Final = (
    "Its content has changed since then, so nothing was done. Press Replay once more to request a "
    "separate replay."
)


class _Sheet(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of the replay form."""

    row: Row[Any]
    exchange: Exchange
    draft: Draft
    options: Options
    made: Payload | None
    mistakes: tuple[Mistake, ...]
    key: str

    def body(self) -> dict[str, Any]:
        """Return the equivalent API request body."""
        options = self.options
        edit = {} if self.made is None else api_edit(self.exchange.start, self.made)
        return {
            **edit,
            "target": {"agentId": options.agent} if options.agent else {},
            "boundaries": options.boundaries,
            "strict": options.strict,
            "environmentVariables": options.variables,
            "revision": options.revision,
            "reason": options.reason,
        }


async def edit_replay(context: RequestContext) -> Response:
    """Handle ``GET …/{id}/replay``: show the form with the recorded payload, or the payload of the
    replay ``like``. The address contains the key of the form."""
    key, like = context.query("form"), context.query("like")
    row = await get_exchange(context, context.path("id"))
    if not is_key(key):
        there = url("/exchanges/{}/replay", row.exchange_id, like=like, form=new_key(context))
        return RedirectResponse(there, 303)
    exchange = exchange_of(row)
    start, options = exchange.start, Options()
    if like:
        start, options = await _as_before(context, exchange, like)
    draft = draft_of(start)
    made, mistakes = payload_of(draft, exchange.start)
    sheet = _Sheet(
        row=row,
        exchange=exchange,
        draft=draft,
        options=options,
        made=made,
        mistakes=mistakes,
        key=key,
    )
    return await _show(context, sheet)


async def _as_before(
    context: RequestContext, exchange: Exchange, like: str
) -> tuple[Payload, Options]:
    """Return the payload and options of the earlier replay ``like``. Raises :class:`Problem`."""
    before = await read_replay(context, like)
    if before.source_exchange_id != exchange.exchange_id or not before.exchange_id:
        raise Problem("not_found", "this exchange has no such replay")
    ran = exchange_of(await get_exchange(context, before.exchange_id))
    options = Options(
        boundaries=before.boundaries,
        strict=before.strict,
        variables=before.environment_variables,
        revision=before.revision,
        reason=before.reason,
    )
    return ran.start, options


async def preview_replay(context: RequestContext) -> Response:
    """Handle ``POST …/{id}/replay/preview``: show the submitted form and its effect."""
    return await _show(context, await _read(context))


async def check_replay(context: RequestContext) -> Response:
    """Return only the panel, for a form that is being filled in."""
    _, html = await _panel(context, await _read(context))
    return Response(str(html).encode("utf-8", "replace"), media_type="text/html; charset=utf-8")


async def do_replay(context: RequestContext) -> Response:
    """Handle ``POST …/{id}/replay``: create the replay and redirect to it, or show the form with
    the problem."""
    sheet = await _read(context)
    if sheet.mistakes:
        problem = Problem("payload_invalid", "the payload cannot be sent like this")
        return await _show(context, sheet, problem)
    wanted = to_request(sheet.body(), ReplayRequest)
    before = await replay_of_key(context, sheet.key)
    try:
        made = await request_replay(context, sheet.row.exchange_id, wanted, sheet.key)
    except Problem as problem:
        if problem.status == 404:
            raise
        return await _show(context, sheet, problem)
    sent = "before" if before else ""
    return RedirectResponse(url("/replays/{}", made.replay_id, sent=sent), 303)


async def _form(context: RequestContext) -> Form:
    return await read_form(context, 4 * context.server.limits.payload)


async def _read(context: RequestContext) -> _Sheet:
    form = await _form(context)
    row = await get_exchange(context, context.path("id"))
    exchange, draft = exchange_of(row), read_draft(form)
    made, mistakes = payload_of(draft, exchange.start)
    return _Sheet(
        row=row,
        exchange=exchange,
        draft=draft,
        options=read_options(form),
        made=made,
        mistakes=mistakes,
        key=form.one("once") if is_key(form.one("once")) else new_key(context),
    )


async def _panel(context: RequestContext, sheet: _Sheet) -> tuple[ReplayPlan, Html]:
    wanted = to_request(sheet.body(), ReplayRequest)
    outlook = await plan_replay(context, sheet.row, wanted)
    told = await read_call_details(context.server, context.tenant, sheet.exchange)
    start, made = sheet.exchange.start, sheet.made
    return outlook, plan_panel(context, outlook, wanted, sheet.mistakes, start, made, told)


async def _show(context: RequestContext, sheet: _Sheet, problem: Problem | None = None) -> Response:
    exchange = sheet.exchange
    before = await replay_of_key(context, sheet.key)
    otherwise = problem is not None and problem.code == "idempotency_conflict"
    key = new_key(context) if otherwise else sheet.key
    once = tag("input", type="hidden", name="once", value=key)
    kinds = await environment_kinds(context)
    outlook, plan = await _panel(context, sheet)
    form = editor(
        exchange,
        sheet.draft,
        sheet.options,
        await _agents(context, sheet.row.app),
        csrf(context),
        once,
        plan=plan,
        mistakes=sheet.mistakes,
        is_denied=outlook.is_denied,
        needs_reason=outlook.needs_reason,
    )
    return page(
        context,
        f"Edit and replay {exchange.route_id}",
        tag(
            "p",
            link(url("/exchanges/{}", exchange.exchange_id), "The exchange"),
            " of ",
            stamp(exchange.started_at),
            " UTC, recorded in ",
            environment(sheet.row.environment, kinds.get(sheet.row.environment, "production")),
        ),
        already_sent_notice(exchange.exchange_id, _OTHERWISE if otherwise else _AGAIN, before)
        if before
        else None,
        alert(problem) if problem is not None and not otherwise and problem.status != 403 else None,
        form,
        here="/exchanges",
        status=200 if problem is None else problem.status,
    )


async def _agents(context: RequestContext, app: str) -> list[AgentView]:
    """Return the app agents of ``app`` that the user can see."""
    if not context.has_anywhere("agent:read"):
        return []
    found = await search_agents(context, Page(MOST_ITEMS), app=app)
    return sorted(found.items, key=lambda one: (one.state != "online", one.environment, one.name))


_BLANK: Final = 2
_MODES: Final = {
    "recorded": "recorded: recorded responses only",
    "recorded_then_live": "recorded, then live: unrecorded calls are made for real",
    "live": "live: every call is made for real",
}
_VARIABLES: Final = {
    "current": "the current values of the app",
    "recorded": "the recorded values",
}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a replay: target, boundaries and reason."""

    agent: str = ""
    boundaries: str = "recorded"
    strict: bool = False
    variables: str = "current"
    revision: str = "current"
    reason: str = ""


def read_options(form: Form) -> Options:
    """Read the options from the form, with defaults for missing fields."""
    return Options(
        agent=form.one("agent"),
        boundaries=form.one("boundaries", "recorded"),
        strict=form.one("strict") == "yes",
        variables=form.one("variables", "current"),
        revision=form.one("revision", "current"),
        reason=form.one("reason"),
    )


def editor(
    exchange: Exchange,
    draft: Draft,
    options: Options,
    agents: Sequence[AgentView],
    *hidden: Child,
    plan: Html,
    mistakes: Sequence[Mistake] = (),
    is_denied: bool = False,
    needs_reason: bool = False,
) -> Html:
    """Render the form. ``hidden`` are the token of the session and the key that makes sending twice
    harmless; ``mistakes`` are shown at their fields, and ``plan`` lists all of them. ``editor.js``
    updates ``is_denied`` and ``needs_reason`` when the plan changes."""
    action = url("/exchanges/{}/replay", exchange.exchange_id)
    return tag(
        "form",
        *hidden,
        tag("div", _payload(exchange, draft, mistakes), class_="edit"),
        tag(
            "div",
            _how(options, agents, needs_reason),
            tag("section", tag("h2", "What will happen"), plan),
            _buttons(exchange, is_denied),
            class_="plan",
        ),
        method="post",
        action=action,
        class_="editor",
        data_check=f"{action}/check",
    )


def _payload(exchange: Exchange, draft: Draft, mistakes: Sequence[Mistake]) -> Html:
    redacted = ", ".join(exchange.redacted[:20])
    return fragment(
        tag("h2", "Headers", id="headers", tabindex="-1"),
        tag(
            "div",
            *_headers(draft, mistakes),
            class_="rows",
            role="group",
            aria_labelledby="headers",
        ),
        _wrong("headers", mistakes),
        tag("h2", "Body"),
        tag("label", tag("span", "Type"), _select("body-type", TYPES, draft.body_type)),
        tag(
            "label",
            tag("span", "Content (base64 for bytes)"),
            _text("body", draft.body, 14, mistakes),
        ),
        _wrong("body", mistakes),
        tag("h2", "Properties"),
        tag(
            "label",
            tag("span", "A JSON object"),
            _text("properties", draft.properties, 8, mistakes),
        ),
        _wrong("properties", mistakes),
        tag(
            "p",
            f"Redacted before it was stored: {redacted}. The app agent restores values that you leave "
            "unchanged, if it has credentials.",
            class_="dim",
        )
        if redacted
        else None,
    )


def _text(name: str, text: str, rows: int, mistakes: Sequence[Mistake]) -> Html:
    wrong = any(one.field == name for one in mistakes)
    return textarea(
        text,
        id=name,
        name=name,
        rows=rows,
        spellcheck="false",
        aria_invalid="true" if wrong else None,
        aria_describedby=f"{name}-wrong",
    )


def _wrong(name: str, mistakes: Sequence[Mistake]) -> Html:
    """Render the mistakes of a field. ``editor.js`` updates them."""
    told = (
        ": ".join(filter(None, (position_text(one), one.message)))
        for one in mistakes
        if one.field == name
    )
    return tag("p", "; ".join(told), class_="wrong", id=f"{name}-wrong")


def _headers(draft: Draft, mistakes: Sequence[Mistake]) -> Iterator[Html]:
    wrong = {one.line for one in mistakes if one.field == "headers"}
    for number, (name, value) in enumerate((*draft.headers, *[("", "")] * _BLANK), 1):
        yield tag(
            "div",
            tag(
                "input",
                name="header-name",
                value=name,
                aria_label=f"Name of header {number}",
                placeholder="name",
                spellcheck="false",
                aria_invalid="true" if number in wrong else None,
                aria_describedby="headers-wrong",
            ),
            tag(
                "input",
                name="header-value",
                value=value,
                aria_label=f"Value of header {number}",
                placeholder="value",
                spellcheck="false",
            ),
            class_="header",
        )


def _select(name: str, options: Sequence[str], now: str) -> Html:
    return tag(
        "select",
        *(tag("option", one, value=one, selected=one == now) for one in options),
        name=name,
    )


def _how(options: Options, agents: Sequence[AgentView], needs_reason: bool) -> Html:
    return fragment(
        tag("h2", "How and where"),
        tag("label", tag("span", "Agent"), _agent_choice(options, agents)),
        tag("fieldset", tag("legend", "Outbound calls"), *_boundaries(options)),
        tag(
            "fieldset", tag("legend", "Environment variables"), *_variables(options), class_="short"
        ),
        tag("fieldset", tag("legend", "Code"), *_revisions(options), class_="short"),
        tag(
            "label",
            tag("input", type="checkbox", name="strict", value="yes", checked=options.strict),
            tag("span", "End it at the first divergence"),
            class_="check",
        ),
        tag(
            "label",
            tag(
                "span",
                "Reason (required in production and for live calls; stored in the audit log)",
            ),
            tag(
                "input",
                name="reason",
                id="reason",
                value=options.reason,
                maxlength=2000,
                required=needs_reason,
            ),
        ),
    )


def _agent_choice(options: Options, agents: Sequence[AgentView]) -> Html:
    shown = [tag("option", "any that is online where it came from", value="")]
    for one in agents:
        said = (
            f"{one.name or one.agent_id} · {one.environment} ({one.environment_kind}) · {one.state}"
        )
        chosen = one.agent_id == options.agent
        shown.append(tag("option", said, value=one.agent_id, selected=chosen))
    return tag("select", *shown, name="agent")


def _boundaries(options: Options) -> Iterator[Html]:
    for mode in BOUNDARIES:
        yield _radio("boundaries", mode, _MODES[mode], options.boundaries)


def _variables(options: Options) -> Iterator[Html]:
    for value in ENVIRONMENT_VARIABLES:
        yield _radio("variables", value, _VARIABLES[value], options.variables)


def _revisions(options: Options) -> Iterator[Html]:
    yield _radio("revision", "current", "the current route", options.revision)
    yield _radio("revision", "same", "only if it is unchanged", options.revision)


def _radio(name: str, value: str, label: str, now: str) -> Html:
    box = tag("input", type="radio", name=name, value=value, checked=value == now)
    return tag("label", box, tag("span", label), class_="check")


def _buttons(exchange: Exchange, is_denied: bool) -> Html:
    check = url("/exchanges/{}/replay/preview", exchange.exchange_id)
    return tag(
        "div",
        tag("button", "Replay", class_="main", disabled=is_denied),
        tag("button", "Check", formaction=check, formnovalidate=True, class_="check-now"),
        link(url("/exchanges/{}", exchange.exchange_id), "Cancel", class_="button"),
        class_="actions",
    )
