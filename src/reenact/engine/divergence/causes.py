"""Causes of a divergence and their remedies, in words.

The hints of a divergence (in exceptions, test reports and on pages) and ``reenact explain`` take
their sentences about the same cause from here. The functions need only what a divergence contains,
so that both can use them. ``reenact explain`` finds further causes with the help of the recording,
and adds the commands. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import msgspec

from reenact.diff.values import Difference
from reenact.format.json_path import Path, join, lookup
from reenact.policy.redaction.structure import is_pair, pair_name

__all__ = [
    "SURE",
    "Cause",
    "IgnoreRule",
    "Remedy",
    "Sure",
    "changed_file",
    "differing_parameters",
    "hints_of",
    "ignore_policy",
    "ignore_rule_for",
    "in_policy",
    "left_out_call",
    "recorded_elsewhere",
]

Sure = Literal["certain", "likely", "possible"]
SURE: tuple[Sure, ...] = ("certain", "likely", "possible")
"""The most certain first."""

Policy = dict[str, Any]


class Remedy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Remedy: a rule for the ``policy``, a ``command``, or a change of the program.

    ``text`` describes when to use it. The text about a rule begins with a condition and a comma.
    """

    text: str
    policy: Policy | None = None
    command: str = ""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """``name`` is stable, for programs; ``evidence`` are the facts that speak for it."""

    name: str
    sure: Sure
    text: str
    evidence: list[str] = []
    ways: list[Remedy] = []
    explains: list[str] = []
    """The differing paths that it accounts for."""


def hints_of(cause: Cause) -> Iterator[str]:
    """Yield a cause as hints: the facts with the cause, then its remedies.

    A cause without facts repeats what the report shows, so only its remedies are hints.
    """
    if cause.evidence or not cause.ways:
        yield " ".join([*cause.evidence, cause.text])
    for way in cause.ways:
        condition, _, _ = way.text.partition(", ")
        said = "" if way.policy is None else in_policy(way.policy)
        yield f"{condition}, let the policy say {said}." if said else way.text


def in_policy(policy: Policy) -> str:
    """Return rules as they are written in a policy file, without the braces around them."""
    return json.dumps(policy, ensure_ascii=False)[1:-1]


def recorded_elsewhere(
    seq: int, lane: str, used: bool, *, here: str, expected: int | None
) -> Cause:
    """Return the cause if the same call is event ``seq`` of ``lane``.

    ``here`` is the lane of the divergence, and ``expected`` the event that was next in it.
    """
    fact = f"The same call is event {seq} of lane {lane}"
    if used:
        return Cause(
            name="repeated",
            sure="certain",
            text="The program makes this call more often than in the recording: a loop, a retry, or a "
            "missing cache.",
            evidence=[f"{fact}, which has been used."],
        )
    if lane != here:
        return Cause(
            name="other_lane",
            sure="certain",
            text=f"The program makes this call from a different task, thread or tool: lane {here}.",
            evidence=[f"{fact}, which has not been used."],
        )
    later = expected is not None and seq > expected
    skipped = f"The program leaves out what was recorded before it, from event {expected} on"
    return Cause(
        name="other_order",
        sure="likely",
        text=f"{skipped}, or makes the calls in a different order."
        if later
        else "The calls come in a different order, or the program left this one out before.",
        evidence=[f"{fact}, which {'comes later' if later else 'has not been used'}."],
    )


def left_out_call(flags: Sequence[str], *, stack: bool) -> Cause:
    """Return the cause if a recorded call is not requested, with the ``flags`` of the divergence."""
    if "stalled" in flags:
        return Cause(
            name="stalled",
            sure="certain",
            text="It waits for something that does not come: the recorded order of events differs, "
            "or something else had to happen first.",
            evidence=["The stack is where the program stands instead."] if stack else [],
        )
    if "cancelled" in flags:
        return Cause(
            name="cancelled",
            sure="certain",
            text="The program cancelled a call that had a response: look for a timeout or a cancel() "
            "that comes earlier than it did.",
        )
    return Cause(
        name="gone",
        sure="certain",
        text="The program does not make this call any more.",
        ways=[Remedy(text="If it may stay unused, allow that.", policy={"unused": "allow"})],
    )


def changed_file(operation: str, *, kept: bool) -> Cause:
    """Return the cause if the content of a file or folder differs from the recording.

    With ``kept``, the recording has the content of the file.
    """
    keeping = Remedy(
        text="If the recorded run has changed it itself, keep what is read and record again.",
        policy={"files": {"content": True}},
    )
    return Cause(
        name="file",
        sure="certain",
        text=f"The program reads content that has changed since the recording: {operation}.",
        ways=[
            Remedy(
                text="Put it back as the program found it when it was recorded, or record again if "
                "the change is intended."
            ),
            *([] if kept else [keeping]),
        ],
    )


class IgnoreRule(msgspec.Struct, frozen=True):
    """One entry of ``ignore`` in a policy: a path, or the name of a header or parameter."""

    member: str
    path: Path = ()
    name: str = ""

    @property
    def text(self) -> str:
        """The entry as it is written in a policy."""
        return join(self.path) if self.path else self.name


_ESSENCE = frozenset("args key model name op provider request source type".split())
"""Fields of a request without which it would be any call at all."""


def ignore_rule_for(one: Difference, expected: Any) -> IgnoreRule | None:
    """Return the rule that would ignore a difference, or None if no rule can."""
    header = _header(one, expected)
    if header is not None:
        return IgnoreRule("headers", name=header)
    if one.kind == "changed" and one.path[-1:] == ("url",):
        parameters = differing_parameters(one.expected, one.observed)
        if parameters is not None and len(parameters) == 1:
            return IgnoreRule("query", name=parameters[0])
    if one.kind != "changed" and not isinstance(one.path[-1], str):
        return None  # an item more or less in a list
    if not one.path or (len(one.path) == 1 and one.path[0] in _ESSENCE):
        return None
    return IgnoreRule("paths", path=one.path)


def ignore_policy(entries: Iterable[tuple[IgnoreRule, str]]) -> Policy:
    """Return the policy that contains the rules, each with its text."""
    members: dict[str, list[str]] = {}
    for rule, text in entries:
        names = members.setdefault(rule.member, [])
        if text not in names:
            names.append(text)
    return {"ignore": members}


def _header(one: Difference, expected: Any) -> str | None:
    if "headers" not in one.path[:-1]:
        return None
    place = one.path.index("headers") + 1
    step = one.path[place]
    if isinstance(step, str):
        return step
    if len(one.path) == place + 1:
        pair = one.observed if one.kind == "added" else one.expected
    else:
        pair = lookup(expected, one.path[: place + 1])
    return pair_name(pair[0]) if is_pair(pair) else None


def differing_parameters(expected: Any, observed: Any) -> list[str] | None:
    """Return the parameters in which two URLs differ; None if anything else differs."""
    if not (isinstance(expected, str) and isinstance(observed, str)):
        return None  # a member of a body may be called so, too
    try:
        mine, theirs = urlsplit(expected), urlsplit(observed)
    except ValueError:
        return None
    if mine._replace(query="") != theirs._replace(query=""):
        return None
    pairs = {*parse_qsl(mine.query, True)} ^ {*parse_qsl(theirs.query, True)}
    return sorted({name for name, _ in pairs})
