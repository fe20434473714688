"""Facts about one divergence, its causes and the remedies for them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Literal

import msgspec

from reenact.diff.values import Difference
from reenact.engine.divergence.diagnosis import IgnoreRule, ignore_rule_for
from reenact.engine.divergence.model import Divergence, Gap
from reenact.errors import ReenactError, UsageError
from reenact.format.canonical import canonical
from reenact.format.event import Data
from reenact.format.json_path import Path, join, parse
from reenact.lenses.endpoints import may_ask
from reenact.policy.matching import Comparer, Rules
from reenact.policy.redaction.redactor import Redactor

__all__ = [
    "SURE",
    "Case",
    "Cause",
    "DifferingPlace",
    "NearbyCall",
    "Remedy",
    "ReplayCommands",
    "Sure",
    "ignore_remedy",
    "letting_differ",
    "merged",
    "rule_of",
    "settles_all",
    "update_remedy",
]

Sure = Literal["certain", "likely", "possible"]
SURE: tuple[Sure, ...] = ("certain", "likely", "possible")
"""The most certain first."""


class NearbyCall(msgspec.Struct, frozen=True, kw_only=True):
    """Recorded call near the divergence.

    ``became`` is ``same`` if the replay made the same call, ``differs`` if it made a different one,
    and ``not`` if it did not get as far.
    """

    seq: int
    lane: str
    type: str
    kind: str
    name: str
    data: Data
    became: Literal["same", "differs", "not"]
    failed: str = ""
    """Error that is a reason to retry: ``503``, ``ConnectError``."""


class ReplayCommands(msgspec.Struct, frozen=True, kw_only=True):
    """Commands that replay, and that update or repeat the recording."""

    replay: str
    update: str
    add: str
    rewrite: str
    recorded: str = ""
    """The replay with the arguments of the recording, where those are others."""
    fork: tuple[str, str] | None = None
    """To fork the run: what stands before the options, and after them."""


class Remedy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Remedy: a rule for the ``policy``, a ``command``, or a change of the program.

    ``text`` describes when to use it.
    """

    text: str
    policy: dict[str, Any] | None = None
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


class DifferingPlace(msgspec.Struct, frozen=True):
    """A gap, and its path as steps: empty where the path was cut."""

    gap: Gap
    path: Path

    @property
    def difference(self) -> Difference:
        return Difference(self.path, self.gap.kind, self.gap.expected, self.gap.observed)


