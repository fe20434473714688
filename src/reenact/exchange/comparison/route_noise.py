"""Noise rules of a route: validation, the rules that always apply, and rules learned from replays.

A path is a JSON pointer with wildcards, as in :mod:`reenact.policy.noise`, whose first step is the
section:

    /start/headers/…  /start/body/…       start payload
    /result/…  /result/error/message      result
    /processors/<processorId>/output/…    and …/changes/body/…, …/status, …/order
    /calls/<operation>/response/…         and …/request/…, …/error/…

Rules are learned from two unedited replays, whose differences are noise. Each learned rule is as
specific as possible, so real changes remain visible: an id must remain an id, a time a time, a
number stays close, and a reordered list keeps its items.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import msgspec

from reenact.errors import UsageError
from reenact.exchange.comparison.differences import Changed
from reenact.exchange.comparison.result import Comparison
from reenact.format.canonical import digest
from reenact.format.json_path import format_pointer, parse_pointer
from reenact.policy.noise import NoiseRule
from reenact.policy.patterns import check_pattern

__all__ = [
    "MOST_RULES",
    "SECTIONS",
    "VERSION",
    "dump_rules",
    "learn",
    "merged",
    "propose",
    "read_rules",
]

VERSION: Final = 1
MOST_RULES: Final = 1_000
SECTIONS: Final = ("start", "result", "processors", "calls")
_MOST_STEPS: Final = 64


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    version: Literal[1]
    rules: list[dict[str, Any]]


def read_rules(value: Any) -> tuple[NoiseRule, ...]:
    """The rules in ``value``: ``{"version": 1, "rules": […]}``, or the list alone.

    Raises :class:`UsageError`, which names the number of the rule and the field.
    """
    if not isinstance(value, list):
        try:
            value = msgspec.convert(value, _Document).rules
        except msgspec.ValidationError as error:
            raise UsageError(f"not a list of noise rules: {error}", hint=_HINT) from None
    if len(value) > MOST_RULES:
        raise UsageError(f"more than {MOST_RULES} noise rules", hint="use * and ** in their paths")
    return tuple(_read(number, one) for number, one in enumerate(value, 1))


_HINT: Final = 'such as {"version": 1, "rules": [{"path": "/result/body/id", "kind": "ignore"}]}'


def _read(number: int, value: Any) -> NoiseRule:
    try:
        rule = msgspec.convert(value, NoiseRule)
        _check(rule)
    except msgspec.ValidationError as error:
        raise UsageError(f"noise rule {number}: {error}", hint=_HINT) from None
    except UsageError as error:
        raise UsageError(
            f"noise rule {number}: {error.message}", hint=error.hint or _HINT
        ) from None
    return rule


def _check(rule: NoiseRule) -> None:
    steps = parse_pointer(rule.path)
    if steps[0] not in SECTIONS:
        raise UsageError(
            f"its path begins with {steps[0][:80]!r}",
            hint=f"begin with one of {', '.join(f'/{name}' for name in SECTIONS)}",
        )
    if len(steps) > _MOST_STEPS:
        raise UsageError(f"its path has more than {_MOST_STEPS} steps", hint="use **")
    if rule.kind == "regex":
        check_pattern(rule.pattern)
    for kind, given in (
        ("regex", bool(rule.pattern)),
        ("tolerance", bool(rule.absolute or rule.relative)),
    ):
        if given != (rule.kind == kind):
            need = "needs" if rule.kind == kind else "cannot have"
            what = "a pattern" if kind == "regex" else "absolute or relative"
            raise UsageError(f"a rule of kind {rule.kind} {need} {what}", hint=_HINT)


def dump_rules(rules: tuple[NoiseRule, ...]) -> dict[str, Any]:
    """Return a document for :func:`read_rules`."""
    return {"version": VERSION, "rules": msgspec.to_builtins(rules)}


def merged(rules: tuple[NoiseRule, ...], others: tuple[NoiseRule, ...]) -> tuple[NoiseRule, ...]:
    """Both, each path and kind once; where they differ in the rest, ``others`` holds."""
    kept = {(rule.path, rule.kind): rule for rule in (*rules, *others)}
    return tuple(kept.values())


_SHAPES: Final = (
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    r"[0-9A-F]{8}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{12}",
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:?\d{2})?",
    r"\d{4}-\d{2}-\d{2}",
    r"\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT",
)
_SLACK: Final = 10
"""Factor by which numbers can differ more than the two observed ones."""
_NOTE: Final = "differed between two unchanged replays"


def learn(comparison: Comparison) -> tuple[NoiseRule, ...]:
    """Return one rule for each difference of ``comparison``, with ``*`` for list indices.

    A failure on one side is never noise.
    """
    found: dict[str, NoiseRule] = {}
    for rule in _all(comparison):
        known = found.setdefault(rule.path, rule)
        if known != rule:
            found[rule.path] = NoiseRule(rule.path, _weaker(known, rule), note=_NOTE)
    return tuple(found[path] for path in sorted(found))


def propose(root: tuple[str, ...], change: Changed) -> tuple[NoiseRule, ...]:
    """Return rules that make ``change`` in ``root`` noise, the most specific first."""
    place = (*root, *parse_pointer(change.path))
    closest = msgspec.structs.replace(_rule(_general(place), change), note="")
    both = change.before is not msgspec.UNSET and change.after is not msgspec.UNSET
    weaker = (NoiseRule(closest.path, "present"),) if both else ()
    return tuple(dict.fromkeys((closest, *weaker, NoiseRule(closest.path))))


def _weaker(one: NoiseRule, other: NoiseRule) -> Any:
    return "ignore" if "ignore" in (one.kind, other.kind) else "present"


def _all(comparison: Comparison) -> Iterator[NoiseRule]:
    yield from _rules(("start",), comparison.start)
    yield from _rules(("result",), comparison.result)
    for processor in comparison.processors:
        yield from _whole(processor.state, processor.noise, "processors", processor.processor_id)
        yield from _rules(("processors", processor.processor_id), processor.changes)
    for call in comparison.calls:
        yield from _whole(call.state, call.noise, "calls", call.operation)
        yield from _rules(("calls", call.operation), call.changes)


def _whole(state: str, noise: bool, *place: str) -> Iterator[NoiseRule]:
    if state in ("added", "removed") and not noise:
        yield NoiseRule(format_pointer(place), note=_NOTE)


def _rules(root: tuple[str, ...], changes: Iterable[Changed]) -> Iterator[NoiseRule]:
    counted = [change for change in changes if not change.noise]
    lists = _reordered(counted)
    for place in lists:
        yield NoiseRule(_general((*root, *place)), "unordered", note=_NOTE)
    for change in counted:
        place = parse_pointer(change.path)
        if place[:-1] not in lists:
            yield _rule(_general((*root, *place)), change)


def _reordered(changes: Iterable[Changed]) -> set[tuple[str, ...]]:
    """Lists whose items are the same on both sides, in another order."""
    items: defaultdict[tuple[str, ...], list[Changed]] = defaultdict(list)
    for change in changes:
        place = parse_pointer(change.path)
        if change.op == "replace" and place and place[-1].isdecimal():
            items[place[:-1]].append(change)
    return {
        place
        for place, those in items.items()
        if len(those) > 1
        and sorted(digest(one.before) for one in those)
        == sorted(digest(one.after) for one in those)
    }


def _general(place: tuple[str, ...]) -> str:
    """Numbers are indices: what differs in one item of a list will differ in the others."""
    head = place[:2] if place[0] in ("processors", "calls") else place[:1]
    return format_pointer(
        (*head, *("*" if step.isdecimal() else step for step in place[len(head) :]))
    )


def _rule(path: str, change: Changed) -> NoiseRule:
    before, after = change.before, change.after
    if before is msgspec.UNSET or after is msgspec.UNSET:
        return NoiseRule(path, note=_NOTE)
    if isinstance(before, str) and isinstance(after, str):
        pattern = next((one for one in (*_SHAPES, *_hex(before)) if _both(one, before, after)), "")
        if pattern:
            return NoiseRule(path, "regex", pattern, note=_NOTE)
    if isinstance(before, float) or isinstance(after, float):
        return _near(path, before, after)
    return NoiseRule(path, "present", note=_NOTE)


def _hex(text: str) -> Iterator[str]:
    if len(text) >= 8:
        yield f"[0-9a-f]{{{len(text)}}}"


def _both(pattern: str, before: str, after: str) -> bool:
    return all(re.fullmatch(pattern, text) for text in (before, after))


def _near(path: str, before: Any, after: Any) -> NoiseRule:
    numbers = all(
        isinstance(one, (int, float)) and not isinstance(one, bool) for one in (before, after)
    )
    apart = abs(before - after) if numbers else 0
    if not 0 < apart < float("inf"):
        return NoiseRule(path, "present", note=_NOTE)
    return NoiseRule(path, "tolerance", absolute=_SLACK * apart, note=_NOTE)
