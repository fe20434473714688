"""Noise filter: rules for differences that are shown but do not count.

A rule has a path, a JSON pointer with ``*`` for one step and ``**`` for any number of steps. Its first
step is the section:

    /start/headers/…  /start/body/…       start payload
    /result/…  /result/error/message      result
    /processors/<processorId>/output/…    and …/changes/body/…, …/status, …/order
    /calls/<operation>/response/…         and …/request/…, …/error/…

Kinds: ``ignore`` (any value or none), ``present`` (any value on both sides), ``regex`` (both values match
``pattern``), ``tolerance`` (numbers that differ by at most ``absolute``, or by ``relative`` times the larger
one), ``unordered`` (lists with the same items in any order).

Patterns are untrusted and must not keep a server busy, because Python's engine backtracks. The number of
possible matches is estimated in advance, in bits, because each optional part doubles it. A pattern is
refused if it has too many, repeats an ambiguous part, or looks back or ahead. Texts longer than
:data:`LONGEST` never match.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

import msgspec

from reenact.errors import UsageError
from reenact.exchange.patch import Tokens, parse_pointer

__all__ = [
    "ALWAYS",
    "LONGEST",
    "MOST_RULES",
    "SECTIONS",
    "VERSION",
    "Noise",
    "NoiseRule",
    "check_pattern",
    "covers",
    "dump_rules",
    "fits",
    "merged",
    "read_rules",
]

LONGEST: Final = 256
"""Characters of a text that is looked at."""
_MOST: Final = 500
_ANY: Final = math.log2(LONGEST)
_MOST_BITS: Final = 24.0
_COUNT: Final = re.compile(r"\{(\d*)(,?)(\d*)\}")
_CLASS: Final = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)


class _Group:
    """A group that is being read: in how many ways, in bits, and with how many alternatives."""

    __slots__ = ("alternatives", "bits")

    def __init__(self) -> None:
        self.bits = 0.0
        self.alternatives = 1

    def whole(self) -> float:
        return self.bits + math.log2(self.alternatives)


def check_pattern(pattern: str) -> None:
    """Raises :class:`UsageError` unless ``pattern`` can be used."""
    if len(pattern) > _MOST:
        raise _refused(f"it has more than {_MOST} characters")
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise _refused(str(error)) from None
    if _ways(pattern) > _MOST_BITS:
        raise _refused("a text could match it in too many ways: it has too many repetitions")


def fits(pattern: str, text: str) -> bool:
    """Does the whole of ``text`` match? ``pattern`` was checked."""
    return len(text) <= LONGEST and _compiled(pattern).fullmatch(text) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _ways(pattern: str) -> float:
    """Of a pattern that can be compiled."""
    groups = [_Group()]
    at = 0
    last = 0.0  # the bits of what a repetition would be about
    while at < len(pattern):
        char = pattern[at]
        repetition = _repetition(pattern, at) if char in "*+?{" else None
        if repetition is not None:
            at, least, most = repetition
            groups[-1].bits += _repeated(last, least, most)
            last = 0.0
            continue
        last = 0.0
        if char == "\\":
            at = _escape(pattern, at)
        elif char == "[":
            found = _CLASS.match(pattern, at)
            at = found.end() if found else at + 1
        elif char == "(":
            at = _begin(pattern, at)
            groups.append(_Group())
        elif char == ")":
            last = groups.pop().whole()
            groups[-1].bits += last
            at += 1
        else:
            groups[-1].alternatives += char == "|"
            at += 1
    return groups[0].whole()


def _repetition(pattern: str, at: int) -> tuple[int, int, int | None] | None:
    """Return the end, minimum and maximum of a repetition, or None for a literal brace."""
    least, most = {"*": (0, None), "+": (1, None), "?": (0, 1), "{": (0, None)}[pattern[at]]
    end = at + 1
    if pattern[at] == "{":
        found = _COUNT.match(pattern, at)
        if found is None or not (found[1] or found[2]):
            return None
        end, least = found.end(), int(found[1] or 0)
        most = (int(found[3]) if found[3] else None) if found[2] else least
    if pattern[end : end + 1] in ("?", "+"):
        end += 1
    return end, least, most


def _repeated(bits: float, least: int, most: int | None) -> float:
    """Return the additional bits of a repetition."""
    if most == least:
        return bits * (least - 1)
    if most == 1:
        return 1.0
    if bits:
        raise _refused("it repeats what has itself a repetition or a choice in it")
    return _ANY if most is None else min(_ANY, math.log2(most - least + 1))


def _escape(pattern: str, at: int) -> int:
    if pattern[at + 1].isdigit():
        raise _refused("it refers back to a group")
    return at + 2


def _begin(pattern: str, at: int) -> int:
    if pattern[at + 1 : at + 2] != "?":
        return at + 1
    if pattern[at + 1 : at + 3] == "?:":
        return at + 3
    raise _refused("its groups are ( ) and (?: ), and no others")


def _refused(why: str) -> UsageError:
    return UsageError(f"the regular expression cannot be used: {why}", hint="make it simpler")


VERSION: Final = 1
MOST_RULES: Final = 1_000
SECTIONS: Final = ("start", "result", "processors", "calls")
_MOST_STEPS: Final = 64

RuleKind = Literal["ignore", "present", "regex", "tolerance", "unordered"]
_Size = Annotated[float, msgspec.Meta(ge=0)]


class NoiseRule(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """One rule. It is about what stands at ``path``, and ``ignore`` and ``present`` about what is
    below it as well."""

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=2_048)]
    kind: RuleKind = "ignore"
    pattern: Annotated[str, msgspec.Meta(max_length=500)] = ""
    absolute: _Size = 0.0
    relative: _Size = 0.0
    note: Annotated[str, msgspec.Meta(max_length=500)] = ""
    """For people: where it comes from."""


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


ALWAYS: Final = (
    NoiseRule("/start/headers/traceparent"),
    NoiseRule("/start/headers/tracestate"),
    NoiseRule("/result/headers/date"),
    NoiseRule("/result/headers/traceparent"),
)
"""Ids and times that are new in every exchange. Their differences are not even listed."""


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
        """Return ``value`` without the parts that are allowed to differ."""
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
