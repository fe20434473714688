"""Preview of a replay: target, permission, edit, effects and containment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Row

from reenact.exchange.containment import effective_containment
from reenact.exchange.model import Boundaries, Containment, DriverUse, Payload
from reenact.exchange.payload import to_document
from reenact.server.auth.permissions import Permission
from reenact.server.context import RequestContext
from reenact.server.problems import Problem
from reenact.server.replays.checks import containment_of, needs_reason
from reenact.server.replays.plan import ReplayTarget, plan, plan_target
from reenact.server.replays.schema import ReplayRequest
from reenact.server.web.components.diff import side_by_side
from reenact.server.web.components.formatting import badge, block, count, facts, folded, pretty
from reenact.server.web.components.forms import denial, missing_permissions
from reenact.server.web.components.html import Html, breakable, fragment, link, tag
from reenact.server.web.components.layout import alert
from reenact.server.web.exchanges.calls import CallDetails
from reenact.server.web.replays.draft import Mistake, position_text

__all__ = [
    "CALLS",
    "ReplayPlan",
    "contained",
    "drivers_of",
    "files_of",
    "plan_panel",
    "plan_replay",
]

_VARIABLES: Final = {
    "current": "Environment variables have the current values of the app.",
    "recorded": "Environment variables have their recorded values.",
}
_LISTED: Final = 30
_MISSING: Final = {
    "reason_required": ("#reason", "Give a reason"),
    "agent_offline": ("/agents", "Look at the agents, and start the app"),
}
"""Form field and advice for each problem code."""


class ReplayPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Replay that was not requested yet.

    ``problem`` is the first reason for a refusal, and ``rule`` is the rule that allows it.
    """

    goal: ReplayTarget | None
    rule: str
    problem: Problem | None
    boundaries: str
    denied: tuple[Permission, ...] = ()
    """Permissions that the user lacks for it."""

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """All permissions that the replay needs."""
        live: tuple[Permission, ...] = () if self.boundaries == "recorded" else ("replay:live",)
        return () if self.goal is None else (self.goal.permission, *live)

    @property
    def is_denied(self) -> bool:
        """True if the replay would be refused because of a missing permission or tier."""
        return self.problem is not None and self.problem.status == 403

    @property
    def needs_reason(self) -> bool:
        return self.goal is not None and needs_reason(self.goal.kind, self.boundaries)


async def plan_replay(
    context: RequestContext, source: Row[Any], wanted: ReplayRequest
) -> ReplayPlan:
    """Return the decision that would be made now. Nothing is written."""
    goal: ReplayTarget | None = None
    try:
        goal = await plan_target(context, source, wanted)
        found = plan(context, source, wanted, goal)
    except Problem as problem:
        outlook = ReplayPlan(goal=goal, rule="", problem=problem, boundaries=wanted.boundaries)
        if goal is None or not outlook.is_denied:
            return outlook
        lacking = tuple(missing_permissions(context, outlook.permissions, goal.place))
        return msgspec.structs.replace(outlook, denied=lacking)
    rule = found.decision.rule
    return ReplayPlan(goal=goal, rule=rule, problem=None, boundaries=wanted.boundaries)


def plan_panel(
    context: RequestContext,
    outlook: ReplayPlan,
    wanted: ReplayRequest,
    mistakes: Sequence[Mistake],
    start: Payload,
    made: Payload | None,
    told: Sequence[CallDetails],
) -> Html:
    """Render the part of the form that follows the edit.

    ``made`` is None while there are mistakes; the target is shown anyway.
    """
    return tag(
        "div",
        _mistakes(mistakes) if mistakes else None,
        _where(outlook),
        _problem(context, outlook),
        _edit(wanted, start, made) if made is not None else None,
        _boundaries(wanted.boundaries, told),
        contained(_containment(outlook.goal), wanted.boundaries),
        tag("p", _VARIABLES[wanted.environment_variables]),
        id="plan",
        aria_live="polite",
        data_denied="yes" if outlook.is_denied else None,
        data_reason="yes" if outlook.needs_reason else None,
    )


def _containment(goal: ReplayTarget | None) -> Containment | None:
    return None if goal is None or goal.agent is None else containment_of(goal.agent)


def _mistakes(found: Sequence[Mistake]) -> Html:
    items = (
        tag(
            "li",
            link(f"#{one.field}", _place(one), data_line=one.line, data_column=one.column),
            f": {one.message}",
        )
        for one in found
    )
    return tag("div", tag("ul", *items), class_="alert mistakes")


def _place(one: Mistake) -> str:
    return f"{one.field}, {position_text(one)}" if one.line else one.field


def _problem(context: RequestContext, outlook: ReplayPlan) -> Html | None:
    """Show the problem, with a link to solve it."""
    problem = outlook.problem
    if problem is None:
        return None
    if outlook.goal is not None and outlook.denied:
        return denial(context, outlook.denied, outlook.goal.place)
    if problem.code not in _MISSING:
        return alert(problem)
    place, words = _MISSING[problem.code]
    return alert(problem, hint=link(place, words))


