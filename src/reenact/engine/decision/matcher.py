"""Matchers: find the recorded call for a call, by lane, by transcript, or by lookup.

Invariants: the cursor of a lane never moves on a mismatch. One recorded call serves one call. A
matcher never falls back to the next recorded call, except in a lenient replay, which reports
that.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Protocol

from reenact.engine.call import DRAWS, SCHEDULE, SLEEP, Call, Entry
from reenact.engine.decision.recorded_calls import RecordedCalls
from reenact.format.event import Event

__all__ = ["LaneMatcher", "LookupMatcher", "Matcher"]

_KeyOf = Callable[[Entry], str]
_Place = tuple[str, str, str, str]
_Queues = defaultdict[_Place, deque[Entry]]

_SKIPPED = frozenset({*DRAWS, SLEEP, SCHEDULE})
"""Kinds of events whose number can vary between two calls."""
_USED_KEPT = 64
_CANDIDATES = 2_000


class Matcher(Protocol):
    """Search for recorded calls.

    ``key_of(entry)`` is the key of a recorded call under the present rules. It differs from the
    recorded key if the rules have changed, or if no key was recorded.
    """

    def upcoming(self, lane: str) -> Entry | None:
        """Return the next recorded call of ``lane`` if calls are matched in order, else None."""

    def at_cursor(self, call: Call, key: str, lane: str) -> Entry | None:
        """Return the recorded call at this position, equal or not; None beyond the end."""

    def anywhere(self, call: Call, key: str, lane: str) -> Entry | None:
        """Return the earliest unused recorded call that is equal, on either side of the cursor."""

    def alike(self, call: Call, lane: str) -> Entry | None:
        """Return the next unused recorded call of the same type and operation."""

    def in_its_place(self, call: Call, lane: str) -> Iterator[Entry]:
        """Yield unused calls of the same type that can have been made instead of ``call``.

        Their operation differs: a different model, or a tool with a different name.
        """

    def take(self, entry: Entry) -> None:
        """Mark ``entry`` as used."""

    def pass_over(self, entry: Entry) -> None:
        """Pass over ``entry``, the next call of its lane: it stays usable."""

    def unused(self) -> Iterator[Entry]:
        """Yield all unused recorded calls, after reading to the end."""

    def candidates(self, lane: str) -> Iterator[tuple[Event, bool]]:
        """Yield the events that a diagnosis compares with, and whether each is used.

        Events of this lane come first.
        """


class _Recent:
    """The last used calls, for diagnoses."""

    def __init__(self) -> None:
        self._used: deque[Entry] = deque(maxlen=_USED_KEPT)
        self._last: Entry | None = None

    def add(self, entry: Entry) -> None:
        if self._last is not None:  # it has been answered by now
            self._last.let_go()
        self._last = entry
        self._used.append(entry)

    def __iter__(self) -> Iterator[tuple[Event, bool]]:
        return ((entry.opening, True) for entry in reversed(self._used))


class LaneMatcher:
    """The next call of the lane; with a script that has one lane only, the next of the log."""

    def __init__(self, script: RecordedCalls, key_of: _KeyOf) -> None:
        self._script = script
        self._key_of = key_of
        self._recent = _Recent()
        self._indexed: dict[str, _LaneIndex] = {}

    def upcoming(self, lane: str) -> Entry | None:
        return self._script.upcoming(lane)

    def at_cursor(self, call: Call, key: str, lane: str) -> Entry | None:
        return self._script.upcoming(lane)

    def anywhere(self, call: Call, key: str, lane: str) -> Entry | None:
        index = self._index(lane)
        found = index.by_key(call, key)
        return found if found is not None else index.by_own_key(call, key, self._key_of)

    def alike(self, call: Call, lane: str) -> Entry | None:
        return self._index(lane).by_operation(call, self._script.lane(lane).cursor)

    def in_its_place(self, call: Call, lane: str) -> Iterator[Entry]:
        self._script.read_all()
        calls = (one for one in self._script.lane(lane).ahead if one.kind not in _SKIPPED)
        found = next(calls, None)
        if found is not None and _kind(found) == _kind(call):
            yield found

    def _index(self, lane: str) -> _LaneIndex:
        found = self._indexed.get(lane)
        if found is None:
            self._script.read_all()
            found = self._indexed[lane] = _LaneIndex(self._script.lane(lane).unused())
        return found

    def take(self, entry: Entry) -> None:
        self._script.take(entry)
        self._recent.add(entry)

    def pass_over(self, entry: Entry) -> None:
        self._script.pass_over(entry)

    def unused(self) -> Iterator[Entry]:
        self._script.read_all()
        for name in self._script.lane_names():
            yield from self._script.lane(name).unused()

    def candidates(self, lane: str) -> Iterator[tuple[Event, bool]]:
        script = self._script
        for _ in range(_CANDIDATES):
            if not script.read_on():
                break
        names = [name for name in script.lane_names() if name != lane]
        near = ((one.opening, False) for one in script.lane(lane).unused())
        far = ((one.opening, False) for name in names for one in script.lane(name).unused())
        yield from islice(near, _CANDIDATES)
        yield from self._recent
        yield from islice(far, _CANDIDATES)


class _LaneIndex:
    """The unused calls of one lane by key and by operation. Made on the first divergence only."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._keys: _Queues = defaultdict(deque)
        self._operations: defaultdict[tuple[str, str, str], deque[Entry]] = defaultdict(deque)
        self._own_keys: dict[tuple[str, str, str], _Queues] = {}
        for entry in entries:
            _put(self._keys, entry, entry.key)
            self._operations[_operation(entry)].append(entry)

    def by_key(self, call: Call, key: str) -> Entry | None:
        return _first_unused(self._keys.get(_place(call, key)))

    def by_own_key(self, call: Call, key: str, key_of: _KeyOf) -> Entry | None:
        """Search only calls of the same operation, because each has to be read for its key."""
        if call.key:
            return None
        group = _operation(call)
        queues = self._own_keys.get(group)
        if queues is None:
            queues = self._own_keys[group] = defaultdict(deque)
            for entry in self._operations.get(group, ()):
                if not entry.used:
                    _put(queues, entry, key_of(entry))
        return _first_unused(queues.get(_place(call, key)))

    def by_operation(self, call: Call, cursor: int) -> Entry | None:
        queue = self._operations.get(_operation(call))
        first = _first_unused(queue)
        if first is None or queue is None or first.position >= cursor:
            return first
        later = (one for one in queue if not one.used and one.position >= cursor)
        return next(later, first)


