"""Rules that say which differences are noise: they are shown, and do not count.

A rule has a path, which is a JSON pointer with ``*`` for one step and ``**`` for any number of them.
Its first step is the section:

    /start/headers/…  /start/body/…       the start payload
    /result/…  /result/error/message      what came out
    /processors/<processorId>/output/…    and …/changes/body/…, …/status, …/order
    /calls/<operation>/response/…         and …/request/…, …/error/…

Kinds: ``ignore`` (whatever stands there, or does not), ``present`` (both have something there),
``regex`` (both match ``pattern`` as a whole), ``tolerance`` (numbers that are at most ``absolute``,
or ``relative`` times the larger one, apart), ``unordered`` (lists with the same items).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from reenact.errors import UsageError
from reenact.exchange.comparison.patterns import check_pattern
from reenact.exchange.pointer import parse_pointer

__all__ = ["MOST_RULES", "SECTIONS", "VERSION", "NoiseRule", "dump_rules", "merged", "read_rules"]

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
    """What :func:`read_rules` reads."""
    return {"version": VERSION, "rules": msgspec.to_builtins(rules)}


def merged(rules: tuple[NoiseRule, ...], others: tuple[NoiseRule, ...]) -> tuple[NoiseRule, ...]:
    """Both, each path and kind once; where they differ in the rest, ``others`` holds."""
    kept = {(rule.path, rule.kind): rule for rule in (*rules, *others)}
    return tuple(kept.values())