def _where(outlook: ReplayPlan) -> Html | None:
    goal = outlook.goal
    if goal is None:
        return None
    production = goal.kind == "production"
    agent = "none is online" if goal.agent is None else goal.agent.name or goal.agent.agent_id
    return tag(
        "div",
        tag(
            "p", tag("strong", goal.place.environment), " is ", tag("b", goal.kind), class_="where"
        ),
        facts(
            (
                ("Agent", agent),
                ("Version", "" if goal.agent is None else goal.agent.version),
                (
                    "Permission used" if outlook.problem is None else "Permission needed",
                    _permissions(outlook.permissions),
                ),
                ("Granted by", outlook.rule),
            )
        ),
        class_=f"environment {'production' if production else 'safe'}",
    )


def _permissions(names: Sequence[Permission]) -> Html:
    first, *others = (tag("code", one) for one in names)
    return fragment(first, *((" and ", one) for one in others))


def _edit(wanted: ReplayRequest, start: Payload, made: Payload) -> Html:
    if made == start:
        return tag("p", "The payload is unchanged.", class_="dim")
    said = wanted.patch if wanted.patch is not None else wanted.modified_payload
    name = "Patch" if wanted.patch is not None else "Sections in place of the recorded ones"
    return fragment(
        tag("h3", "What is changed"),
        side_by_side(to_document(start), to_document(made), ("recorded", "edited")),
        folded(name, block(pretty(msgspec.to_builtins(said)))),
    )


def _boundaries(mode: Boundaries, told: Sequence[CallDetails]) -> Html:
    calls = Counter((one.call.type, one.call.operation) for one in told)
    live = mode == "live"
    items = [
        tag(
            "li",
            badge("live", tone="bad") if live else badge("recorded", tone="good"),
            " ",
            tag("b", breakable(operation)),
            f" {kind} × {number}",
        )
        for (kind, operation), number in calls.most_common(_LISTED)
    ]
    none = tag("p", "The exchange made no outbound calls.", class_="dim")
    more = len(calls) - _LISTED
    return fragment(
        tag("h3", "Outbound calls"),
        tag("p", CALLS[mode]),
        tag("ul", *items, class_="plain") if items else none,
        tag("p", f"and {count(more, 'operation')} more", class_="dim") if more > 0 else None,
    )


CALLS: Final[dict[Boundaries, str]] = {
    "recorded": "A recorded call gets its recorded response. A call whose request has changed gets it "
    "as well, and is reported. A call without a counterpart in the recording is refused.",
    "recorded_then_live": "A recorded call gets its recorded response. Every other call is made for "
    "real.",
    "live": "Every outbound call is made for real and has real effects again.",
}
_LIVE: Final = "A live replay refuses nothing: drivers and files work as in any request."
_MEMORY: Final = (
    "The memory of the app changes as in any request: module variables, caches, counters."
)
_LIMITS: Final = (
    "Not contained: files that the app had open before the replay, log files of logging handlers, "
    "other processes, threads outside the replay that get work from it without a queue, and files and "
    "connections that C libraries open themselves."
)
_TREATED: Final = {
    "allow": ("executed", "bad", "statements are executed for real"),
    "refuse": ("refused", "good", "each statement is refused"),
    "undeclared": ("undeclared", "warn", "the app has not declared how a replay treats it"),
}


def contained(containment: Containment | None, boundaries: Boundaries) -> Html:
    """Render the effects of a replay besides its outbound calls. ``containment`` is None if no app
    agent is online."""
    lines: list[Html] = []
    if boundaries == "live":
        lines.append(tag("p", _LIVE))
    elif containment is not None:
        lines.append(_drivers(effective_containment(containment, boundaries)))
        lines.append(tag("p", "Files: ", _files(containment)))
    lines.append(tag("p", _MEMORY))
    if boundaries != "live":
        lines.append(tag("p", _LIMITS, class_="dim"))
    return fragment(tag("h3", "Drivers, files and memory"), *lines)


def _drivers(containment: Containment) -> Html:
    if not containment.drivers:
        return tag("p", "The app has loaded no drivers that Reenact cannot record.")
    return fragment(
        tag("p", "Loaded drivers that Reenact cannot record:"),
        tag("ul", *(tag("li", *_driver(one)) for one in containment.drivers), class_="plain"),
    )


def _driver(one: DriverUse) -> Iterator[Html | str]:
    word, tone, said = _TREATED[one.treatment]
    yield badge(word, tone=tone)
    yield " "
    yield tag("b", one.name)
    yield f": {said}"


def _files(containment: Containment) -> str:
    if containment.files == "allow":
        return "they are written, renamed and deleted for real."
    refused = "writing, renaming and deleting is refused"
    if not containment.scratch:
        return f"{refused}, except for temporary files."
    return f"{refused}, except for temporary files and in {', '.join(containment.scratch)}."


def drivers_of(containment: Containment) -> Html:
    """Show the loaded drivers in a line."""
    if not containment.drivers:
        return tag("span", "none", class_="dim")
    items: list[Html | str] = []
    for one in containment.drivers:
        word, tone, said = _TREATED[one.treatment]
        items += [badge(f"{one.name} {word}", tone=tone, title=said), " "]
    return tag("span", *items, class_="notes")


def files_of(containment: Containment) -> str:
    """Describe the treatment of files in a line."""
    if containment.files == "allow":
        return "written for real"
    places = ", ".join(("temporary files", *containment.scratch))
    return f"writes refused, except: {places}"