def _kind(one: Call | Entry) -> tuple[str, str]:
    return one.type, one.kind


def _operation(one: Call | Entry) -> tuple[str, str, str]:
    return one.type, one.kind, one.operation


def _put(queues: _Queues, entry: Entry, key: str) -> None:
    """Add ``entry`` under its key alone, and under key and operation."""
    queues[entry.type, entry.kind, key, ""].append(entry)
    if entry.operation:
        queues[entry.type, entry.kind, key, entry.operation].append(entry)


def _place(call: Call, key: str) -> _Place:
    """Return the table key. A digest covers the operation, a key of the caller does not."""
    return call.type, call.kind, key, call.operation if call.key else ""


def _first_unused(queue: deque[Entry] | None) -> Entry | None:
    while queue and queue[0].used:
        queue.popleft()
    return queue[0] if queue else None


class LookupMatcher:
    """The earliest unused call with the same type, operation and key, wherever it stands."""

    def __init__(self, script: RecordedCalls, key_of: _KeyOf) -> None:
        self._entries = script.keep_all()
        self._script = script
        self._key_of = key_of
        self._recent = _Recent()
        self._indexed = 0
        self._keys: _Queues = defaultdict(deque)
        self._own_keys: _Queues | None = None

    def upcoming(self, lane: str) -> Entry | None:
        return None

    def at_cursor(self, call: Call, key: str, lane: str) -> Entry | None:
        found = self._find(call, key)
        return found if found is not None else self._find_by_own_key(call, key)

    def _find(self, call: Call, key: str) -> Entry | None:
        queue = self._keys[_place(call, key)]
        while True:
            found = _first_unused(queue)
            if found is not None or not self._read_on():
                return found

    def _read_on(self) -> bool:
        while self._indexed >= len(self._entries):
            if not self._script.read_on():
                return False
        entry = self._entries[self._indexed]
        self._indexed += 1
        _put(self._keys, entry, entry.key)
        return True

    def _find_by_own_key(self, call: Call, key: str) -> Entry | None:
        """Recorded under other rules: look once more by the keys that ours would give."""
        if call.key:
            return None
        if self._own_keys is None:
            self._own_keys = defaultdict(deque)
            for entry in self._entries:
                if not entry.used:
                    _put(self._own_keys, entry, self._key_of(entry))
        return _first_unused(self._own_keys.get(_place(call, key)))

    def anywhere(self, call: Call, key: str, lane: str) -> Entry | None:
        return self.at_cursor(call, key, lane)

    def alike(self, call: Call, lane: str) -> Entry | None:
        self._script.read_all()
        same = (
            entry
            for entry in self._entries
            if not entry.used and _operation(entry) == _operation(call)
        )
        return next(same, None)

    def in_its_place(self, call: Call, lane: str) -> Iterator[Entry]:
        self._script.read_all()
        return (one for one in self._entries if not one.used and _kind(one) == _kind(call))

    def take(self, entry: Entry) -> None:
        self._script.take(entry)
        self._recent.add(entry)

    def pass_over(self, entry: Entry) -> None:
        pass  # nothing is next here

    def unused(self) -> Iterator[Entry]:
        self._script.read_all()
        return (entry for entry in self._entries if not entry.used)

    def candidates(self, lane: str) -> Iterator[tuple[Event, bool]]:
        yield from ((one.opening, False) for one in islice(self.unused(), _CANDIDATES))
        yield from self._recent
