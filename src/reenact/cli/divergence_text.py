"""The divergences of a replay on a screen: which call, what was asked, what is recorded, what it got."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Any

import msgspec

from reenact.cli.render import clip, count, escape_controls, preview
from reenact.engine.divergence.model import Divergence, Gap
from reenact.errors import UsageError
from reenact.exchange.comparison.calls import name_operation, request_in
from reenact.exchange.comparison.result import ANSWERS
from reenact.exchange.patch import format_pointer
from reenact.format.paths import parse

__all__ = ["divergence_lines"]

_LISTED = 6
_TOLD = 20
_VALUE = 120
_NARROWEST = 40


class _Told(msgspec.Struct, frozen=True):
    """One divergence; ``raw`` is all there is of one that cannot be read. ``answer`` says what the
    call got."""

    raw: dict[str, Any]
    known: Divergence | None
    answer: str


def _read(document: dict[str, Any]) -> _Told:
    answer = next((text for name, text in ANSWERS.items() if name == document.get("answer")), "")
    try:
        return _Told(document, Divergence.from_json(document), answer)
    except UsageError:
        return _Told(document, None, answer)


def divergence_lines(divergences: Iterable[Any], width: int) -> Iterator[str]:
    """Each in a few lines; ``width`` 0 breaks none."""
    told = _worth_telling([_read(one) for one in divergences if isinstance(one, dict)])
    room = max(_NARROWEST, width - 2) if width else 0
    for one in told[:_TOLD]:
        yield ""
        if one.known is None:
            yield f"divergence  {preview(one.raw, _VALUE)}"
            continue
        yield f"divergence  {escape_controls(one.known.code)}: {_operation(one.known)}"
        yield from (f"  {line}" for line in _about(one.known, one.answer, room))
    if len(told) > _TOLD:
        yield ""
        yield f"and {count(len(told) - _TOLD, 'more divergence')}"


def _worth_telling(told: list[_Told]) -> list[_Told]:
    """A call that the replay waited for in vain is left over, too: that is told once."""
    waited = {
        one.known.event_seq
        for one in told
        if one.known is not None and "stalled" in one.known.flags
    }
    return [one for one in told if one.known is None or not _is_left_over(one.known, waited)]


def _is_left_over(one: Divergence, waited: set[int | None]) -> bool:
    return one.code == "event_missing" and not one.flags and one.event_seq in waited


def _operation(one: Divergence) -> str:
    """What was called, as among the calls."""
    seen = one.expected if one.code == "event_missing" else one.observed or one.expected
    if seen is None:
        return f"lane {escape_controls(one.lane)}"
    request = request_in(seen.request) if isinstance(seen.request, dict) else None
    return escape_controls(name_operation(seen.operation or seen.type, request))


def _about(one: Divergence, answer: str, width: int) -> Iterator[str]:
    shown = [gap for gap in one.paths if gap.path not in ("$.op", "$.source")]
    for gap in shown[:_LISTED]:
        yield from _wrapped(_place(gap), width)
    more = len(shown[_LISTED:]) + one.more_paths
    if shown and more:
        yield f"and {count(more, 'more place')}"
    if not shown:
        yield from _wrapped(escape_controls(one.detail), width)
    if answer:
        yield answer


def _place(gap: Gap) -> str:
    path, asked, recorded = _pointer(gap.path), gap.observed, gap.expected
    if gap.kind == "added":
        return f"{path} is {_value(asked)}, and is not in the recording"
    if gap.kind == "removed":
        return f"{path} is missing, recorded {_value(recorded)}"
    return f"{path} is {_value(asked)}, recorded {_value(recorded)}"


def _pointer(path: str) -> str:
    """As among the calls; a path that was cut as it is."""
    try:
        steps = parse(path)
    except UsageError:
        return clip(escape_controls(path), _VALUE)
    inside = steps if steps[:1] == ("request",) else ("request", *steps)
    return clip(escape_controls(format_pointer(inside)), _VALUE)


def _value(value: Any) -> str:
    return preview(value, _VALUE)


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(text, width, break_on_hyphens=False) if width else [text]
