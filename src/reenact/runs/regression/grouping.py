"""Five hundred failures with one cause, as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from reenact.runs.regression.outcome import BAD, Outcome, Status

__all__ = ["Group", "as_json", "counts", "groups"]

_VERSION = 1


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes that have their cause in common, in the order of their recordings."""

    status: Status
    cause: str
    known: bool
    outcomes: list[Outcome]


def groups(outcomes: Iterable[Outcome]) -> list[Group]:
    """What went wrong: new causes before known ones, those with many recordings first."""
    found: dict[tuple[Status, str, bool], list[Outcome]] = {}
    for one in sorted(outcomes, key=lambda outcome: outcome.recording):
        if one.status in BAD:
            found.setdefault((one.status, one.cause, one.known), []).append(one)
    made = [
        Group(status=status, cause=cause, known=known, outcomes=some)
        for (status, cause, known), some in found.items()
    ]
    return sorted(made, key=lambda group: (group.known, -len(group.outcomes), group.cause))


def counts(outcomes: Iterable[Outcome]) -> Counter[str]:
    """By status; what is known is counted as that."""
    return Counter("known" if one.known else one.status for one in outcomes)


def as_json(outcomes: list[Outcome]) -> dict[str, Any]:
    """Version 1 of the report."""
    found = counts(outcomes)
    return {
        "version": _VERSION,
        "counts": {name: found[name] for name in ("ok", *BAD, "known")},
        "groups": [
            {
                "status": group.status,
                "cause": group.cause,
                "known": group.known,
                "recordings": [one.recording for one in group.outcomes],
                "first": msgspec.to_builtins(group.outcomes[0]),
            }
            for group in groups(outcomes)
        ],
        "seconds": round(sum(one.seconds for one in outcomes), 3),
    }
