"""Causes visible in model and tool requests: prompts, tool definitions, settings, arguments."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import msgspec

from reenact.diff.sequences import mark_words
from reenact.diff.terminal_text import clip, preview
from reenact.engine.divergence.causes import Cause, Remedy, Sure
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
            yield _cause(case, family, found)


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


class _Words(msgspec.Struct, frozen=True):
    """Texts about a part of a request; ``{}`` stands for the places that differ."""

    name: str
    sure: Sure
    text: str


_PARTS = {
    "prompt": _Words("prompt", "likely", "The prompt has changed: {}."),
    "history": _Words(
        "history",
        "likely",
        "The program sends back a model response that differs from the response it got: {}. Its "
        "history of the conversation has changed.",
    ),
    "tool_result": _Words("tool_result", "likely", "The result of a tool has changed: {}."),
    "tool_definition": _Words(
        "tool_definition", "certain", "The tools that are offered to the model have changed: {}."
    ),
    "model": _Words("model", "certain", "A different model is requested."),
    "setting": _Words("setting", "certain", "The settings of the model call have changed: {}."),
    "paging": _Words("paging", "likely", "A different part of a list is requested: {}."),
    "arguments_of_tool": _Words(
        "tool_arguments", "likely", "The arguments of the tool have changed: {}."
    ),
}


def _cause(case: Case, family: str, found: _Found) -> Cause:
    words = _PARTS[family]
    evidence = [*_words(found)]
    if family == "tool_result":
        evidence.append(
            "It was run for real: what a tool does inside the program is not re-enacted unless a "
            "boundary covers it."
        )
    return Cause(
        name=words.name,
        sure=words.sure,
        text=words.text.format(_where(found)),
        evidence=evidence,
        ways=[*_ways(case, family, found)],
        explains=_paths(found),
    )


def _ways(case: Case, family: str, found: _Found) -> Iterator[Remedy]:
    if family == "tool_result":
        yield Remedy(
            text="Have its result re-enacted: put @reenact.boundary (or @reenact.tool) on the tool, "
            "and record again.",
            command=case.again.rewrite,
        )
        yield update_remedy(case, "If the tool was changed on purpose, make again what differs.")
        return
    yield update_remedy(case)
    if family == "prompt":
        yield Remedy(
            text="If it is not, look where the program makes this text, and what it reads for it."
        )
    elif family == "model":
        yield from _trying(case, found[0][0].gap)
    elif family == "setting":
        places = [place for place, _ in found]
        only = ignore_remedy(case, places, "If it does not matter, leave it out.")
        if only is not None:
            yield only


def _trying(case: Case, gap: Gap) -> Iterator[Remedy]:
    if case.again.fork is not None and isinstance(gap.observed, str):
        start, end = case.again.fork
        yield Remedy(
            text="To try the new model and keep the recording, fork the run: it continues with the new model.",
            command=f"{start} --model {shlex.quote(gap.observed)} {end}",
        )


def _paths(found: _Found) -> list[str]:
    return [place.gap.path for place, _ in found]


def _where(found: _Found) -> str:
    told = list(dict.fromkeys(f"{spot.words}{_NEW[place.gap.kind]}" for place, spot in found))
    more = len(told) - _LISTED
    return ", ".join(told[:_LISTED]) + (f" and {more} more" if more > 0 else "")


_NEW = {"changed": "", "added": " is new", "removed": " was removed"}


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
