"""Noise: rules for differences that do not count, and the filter that applies them.

A policy's ignored paths, ``diff --ignore`` and the noise rules of a server's routes are all rules of
this kind. The path of a rule has one of two notations:

    $.a[0].b  $['a b']  $.a.*  $.a[*]  $..b      subset of JSONPath (RFC 9535)
    /a/0/b    /a b      /a/*   /a/*    /**/b     JSON pointer (RFC 6901) with wildcards

``*`` is one step, and ``**`` (in JSONPath ``..``) any number of steps. A rule has one of these kinds:

    ignore      any value, or none
    present     any value, but one on each side
    regex       both are texts that match ``pattern``
    tolerance   numbers that differ by at most ``absolute``, or ``relative`` times the larger one
    unordered   lists with the same items in any order

``ignore`` and ``present`` include everything below their path. The filter has two uses: it removes
noise from one value before it becomes a key, and it judges a single difference between two values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal

import msgspec

from reenact.errors import UsageError
from reenact.format.canonical import canonical
from reenact.format.json_path import Path, parse_pointer
from reenact.policy.patterns import fits, lazy_pattern
from reenact.policy.redaction.structure import REMOVED, with_items

__all__ = ["NoiseFilter", "NoiseRule", "Step", "Taken", "parse_path_pattern"]

Taken = list[tuple[str, Path, bytes]]
"""Removed parts of a value: the rule, the location, and the canonical form of the original."""

RuleKind = Literal["ignore", "present", "regex", "tolerance", "unordered"]
_Size = Annotated[float, msgspec.Meta(ge=0)]
_WITH_BELOW: Final = ("ignore", "present")
"""Kinds that include everything below their path."""


class NoiseRule(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """Rule for the differences at ``path``. ``note`` is for people, such as the origin of the rule."""

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=2_048)]
    kind: RuleKind = "ignore"
    pattern: Annotated[str, msgspec.Meta(max_length=500)] = ""
    absolute: _Size = 0.0
    relative: _Size = 0.0
    note: Annotated[str, msgspec.Meta(max_length=500)] = ""

    def accepts(self, before: Any, after: Any) -> bool:
        """Return whether both values at the path obey the rule. A missing value is ``UNSET``."""
        match self.kind:
            case "ignore":
                return True
            case "present":
                return before is not msgspec.UNSET and after is not msgspec.UNSET
            case "regex":
                return all(isinstance(x, str) and fits(self.pattern, x) for x in (before, after))
            case "tolerance":
                return _is_number(before) and _is_number(after) and self._is_near(before, after)
            case _:
                return False  # lists are brought into one order before they are compared

    def _is_near(self, before: Any, after: Any) -> bool:
        allowed = max(self.absolute, self.relative * float(max(abs(before), abs(after))))
        return bool(abs(before - after) <= allowed)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63


class Step(msgspec.Struct, frozen=True):
    """One step of a path pattern: ``keys`` are the names and indices that it matches, None all of
    them. A ``deep`` step stands for any number of steps."""

    keys: frozenset[str | int] | None = None
    deep: bool = False


_ANY, _DEEP = Step(), Step(deep=True)
_STEP = lazy_pattern(
    r"""(?P<deep>\.\.)(?P<deep_name>\*|[^\W\d][\w-]*)
      | \.(?P<name>\*|[^\W\d][\w-]*)
      | (?P<deep_bracket>\.\.)?\[(?:
            (?P<index>[0-9]{1,18}) | (?P<star>\*)
          | '(?P<single>(?:[^'\\]|\\.)*)' | "(?P<double>(?:[^"\\]|\\.)*)"
        )\]""",
    re.VERBOSE | re.DOTALL,
)
_INDEX = lazy_pattern(r"0|[1-9][0-9]{0,17}")
_ESCAPE = lazy_pattern(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}
_HINT = (
    "e.g. $.messages[0].id, $.messages[*].id, $..id or /messages/*/id; no filters, slices or "
    "negative numbers"
)


def parse_path_pattern(text: str) -> tuple[Step, ...]:
    """Parse the path of a rule. Raises :class:`UsageError`."""
    if text.startswith("/"):
        return tuple(map(_pointer_step, parse_pointer(text)))
    if not text.startswith("$"):
        raise UsageError(
            f"a path begins with '$' or a slash, this one is {text[:80]!r}", hint=_HINT
        )
    steps: list[Step] = []
    done = 1
    while done < len(text):
        match = _STEP.match(text, done)
        if match is None:
            raise UsageError(f"cannot read the path {text!r} at character {done}", hint=_HINT)
        if match["deep"] or match["deep_bracket"]:
            steps.append(_DEEP)
        steps.append(_json_path_step(match))
        done = match.end()
    if not steps:
        raise UsageError(
            "the path '$' is the complete request, so nothing would be compared",
            hint="give the part that is allowed to differ, e.g. $.messages[0].id",
        )
    return tuple(steps)


def _pointer_step(token: str) -> Step:
    if token in ("*", "**"):
        return _ANY if token == "*" else _DEEP
    keys: set[str | int] = {token}
    if _INDEX.fullmatch(token):
        keys.add(int(token))
    return Step(frozenset(keys))


def _json_path_step(match: re.Match[str]) -> Step:
    if match["index"] is not None:
        return Step(frozenset({int(match["index"])}))
    name = match["deep_name"] or match["name"] or match["star"]
    if name is None:
        quoted = match["single"] if match["single"] is not None else match["double"]
        return Step(frozenset({_ESCAPE.sub(_unescaped, quoted)}))
    return _ANY if name == "*" else Step(frozenset({name}))


def _unescaped(match: re.Match[str]) -> str:
    if match[1] is not None:
        return chr(int(match[1], 16))
    return _ESCAPED.get(match[2], match[2])


_States = tuple[int, ...]
"""Positions in the paths of the rules. A position is a number, counted over all paths."""


class _Position(msgspec.Struct, frozen=True):
    """Position in the path of ``rule``, before a step or at its ``end``.

    ``keys`` are the names and indices that lead to the ``following`` positions, None all of them.
    """

    rule: NoiseRule
    keys: frozenset[str | int] | None = None
    following: _States = ()
    end: bool = False


class NoiseFilter:
    """The rules, ready to be applied. All paths are matched at once, step by step.

    Raises :class:`UsageError` for a path that cannot be read.
    """

    def __init__(self, rules: Iterable[NoiseRule] = ()) -> None:
        self._positions: list[_Position] = []
        self._start: _States = tuple(at for rule in rules for at in self._add(rule))

    def _add(self, rule: NoiseRule) -> _States:
        """Add the positions of a rule, and return the first ones."""
        steps = parse_path_pattern(rule.path)
        first = len(self._positions)

        def reached(done: int) -> _States:
            """Return the positions after ``done`` steps; a deep step can match nothing."""
            last = done
            while last < len(steps) and steps[last].deep:
                last += 1
            return tuple(range(first + done, first + last + 1))

        for done, step in enumerate(steps):
            following = reached(done if step.deep else done + 1)
            self._positions.append(_Position(rule, step.keys, following))
        self._positions.append(_Position(rule, end=True))
        return reached(0)

    def strip(self, value: Any, taken: Taken | None = None, *, path: Path = ()) -> Any:
        """Return ``value``, which is located at ``path``, without its noise.

        A member of an object is removed. An element of a list becomes None, so the others keep
        their positions. Unchanged parts are shared with ``value``. ``taken`` collects what was
        removed. Tolerances are not transitive and therefore remove nothing.
        """
        states = self._start
        for step in path:
            states = self._after(states, step)
            if any(rule.kind in _WITH_BELOW for rule in self._ended(states)):
                return None
        return self._strip(value, states, path, taken)

    def about(self, path: Path, before: Any, after: Any) -> bool:
        """Return whether a difference at ``path`` is noise. A missing value is ``UNSET``."""
        states = self._start
        for step in path:
            if any(rule.kind in _WITH_BELOW for rule in self._ended(states)):
                return True
            states = self._after(states, step)
        return any(rule.accepts(before, after) for rule in self._ended(states))

    def has_unordered(self, section: str | int) -> bool:
        """Return whether the order of a list at or below the member ``section`` can be noise."""
        states = self._after(self._start, section)
        return any(self._positions[at].rule.kind == "unordered" for at in states)

    def is_unordered(self, path: Path) -> bool:
        """Return whether the order of the list at ``path`` is noise."""
        states = self._start
        for step in path:
            states = self._after(states, step)
        return any(rule.kind == "unordered" for rule in self._ended(states))

    def _strip(self, value: Any, states: _States, path: Path, taken: Taken | None) -> Any:
        if not states or not isinstance(value, (dict, list, tuple)):
            return value
        nothing = REMOVED if isinstance(value, dict) else None

        def change(key: Any, item: Any) -> Any:
            following = self._after(states, key)
            if not following:
                return item
            if self._takes(following, (*path, key), item, taken):
                return nothing
            return self._strip(item, following, (*path, key), taken)

        return with_items(value, change)

    def _takes(self, states: _States, path: Path, item: Any, taken: Taken | None) -> bool:
        """Would any other value that obeys the same rule do?"""
        for rule in self._ended(states):
            if rule.kind != "tolerance" and rule.accepts(item, item):
                if taken is not None:
                    taken.append((f"ignore {rule.path}", path, canonical(item)))
                return True
        return False

    def _after(self, states: _States, key: str | int) -> _States:
        following: list[int] = []
        for at in states:
            position = self._positions[at]
            if position.keys is None or key in position.keys:
                following += position.following
        # Several deep steps can reach the same position in many ways.
        return tuple(following) if len(following) < 3 else tuple(dict.fromkeys(following))

    def _ended(self, states: _States) -> list[NoiseRule]:
        """Return the rules whose paths end here."""
        positions = [self._positions[at] for at in states]
        return [position.rule for position in positions if position.end]
