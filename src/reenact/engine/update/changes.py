"""Changes made by an update: calls that were kept, changed, added and dropped.

A call that is made again has no recorded counterpart at first, only a position: the recorded call
that was next in its lane. At the end, when the unused recorded calls are known, the update
decides whether that call was replaced or merely came later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from reenact.engine.call import DRAWS, Entry
from reenact.engine.divergence.model import Divergence
from reenact.engine.request import ObservedRequest

if TYPE_CHECKING:
    from reenact.engine.divergence.diagnosis import Diagnosis

__all__ = ["NO_CHANGES", "UpdateChanges", "UpdateOutcome"]

_KEPT: Final = 1_000
"""Calls of each sort that are kept whole; later ones are counted."""

_WHY = "the recorded run made this call and the present one did not"


class UpdateOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """``kept`` calls are as they were. Each of the others is a divergence that a replay of the old
    recording would have had; of ``more`` there are only numbers."""

    kept: int = 0
    changed: list[Divergence] = []
    added: list[Divergence] = []
    dropped: list[Divergence] = []
    more: dict[str, int] = {}

    @property
    def is_same(self) -> bool:
        """Has nothing changed?"""
        return not (self.changed or self.added or self.dropped)

    def counts(self) -> dict[str, int]:
        """Return the number of calls per kind of change."""
        lists = {"changed": self.changed, "added": self.added, "dropped": self.dropped}
        found = {name: len(items) + self.more.get(name, 0) for name, items in lists.items()}
        return {"kept": self.kept, **found}

    def to_json(self) -> dict[str, Any]:
        """Return the changes as JSON, in their stable form."""
        return {
            "kept": self.kept,
            "changed": [one.to_json() for one in self.changed],
            "added": [one.to_json() for one in self.added],
            "dropped": [one.to_json() for one in self.dropped],
        }

    def line(self) -> str:
        """Return a summary such as ``12 kept, 1 changed, 0 added, 2 dropped``."""
        return ", ".join(f"{number:,} {name}" for name, number in self.counts().items())


NO_CHANGES: Final = UpdateOutcome()


class _Made(msgspec.Struct, eq=False, gc=False):
    """A call that was made, and the recorded one at its place."""

    ask: ObservedRequest
    kind: str
    place: Entry | None


class UpdateChanges:
    """Kept, changed, added and dropped calls of one update.

    Not thread-safe: the session's lock covers it.
    """

    def __init__(self) -> None:
        self._made: list[_Made] = []
        self._changed: list[Divergence] = []
        self._more = 0

    def make(self, ask: ObservedRequest, kind: str, place: Entry | None) -> None:
        """Note a new call or run of draws. ``place`` is the recorded call at its position."""
        if len(self._made) < _KEPT:
            self._made.append(_Made(ask, kind, place))
        else:
            self._more += 1

    def change(self, divergence: Divergence) -> None:
        """Note a requested recorded call that is written again."""
        self._changed.append(divergence)

    def come_to(self, kept: int, unused: Iterable[Entry], diagnosis: Diagnosis) -> UpdateOutcome:
        """Tell them apart, now that it is known which recorded calls are ``unused``."""
        left = {entry.seq: entry for entry in unused}
        changed = list(self._changed)
        added: list[Divergence] = []
        for made in self._made:
            entry = _replaced(made, left)
            if entry is None:
                added.append(diagnosis.unexpected(made.ask, (), draws=made.kind in DRAWS))
            else:
                del left[entry.seq]
                changed.append(_difference(made, entry, diagnosis))
        gone = [diagnosis.missing(entry.opening, why=_WHY) for entry in list(left.values())[:_KEPT]]
        more = {"added": self._more, "dropped": len(left) - len(gone)}
        return UpdateOutcome(kept=kept, changed=changed, added=added, dropped=gone, more=more)


def _replaced(made: _Made, left: dict[int, Entry]) -> Entry | None:
    """Return the recorded call that ``made`` replaces.

    That is the call at its position, else the first similar call of its lane.
    """
    place = made.place
    if place is not None and place.seq in left and _is_draw(place.kind) == _is_draw(made.kind):
        return place
    ask = made.ask
    for entry in left.values():
        same = (entry.lane, entry.type, entry.operation) == (ask.lane, ask.type, ask.operation)
        if same and entry.kind == made.kind and not _is_draw(made.kind):
            return entry
    return None


def _is_draw(kind: str) -> bool:
    return kind in DRAWS


def _difference(made: _Made, entry: Entry, diagnosis: Diagnosis) -> Divergence:
    if entry.type != made.ask.type or entry.kind != made.kind:
        return diagnosis.type_mismatch(entry.opening, made.ask, ())
    return diagnosis.payload_mismatch(entry.opening, made.ask, ())