class Case(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Facts about one divergence.

    ``near`` are recorded calls of the lane, in order; empty without a recording. ``then`` and
    ``now`` are the recorded and the reported environment.
    """

    divergence: Divergence
    again: ReplayCommands
    near: list[NearbyCall] = []
    status: str = ""
    """Of the recording: ``ok``, ``error``, ``recovered``; empty when it is not at hand."""
    policy: str = ""
    """The id of the one that it was recorded under."""
    left: int = 0
    """Number of recorded calls in the lane after the divergence."""
    then: dict[str, str] = {}
    now: dict[str, str] = {}
    recorded_arguments: list[str] = []
    given_arguments: list[str] = []

    @cached_property
    def places(self) -> list[DifferingPlace]:
        """Paths that differ."""
        return [DifferingPlace(gap, _steps(gap.path)) for gap in self.divergence.paths]

    @property
    def asked(self) -> Any:
        """Request of the program, as far as the report shows it."""
        return None if self.divergence.observed is None else self.divergence.observed.request

    @property
    def recorded(self) -> Any:
        """Recorded request, as far as the report shows it."""
        return None if self.divergence.expected is None else self.divergence.expected.request

    @property
    def is_cut(self) -> bool:
        """True if one of the requests is missing or incomplete."""
        seen = (self.divergence.expected, self.divergence.observed)
        return any(one is None or one.digest is not None for one in seen)

    @property
    def is_model_call(self) -> bool:
        """True if the call is a model call. A net tape records it as HTTP."""
        seen = self.divergence.observed or self.divergence.expected
        if seen is None or seen.type == "llm_request":
            return seen is not None
        request = seen.request.get("request") if isinstance(seen.request, dict) else None
        if not isinstance(request, dict):
            return False
        return may_ask(str(request.get("method", "")), str(request.get("url", "")))

    @property
    def draws(self) -> frozenset[str]:
        """Sources with recorded draws: ``clock``, ``rng`` …"""
        return frozenset(self.then.get("draws", "").split())


def _steps(path: str) -> Path:
    try:
        return parse(path)
    except UsageError:  # it was cut
        return ()


Policy = dict[str, Any]


def update_remedy(
    case: Case, text: str = "If the change is intended, make again what differs."
) -> Remedy:
    """Return the remedy that repeats the call and keeps the others."""
    return Remedy(text=text, command=case.again.update)


def letting_differ(kinds: Iterable[str], text: str) -> Remedy:
    """Return the remedy that adds volatile kinds to a policy."""
    return Remedy(text=text, policy={"volatile": sorted({*kinds})})


def ignore_remedy(case: Case, places: Iterable[DifferingPlace], text: str) -> Remedy | None:
    """Return the remedy that ignores these places, or None if rules cannot express it."""
    members: dict[str, list[str]] = {}
    for place in places:
        rule = rule_of(case, place)
        if rule is None:
            return None
        names = members.setdefault(rule.member, [])
        said = join(rule.path) if rule.path else rule.name
        if said not in names:
            names.append(said)
    return Remedy(text=text, policy={"ignore": members}) if members else None


def rule_of(case: Case, place: DifferingPlace) -> IgnoreRule | None:
    """Return the rule that ignores one place."""
    if not place.path:
        return None
    try:
        return ignore_rule_for(place.difference, case.recorded)
    except LookupError:  # what is shown was cut
        return None


def merged(policies: Iterable[Policy]) -> Policy:
    """Merge policies into one."""
    whole: Policy = {}
    for policy in policies:
        for name, said in policy.items():
            if isinstance(said, dict):
                here = whole.setdefault(name, {})
                for member, names in said.items():
                    here[member] = list(dict.fromkeys([*here.get(member, []), *names]))
            elif isinstance(said, list):
                whole[name] = sorted({*whole.get(name, []), *said})
            else:
                whole[name] = said
    return whole


def settles_all(case: Case, policy: Policy) -> bool:
    """Return whether the call would match under ``policy``.

    Both sides are compared if they are complete, otherwise each differing place.
    """
    try:
        comparer = Comparer(_rules(policy), Redactor("none"))
        if not case.is_cut:
            one, other = comparer.normal(case.recorded), comparer.normal(case.asked)
            return canonical(one) == canonical(other)
    except ReenactError:
        return False
    return not case.divergence.more_paths and all(
        _settles(case, place, policy, comparer) for place in case.places
    )


def _rules(policy: Policy) -> Rules:
    ignore = policy.get("ignore", {})
    return Rules(
        ignore_paths=tuple(ignore.get("paths", ())),
        ignore_headers=tuple(ignore.get("headers", ())),
        ignore_query=tuple(ignore.get("query", ())),
        volatile=tuple(policy.get("volatile", ())),
    )


def _settles(case: Case, place: DifferingPlace, policy: Policy, comparer: Comparer) -> bool:
    rule = rule_of(case, place)
    if rule is None:
        return False
    said = join(rule.path) if rule.path else rule.name
    if said in policy.get("ignore", {}).get(rule.member, ()):
        return True
    # Under its own name, because the name can indicate its meaning.
    name = next((step for step in reversed(place.path) if isinstance(step, str)), "")
    try:
        sides = [{name: side} for side in (place.gap.expected, place.gap.observed)]
        return place.gap.kind == "changed" and len({*map(comparer.key, sides)}) == 1
    except ReenactError:
        return False
