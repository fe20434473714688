"""The form of a replay: fields that begin with what was recorded (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from reenact.exchange.model import BOUNDARIES, ENVIRONMENT_VARIABLES, Exchange
from reenact.server.agents.listing import AgentView
from reenact.server.pages.drafts import TYPES, Draft, Mistake, place_in
from reenact.server.pages.forms import Form
from reenact.server.pages.markup import Child, Html, fragment, link, tag, textarea, url

__all__ = ["Options", "editor", "read_options"]

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
    """How, where and why."""

    agent: str = ""
    boundaries: str = "recorded"
    strict: bool = False
    variables: str = "current"
    revision: str = "current"
    reason: str = ""


def read_options(form: Form) -> Options:
    """What the form says; what it does not say is as in a new form."""
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
            f"Removed before it was stored: {redacted}. What you leave as it is, the agent puts in "
            "again, if it was given credentials.",
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
    """What is wrong with a field, below it; ``editor.js`` keeps it true."""
    told = (
        ": ".join(filter(None, (place_in(one), one.message)))
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
        tag("label", tag("span", "Agent"), _agents(options, agents)),
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


def _agents(options: Options, agents: Sequence[AgentView]) -> Html:
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
    yield _radio("revision", "current", "the route as it is now", options.revision)
    yield _radio("revision", "same", "only if it is as it was recorded", options.revision)


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
