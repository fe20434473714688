"""Deciding whether a difference is noise, by the rules that hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from reenact.exchange.comparison.patterns import fits
from reenact.exchange.comparison.rules import NoiseRule
from reenact.exchange.pointer import Tokens, parse_pointer

__all__ = ["ALWAYS", "Noise", "covers"]

ALWAYS: Final = (
    NoiseRule("/start/headers/traceparent"),
    NoiseRule("/start/headers/tracestate"),
    NoiseRule("/result/headers/date"),
    NoiseRule("/result/headers/traceparent"),
)
"""Ids and times that are new in every exchange. What they cover is not even shown."""


class Noise:
    """The rules, by section, ready to be asked."""

    def __init__(self, rules: Iterable[NoiseRule] = ()) -> None:
        self._rules: defaultdict[str, list[tuple[Tokens, NoiseRule]]] = defaultdict(list)
        for rule in rules:
            place = parse_pointer(rule.path)
            self._rules[place[0]].append((place, rule))
        self._unordered = {
            section: [place for place, rule in those if rule.kind == "unordered"]
            for section, those in self._rules.items()
        }

    def about(self, place: Tokens, before: Any, after: Any) -> bool:
        """Is a difference at ``place`` noise? A side that has nothing there is ``UNSET``."""
        return any(
            _TESTS[rule.kind](pattern, rule, place, before, after)
            for pattern, rule in self._rules.get(place[0], ())
        )

    def has_unordered(self, section: str) -> bool:
        """May there be lists in ``section`` whose order does not matter?"""
        return bool(self._unordered.get(section))

    def unordered(self, place: Tokens) -> bool:
        """Is the list at ``place`` one of them?"""
        return any(covers(pattern, place) for pattern in self._unordered.get(place[0], ()))

    def mask(self, place: Tokens, value: Any) -> Any:
        """``value`` with all that may differ taken out, for comparing items of unordered lists."""
        if isinstance(value, dict):
            return {
                key: self.mask(below, item)
                for key, item in value.items()
                if not self._ignored(below := (*place, key), item)
            }
        if isinstance(value, (list, tuple)):
            return [self.mask((*place, str(index)), item) for index, item in enumerate(value)]
        return value

    def _ignored(self, place: Tokens, value: Any) -> bool:
        """Would any other value that obeys the same rule do? Tolerances are not transitive, and so
        do not count."""
        return any(
            rule.kind != "tolerance" and _TESTS[rule.kind](pattern, rule, place, value, value)
            for pattern, rule in self._rules.get(place[0], ())
        )


def covers(pattern: Sequence[str], place: Sequence[str], *, below: bool = False) -> bool:
    """Does ``pattern``, with ``*`` and ``**``, name ``place``, or with ``below`` a place above it?"""
    reached = {0}
    for step in place:
        reached = _closed(pattern, reached)
        if below and len(pattern) in reached:
            return True
        reached = {
            at + (pattern[at] != "**")
            for at in reached
            if at < len(pattern) and pattern[at] in ("*", "**", step)
        }
    return len(pattern) in _closed(pattern, reached)


def _closed(pattern: Sequence[str], reached: set[int]) -> set[int]:
    """With what ``**`` reaches by standing for nothing."""
    found = set(reached)
    for at in sorted(reached):
        while at < len(pattern) and pattern[at] == "**":
            at += 1
            found.add(at)
    return found


def _ignore(pattern: Tokens, rule: NoiseRule, place: Tokens, before: Any, after: Any) -> bool:
    return covers(pattern, place, below=True)


def _present(pattern: Tokens, rule: NoiseRule, place: Tokens, before: Any, after: Any) -> bool:
    if covers(pattern, place):
        return before is not msgspec.UNSET and after is not msgspec.UNSET
    return covers(pattern, place, below=True)


def _regex(pattern: Tokens, rule: NoiseRule, place: Tokens, before: Any, after: Any) -> bool:
    return (
        isinstance(before, str)
        and isinstance(after, str)
        and covers(pattern, place)
        and fits(rule.pattern, before)
        and fits(rule.pattern, after)
    )


def _tolerance(pattern: Tokens, rule: NoiseRule, place: Tokens, before: Any, after: Any) -> bool:
    if not (_is_number(before) and _is_number(after) and covers(pattern, place)):
        return False
    allowed = max(rule.absolute, rule.relative * float(max(abs(before), abs(after))))
    return bool(abs(before - after) <= allowed)


def _unordered(pattern: Tokens, rule: NoiseRule, place: Tokens, before: Any, after: Any) -> bool:
    return False  # lists are brought into one order before they are compared


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63


_TESTS = {
    "ignore": _ignore,
    "present": _present,
    "regex": _regex,
    "tolerance": _tolerance,
    "unordered": _unordered,
}
