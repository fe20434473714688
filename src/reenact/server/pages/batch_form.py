"""The form of a batch: which exchanges, how, and why."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.responses import RedirectResponse, Response

from reenact.server.asking import Ask
from reenact.server.batches.planning import plan_batch
from reenact.server.batches.searches import read_search
from reenact.server.batches.shapes import BatchAsked, BatchView
from reenact.server.exchanges.rights import check_reason
from reenact.server.pages.acting import form, labelled
from reenact.server.pages.forms import Filled, Form, read_form
from reenact.server.pages.lists import choice
from reenact.server.pages.markup import Html, fragment, tag, url
from reenact.server.pages.searching import as_search, filters_said, from_text, search_in, to_text
from reenact.server.pages.shell import alert, page
from reenact.server.pages.values import facts
from reenact.server.problems import Problem

__all__ = ["do_plan_batch", "edit_batch"]

_MODES: Final = (
    ("recorded", "recorded"),
    ("recorded_then_live", "recorded, then live"),
    ("live", "live"),
)
_VARIABLES: Final = (("current", "current values"), ("recorded", "recorded values"))
_REVISIONS: Final = (("current", "as it is now"), ("same", "only if it is as it was"))
_UNSAID: Final = BatchAsked()


async def edit_batch(ask: Ask) -> Response:
    """The form: what is to be replayed is the search that the address holds, or names."""
    saved = ask.query("saved")
    return _form(ask, await _named(ask, saved) if saved else search_in(ask), saved=saved)


async def _named(ask: Ask, saved: str) -> dict[str, Any]:
    found = await read_search(Filled(ask, path={"name": saved}))
    search: dict[str, Any] = msgspec.to_builtins(found.filters)
    return search


def _form(
    ask: Ask,
    search: dict[str, Any],
    problem: Problem | None = None,
    *,
    saved: str = "",
    sent: Form | None = None,
) -> Response:
    """``sent`` is what was in it when it was sent."""
    said = filters_said(as_search(search))
    name, value = ("saved", saved) if saved else ("search", to_text(search))
    typed = Filled(ask, query=dict(sent.pairs) if sent is not None else {})
    return page(
        ask,
        "Replay many",
        alert(problem) if problem is not None else None,
        tag("p", f"All exchanges of {saved or 'this search'}, 10,000 at most:"),
        facts(said) if said else tag("p", "every exchange that is no replay", class_="wrong"),
        form(
            ask,
            "/batches",
            tag("input", type="hidden", name=name, value=value),
            _fields(typed),
            button="Plan it",
            main=True,
        ),
        tag("p", "This counts what would be replayed, and replays nothing yet.", class_="dim"),
        here="/batches",
        status=200 if problem is None else problem.status,
    )


def _fields(typed: Ask) -> Html:
    def field(label: str, name: str, **more: Any) -> Html:
        return labelled(label, name, value=typed.query(name), **more)

    at_a_time, a_minute = str(_UNSAID.concurrency), str(_UNSAID.per_minute)
    return fragment(
        choice(typed, "boundaries", "Outbound calls", _MODES),
        choice(typed, "environmentVariables", "Environment variables", _VARIABLES),
        choice(typed, "revision", "Code", _REVISIONS),
        field("Environment", "environment", hint="where each came from"),
        field("At a time, per agent", "concurrency", kind="number", hint=at_a_time),
        field("A minute, per agent", "perMinute", kind="number", hint=a_minute),
        field("Reason (required in production and for live calls)", "reason", wide=True),
    )


async def do_plan_batch(ask: Ask) -> Response:
    """On to the plan, or the form again."""
    sent = await read_form(ask)
    saved = sent.one("saved")
    search = await _named(ask, saved) if saved else from_text(sent.one("search"))
    which: dict[str, Any] = {"saved": saved} if saved else {"search": search}
    wanted = _wanted(sent)
    try:
        live, reason = str(wanted.get("boundaries", "recorded")), str(wanted.get("reason", ""))
        check_reason(
            "non-production", live, reason
        )  # the plan checks the kinds of the environments
        answer = await plan_batch(Filled(ask, {**which, **wanted}))
    except Problem as problem:
        if problem.status in (403, 404):
            raise
        return _form(ask, search, problem, saved=saved, sent=sent)
    made = msgspec.json.decode(answer.body, type=BatchView)
    return RedirectResponse(url("/batches/{}", made.batch_id), 303)


def _wanted(sent: Form) -> dict[str, Any]:
    words = ("boundaries", "environmentVariables", "revision", "environment", "reason")
    found: dict[str, Any] = {name: sent.one(name) for name in words if sent.one(name)}
    for name in ("concurrency", "perMinute"):
        text = sent.one(name)
        if text:
            number = text.isascii() and text.isdigit() and len(text) < 9
            found[name] = int(text) if number else text
    return found
