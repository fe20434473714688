"""JSON output of ``reenact diff --json``, version 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from reenact.diff.values import Difference, normalised_path
from reenact.format.canonical import decode, stored
from reenact.views.calls import RecordedCall
from reenact.views.compare.runs import Change, LanePair

__all__ = ["KINDS", "VERSION", "as_json", "counts"]

VERSION = 1
KINDS = ("changed", "added", "removed", "moved")


def counts(lanes: Iterable[LanePair]) -> Counter[str]:
    """Count the steps by result: ``same``, ``changed``, ``added``, ``removed``, ``moved``."""
    found: Counter[str] = Counter()
    for lane in lanes:
        found["same"] += lane.same
        found.update(change.kind for change in lane.changes)
    return found


def as_json(lane: LanePair) -> dict[str, Any]:
    """Return a lane with all its differences."""
    return {
        "one": lane.one,
        "other": lane.other,
        "same": lane.same,
        "changes": [_change(change) for change in lane.changes],
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "one": _step(change.one),
        "other": _step(change.other),
        "differences": [_difference(one) for one in change.differences],
    }


def _step(step: RecordedCall | None) -> dict[str, Any] | None:
    if step is None:
        return None
    return {"seq": step.seq, "lane": step.lane, "kind": step.kind, "name": step.name}


def _difference(found: Difference) -> dict[str, Any]:
    # Bytes become what they are on disk.
    values = decode(stored({"one": found.expected, "other": found.observed}))
    return {"path": normalised_path(found.path), "kind": found.kind, **values}
