"""All families of causes, and which of what they find is worth saying."""

from __future__ import annotations

import msgspec

from reenact.views.causes import of_files, of_models, of_order, of_surroundings, of_values
from reenact.views.causes.case import SURE, Case, Cause, Way
from reenact.views.causes.ways import merged, settles_all

__all__ = ["causes_of", "settling"]


def causes_of(case: Case) -> list[Cause]:
    """The likely ones first. Empty when nothing that is known fits.

    What a value shows by itself (a time, an id, an order) says more than where it stands, and a call
    that is another one altogether is not compared value by value.
    """
    ordered = [*of_order.find(case)]
    around = [*of_surroundings.find(case)]
    if ordered and not _is_same_call(case):
        return _sorted([*around, *ordered])
    if files := [*of_files.find(case)]:
        return _sorted([*around, *files])
    by_value = [*of_values.find(case)]
    explained = {path for cause in by_value for path in cause.explains}
    rest = _without(case, explained)
    return _sorted([*around, *ordered, *by_value, *of_models.find(rest)])


def _is_same_call(case: Case) -> bool:
    """Is what stands there the call that is meant, with something else in it?"""
    mismatch = case.divergence.code == "event_payload_mismatch"
    return mismatch and not of_order.is_another_call(case) and not _has_same(case)


def _has_same(case: Case) -> bool:
    return any(one.score == 1 for one in case.divergence.nearest)


def _without(case: Case, paths: set[str]) -> Case:
    left = [gap for gap in case.divergence.paths if gap.path not in paths]
    divergence = msgspec.structs.replace(case.divergence, paths=left)
    return msgspec.structs.replace(case, divergence=divergence)


def _sorted(found: list[Cause]) -> list[Cause]:
    return sorted(found, key=lambda cause: SURE.index(cause.sure))


def settling(case: Case, causes: list[Cause]) -> Way | None:
    """One policy that settles this call, if there is one: the first rule of each cause, together."""
    rules = [
        next((way.policy for way in cause.ways if way.policy is not None), None)
        for cause in causes
        if cause.explains
    ]
    policy = merged(rule for rule in rules if rule is not None)
    if not rules or not settles_all(case, policy):
        return None
    shown = ", as far as the report shows it" if case.is_cut else ""
    return Way(text=f"With this in the policy the call matches{shown}.", policy=policy)
