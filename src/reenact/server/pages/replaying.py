"""Edit and replay: the form, what it would do, and doing it."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from sqlalchemy import Row
from starlette.responses import RedirectResponse, Response

from reenact.exchange.model import Exchange, Payload
from reenact.server.access import has_anywhere
from reenact.server.agents.listing import AgentView, read_agents
from reenact.server.asking import Ask
from reenact.server.exchanges.documents import exchange_of
from reenact.server.exchanges.history import get_exchange
from reenact.server.exchanges.replays import read_replay
from reenact.server.exchanges.requesting import request_replay
from reenact.server.exchanges.shapes import ReplayView
from reenact.server.exchanges.wanting import ReplayRequest
from reenact.server.pages.drafts import (
    Draft,
    Mistake,
    draft_of,
    payload_of,
    read_draft,
    sections_of,
)
from reenact.server.pages.editor import Options, editor, read_options
from reenact.server.pages.forms import Filled, Form, read_form
from reenact.server.pages.kinds import kinds_of
from reenact.server.pages.markup import Html, link, tag, url
from reenact.server.pages.plans import Outlook, look_ahead, panel
from reenact.server.pages.saying import environment, stamp
from reenact.server.pages.sent import is_key, new_key, replay_of, was_sent
from reenact.server.pages.shell import alert, csrf, page
from reenact.server.pages.told import tell
from reenact.server.problems import Problem

__all__ = ["check_replay", "do_replay", "edit_replay", "preview_replay"]

_AGAIN: Final = "Sending it again as it was makes no second replay."
_OTHERWISE: Final = (
    "Something else is in it now, and nothing was done. Press Replay once more, and what is in it "
    "becomes a replay of its own."
)


class _Sheet(msgspec.Struct, frozen=True, kw_only=True):
    """What is on the form."""

    row: Row[Any]
    exchange: Exchange
    draft: Draft
    options: Options
    made: Payload | None
    mistakes: tuple[Mistake, ...]
    key: str

    def body(self) -> dict[str, Any]:
        """What the API would be sent."""
        options = self.options
        edit = {} if self.made is None else sections_of(self.exchange.start, self.made)
        return {
            **edit,
            "target": {"agentId": options.agent} if options.agent else {},
            "boundaries": options.boundaries,
            "strict": options.strict,
            "environmentVariables": options.variables,
            "revision": options.revision,
            "reason": options.reason,
        }


async def edit_replay(ask: Ask) -> Response:
    """``GET …/{id}/replay``: the form, with what was recorded in it, or what the replay ``like`` was
    given. The address has its key."""
    key, like = ask.query("form"), ask.query("like")
    row = await get_exchange(ask, ask.path("id"))
    if not is_key(key):
        there = url("/exchanges/{}/replay", row.exchange_id, like=like, form=new_key(ask))
        return RedirectResponse(there, 303)
    exchange = exchange_of(row)
    start, options = exchange.start, Options()
    if like:
        start, options = await _as_before(ask, exchange, like)
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
    return await _show(ask, sheet)


async def _as_before(ask: Ask, exchange: Exchange, like: str) -> tuple[Payload, Options]:
    """What the replay ``like`` of ``exchange`` was given, and how it ran. Raises :class:`Problem`."""
    before = await read_replay(Filled(ask, path={"id": like}))
    if before.source_exchange_id != exchange.exchange_id or not before.exchange_id:
        raise Problem("not_found", "this exchange has no such replay")
    ran = exchange_of(await get_exchange(ask, before.exchange_id))
    options = Options(
        boundaries=before.boundaries,
        strict=before.strict,
        variables=before.environment_variables,
        revision=before.revision,
        reason=before.reason,
    )
    return ran.start, options


async def preview_replay(ask: Ask) -> Response:
    """``POST …/{id}/replay/preview``: the form as it was sent, with what it would do."""
    return await _show(ask, await _read(ask))


async def check_replay(ask: Ask) -> Response:
    """The panel alone, for a form that is being filled in."""
    _, html = await _panel(ask, await _read(ask))
    return Response(str(html).encode("utf-8", "replace"), media_type="text/html; charset=utf-8")


async def do_replay(ask: Ask) -> Response:
    """``POST …/{id}/replay``: asks for the replay and leads to it; else the form, and why not."""
    sheet = await _read(ask)
    if sheet.mistakes:
        problem = Problem("payload_invalid", "the payload cannot be sent like this")
        return await _show(ask, sheet, problem)
    filled = Filled(ask, sheet.body(), headers={"idempotency-key": sheet.key})
    before = await replay_of(ask, sheet.key)
    try:
        answer = await request_replay(filled)
    except Problem as problem:
        if problem.status == 404:
            raise
        return await _show(ask, sheet, problem)
    made = msgspec.json.decode(answer.body, type=ReplayView)
    sent = "before" if before else ""
    return RedirectResponse(url("/replays/{}", made.replay_id, sent=sent), 303)


async def _form(ask: Ask) -> Form:
    return await read_form(ask, 4 * ask.server.limits.payload)


async def _read(ask: Ask) -> _Sheet:
    form = await _form(ask)
    row = await get_exchange(ask, ask.path("id"))
    exchange, draft = exchange_of(row), read_draft(form)
    made, mistakes = payload_of(draft, exchange.start)
    return _Sheet(
        row=row,
        exchange=exchange,
        draft=draft,
        options=read_options(form),
        made=made,
        mistakes=mistakes,
        key=form.one("once") if is_key(form.one("once")) else new_key(ask),
    )


async def _panel(ask: Ask, sheet: _Sheet) -> tuple[Outlook, Html]:
    wanted = await Filled(ask, sheet.body()).json(ReplayRequest)
    outlook = await look_ahead(ask, sheet.row, wanted)
    told = await tell(ask.server, ask.tenant, sheet.exchange)
    start, made = sheet.exchange.start, sheet.made
    return outlook, panel(ask, outlook, wanted, sheet.mistakes, start, made, told)


async def _show(ask: Ask, sheet: _Sheet, problem: Problem | None = None) -> Response:
    exchange = sheet.exchange
    before = await replay_of(ask, sheet.key)
    otherwise = problem is not None and problem.code == "idempotency_conflict"
    key = new_key(ask) if otherwise else sheet.key
    once = tag("input", type="hidden", name="once", value=key)
    kinds = await kinds_of(ask)
    outlook, plan = await _panel(ask, sheet)
    form = editor(
        exchange,
        sheet.draft,
        sheet.options,
        await _agents(ask, sheet.row.app),
        csrf(ask),
        once,
        plan=plan,
        mistakes=sheet.mistakes,
        is_denied=outlook.is_denied,
        needs_reason=outlook.needs_reason,
    )
    return page(
        ask,
        f"Edit and replay {exchange.route_id}",
        tag(
            "p",
            link(url("/exchanges/{}", exchange.exchange_id), "The exchange"),
            " of ",
            stamp(exchange.started_at),
            " UTC, recorded in ",
            environment(sheet.row.environment, kinds.get(sheet.row.environment, "production")),
        ),
        was_sent(exchange.exchange_id, _OTHERWISE if otherwise else _AGAIN, before)
        if before
        else None,
        alert(problem) if problem is not None and not otherwise and problem.status != 403 else None,
        form,
        here="/exchanges",
        status=200 if problem is None else problem.status,
    )


async def _agents(ask: Ask, app: str) -> list[AgentView]:
    """Those of the same app; none for somebody who may not see them."""
    if not has_anywhere(ask.principal.grants, "agent:read", ask.server.now()):
        return []
    found = await read_agents(Filled(ask, query={"limit": "500", "app": app}))
    return sorted(found.items, key=lambda one: (one.state != "online", one.environment, one.name))
