"""Causes visible in model and tool requests: prompts, tool definitions, settings, arguments."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from reenact.diff.sequences import mark_words
from reenact.diff.terminal_text import clip, preview
from reenact.engine.divergence.causes import Cause, Remedy
from reenact.engine.divergence.model import Gap
from reenact.views.explain.case import (
    Case,
    DifferingPlace,
    RequestLocation,
    ignore_remedy,
    locate,
    update_remedy,
)

__all__ = ["find_model_causes"]

_PAGING = frozenset(
    "after before count cursor first last limit max_results maxresults offset page page_size page_token "
    "pagesize pagetoken per_page skip size start top".split()
)
_ROOM = 160
_LONGEST = 20_000
_LISTED = 3
_RESULT_ROLES = ("tool", "function", "toolResult", "function_call_output")
_OWN_ROLES = ("assistant", "model", "function_call", "reasoning")


def find_model_causes(case: Case) -> Iterator[Cause]:
    """Yield one cause for each part of the request that differs."""
    groups: dict[str, list[tuple[DifferingPlace, RequestLocation]]] = {}
    for place in case.places:
        spot = locate(case, place)
        groups.setdefault(_family(place, spot, case), []).append((place, spot))
    for family, found in groups.items():
        if family:
            yield _MAKERS[family](case, found)


def _family(place: DifferingPlace, spot: RequestLocation, case: Case) -> str:
    if spot.kind in ("message", "system"):
        if spot.name in _RESULT_ROLES:
            return "tool_result"
        return "history" if spot.name in _OWN_ROLES else "prompt"
    if spot.kind in ("tool", "model"):
        return {"tool": "tool_definition", "model": "model"}[spot.kind]
    if spot.name.lower() in _PAGING and not case.is_model_call:
        return "paging"
    return {"setting": "setting", "argument": "arguments_of_tool"}.get(spot.kind, "")


_Found = list[tuple[DifferingPlace, RequestLocation]]


def _prompt(case: Case, found: _Found) -> Cause:
    where = _where(found)
    return Cause(
        name="prompt",
        sure="likely",
        text=f"The prompt has changed: {where}.",
        evidence=[*_words(found)],
        ways=[
            update_remedy(case),
            Remedy(
                text="If it is not, look where the program makes this text, and what it reads for it."
            ),
        ],
        explains=_paths(found),
    )


def _history(case: Case, found: _Found) -> Cause:
    return Cause(
        name="history",
        sure="likely",
        text="The program gives back another answer of the model than it was given: "
        f"{_where(found)}. What it keeps of the conversation has changed.",
        evidence=[*_words(found)],
        ways=[update_remedy(case)],
        explains=_paths(found),
    )


def _tool_result(case: Case, found: _Found) -> Cause:
    return Cause(
        name="tool_result",
        sure="likely",
        text=f"A tool gave another result than it did: {_where(found)}.",
        evidence=[
            *_words(found),
            "It was run for real: what a tool does inside the program is not re-enacted unless a boundary "
            "covers it.",
        ],
        ways=[
            Remedy(
                text="Have its result re-enacted: put @reenact.boundary (or @reenact.tool) on the tool, "
                "and record again.",
                command=case.again.rewrite,
            ),
            update_remedy(case, "If the tool was changed on purpose, make again what differs."),
        ],
        explains=_paths(found),
    )


def _tool_definition(case: Case, found: _Found) -> Cause:
    kinds = {place.gap.kind for place, _ in found}
    what = {
        frozenset({"added"}): "A tool or a part of one is offered that was not",
        frozenset({"removed"}): "A tool or a part of one is not offered any more",
    }.get(frozenset(kinds), "The tools that are offered to the model have changed")
    return Cause(
        name="tool_definition",
        sure="certain",
        text=f"{what}: {_where(found)}.",
        evidence=[*_words(found)],
        ways=[update_remedy(case)],
        explains=_paths(found),
    )


def _model(case: Case, found: _Found) -> Cause:
    gap = found[0][0].gap
    return Cause(
        name="model",
        sure="certain",
        text=f"Another model is asked: {_value(gap.observed)}, and it was {_value(gap.expected)}.",
        ways=[
            update_remedy(case, "If the change is intended, ask the new one."),
            *_trying(case, gap),
        ],
        explains=_paths(found),
    )


def _trying(case: Case, gap: Gap) -> Iterator[Remedy]:
    if case.again.fork is not None and isinstance(gap.observed, str):
        start, end = case.again.fork
        yield Remedy(
            text="To try it and keep what was recorded, fork the run: it goes on with the new one.",
            command=f"{start} --model {shlex.quote(gap.observed)} {end}",
        )


def _setting(case: Case, found: _Found) -> Cause:
    ways = [update_remedy(case)]
    only = ignore_remedy(
        case, [place for place, _ in found], "If it does not matter, leave it out."
    )
    return Cause(
        name="setting",
        sure="certain",
        text=f"The model is asked with other settings: {_where(found)}.",
        evidence=[*_words(found)],
        ways=ways if only is None else [*ways, only],
        explains=_paths(found),
    )


def _paging(case: Case, found: _Found) -> Cause:
    return Cause(
        name="paging",
        sure="likely",
        text=f"Another part of a list is asked for: {_where(found)}.",
        evidence=[*_words(found)],
        ways=[update_remedy(case)],
        explains=_paths(found),
    )


def _argument(case: Case, found: _Found) -> Cause:
    return Cause(
        name="tool_arguments",
        sure="likely",
        text=f"It is called with something else: {_where(found)}.",
        evidence=[*_words(found)],
        ways=[update_remedy(case)],
        explains=_paths(found),
    )


_MAKERS: dict[str, Any] = {
    "prompt": _prompt,
    "history": _history,
    "tool_result": _tool_result,
    "tool_definition": _tool_definition,
    "model": _model,
    "setting": _setting,
    "paging": _paging,
    "arguments_of_tool": _argument,
}


def _paths(found: _Found) -> list[str]:
    return [place.gap.path for place, _ in found]


def _where(found: _Found) -> str:
    told = list(dict.fromkeys(f"{spot.words}{_NEW[place.gap.kind]}" for place, spot in found))
    more = len(told) - _LISTED
    return ", ".join(told[:_LISTED]) + (f" and {more} more" if more > 0 else "")


_NEW = {"changed": "", "added": " is new", "removed": " is gone"}


def _words(found: _Found) -> Iterator[str]:
    """Yield the changes word by word."""
    for place, spot in found[:_LISTED]:
        yield f"{spot.words}: {_change(place)}"


def _change(place: DifferingPlace) -> str:
    one, other = place.gap.expected, place.gap.observed
    if place.gap.kind == "added":
        return f"{{+{_value(other)}+}}"
    if place.gap.kind == "removed":
        return f"[-{_value(one)}-]"
    if isinstance(one, str) and isinstance(other, str) and len(one) + len(other) < _LONGEST:
        return clip(mark_words(one, other), _ROOM)
    return f"[-{_value(one)}-]{{+{_value(other)}+}}"


def _value(value: Any) -> str:
    return preview(value, _ROOM)
