"""What would settle a divergence: rules for a policy, commands, changes of the program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reenact.engine.divergence.diagnosis import IgnoreRule, ignore_rule_for
from reenact.errors import ReenactError
from reenact.format.canonical import canonical
from reenact.format.paths import join
from reenact.policy.matching import Comparer, Rules
from reenact.policy.redaction import Redactor
from reenact.views.causes.case import Case, Place, Way

__all__ = ["ignoring", "letting_differ", "merged", "rule_of", "settles_all", "updating"]

Policy = dict[str, Any]


def updating(case: Case, text: str = "If the change is intended, make again what differs.") -> Way:
    """The call is made again, and the rest stays."""
    return Way(text=text, command=case.again.update)


def letting_differ(kinds: Iterable[str], text: str) -> Way:
    """Volatile kinds of a policy."""
    return Way(text=text, policy={"volatile": sorted({*kinds})})


def ignoring(case: Case, places: Iterable[Place], text: str) -> Way | None:
    """The rule that leaves these places out; None where no rule can."""
    members: dict[str, list[str]] = {}
    for place in places:
        rule = rule_of(case, place)
        if rule is None:
            return None
        names = members.setdefault(rule.member, [])
        said = join(rule.path) if rule.path else rule.name
        if said not in names:
            names.append(said)
    return Way(text=text, policy={"ignore": members}) if members else None


def rule_of(case: Case, place: Place) -> IgnoreRule | None:
    """What would have to be ignored for one place."""
    if not place.path:
        return None
    try:
        return ignore_rule_for(place.difference, case.recorded)
    except LookupError:  # what is shown was cut
        return None


def merged(policies: Iterable[Policy]) -> Policy:
    """All of them in one."""
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
    """Would this call match under ``policy``? Tried on both sides where they are shown whole, else on
    each place that differs."""
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


def _settles(case: Case, place: Place, policy: Policy, comparer: Comparer) -> bool:
    rule = rule_of(case, place)
    if rule is None:
        return False
    said = join(rule.path) if rule.path else rule.name
    if said in policy.get("ignore", {}).get(rule.member, ()):
        return True
    # Under its own name, because that may say what it is.
    name = next((step for step in reversed(place.path) if isinstance(step, str)), "")
    try:
        sides = [{name: side} for side in (place.gap.expected, place.gap.observed)]
        return place.gap.kind == "changed" and len({*map(comparer.key, sides)}) == 1
    except ReenactError:
        return False
