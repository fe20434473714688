"""What was recorded, lane by lane, for a process that does jobs of many lanes one after the other."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING

from reenact.format.event import Event

if TYPE_CHECKING:
    from reenact.store.source import SeekableSource

__all__ = ["LaneEvents", "RecordedLanes"]

_AFTER_DOT = chr(ord(".") + 1)


class LaneEvents:
    """Some events of a recording, in their order. See :class:`reenact.engine.script.Events`."""

    def __init__(self, source: SeekableSource, seqs: list[int]) -> None:
        self._source = source
        self._seqs = iter(seqs)

    def next(self) -> Event | None:
        seq = next(self._seqs, None)
        return None if seq is None else self._source.at(seq)

    def at(self, seq: int) -> Event:
        return self._source.at(seq)


class RecordedLanes:
    """Which events are in which lane: found out once, so that no job reads what others did.

    ``source`` is this process's own reader.
    """

    def __init__(self, source: SeekableSource) -> None:
        self._source = source
        self._seqs: defaultdict[str, list[int]] = defaultdict(list)
        for event in source:
            self._seqs[event.lane].append(event.seq)
        self._names = sorted(self._seqs)

    def under(self, lane: str) -> LaneEvents:
        """What was done in ``lane``, and in what was spawned there."""
        found = self._seqs.get(lane, []).copy()
        for name in self._below(lane):
            found += self._seqs[name]
        return LaneEvents(self._source, sorted(found))

    def longest_below(self, lane: str) -> str | None:
        """The child of ``lane`` that did most; None where none did anything."""
        sizes: defaultdict[str, int] = defaultdict(int)
        for name in self._below(lane):
            number = name.removeprefix(f"{lane}.").partition(".")[0]
            sizes[f"{lane}.{number}"] += len(self._seqs[name])
        return max(sizes, key=lambda name: sizes[name], default=None)

    def _below(self, lane: str) -> list[str]:
        start = bisect_left(self._names, f"{lane}.")
        return self._names[start : bisect_left(self._names, f"{lane}{_AFTER_DOT}")]
