"""The outcomes of a regression as they come: counted, and kept as short as they can be."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterator

from reenact.runs.regression.grouping import Group, Key, groups
from reenact.runs.regression.outcome import BAD, Outcome

__all__ = ["Tally"]

_IN_FULL = 5
"""Of outcomes with one cause, as many keep their details: those whose names come first. So the same
are kept whatever came first, and ten thousand failures fit into memory."""


class Tally:
    """Adding is quick however many there are."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._outcomes: list[Outcome] = []
        self._full: dict[Key, list[Outcome]] = {}

    def add(self, outcome: Outcome) -> None:
        """One more. Takes it: it may lose its details."""
        self.counts[outcome.counted_as] += 1
        self._outcomes.append(outcome)
        if outcome.status not in BAD:
            return
        full = self._full.setdefault(Key.of(outcome), [])
        insort(full, outcome, key=lambda one: one.recording)
        if len(full) > _IN_FULL:
            last = full.pop()
            last.detail, last.divergence = "", None

    def __len__(self) -> int:
        return len(self._outcomes)

    def __iter__(self) -> Iterator[Outcome]:
        """In the order of their recordings."""
        return iter(sorted(self._outcomes, key=lambda one: one.recording))

    def groups(self) -> list[Group]:
        """What went wrong, by cause."""
        return groups(self)
