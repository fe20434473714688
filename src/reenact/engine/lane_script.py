"""The recorded calls of one lane that have been read and not been used."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator

from reenact.engine.call import Entry

__all__ = ["LaneScript"]


class LaneScript:
    """The calls of one lane that have been read and not been used, by position."""

    __slots__ = ("ahead", "children", "cursor", "gone", "read", "skipped")

    def __init__(self) -> None:
        self.ahead: deque[Entry] = deque()
        self.skipped: dict[int, Entry] = {}
        """What a lenient run has gone past, by seq."""
        self.children: list[str] = []
        self.cursor = 0
        """The position that the next call of the program has, if nothing diverged."""
        self.read = 0
        """How many positions have been read."""
        self.gone: dict[int, int] = {}
        """Positions that nobody will ask for, and how many each time."""

    def add(self, entry: Entry) -> None:
        if self.ahead and entry.position < self.ahead[-1].position:
            ordered = list(self.ahead)
            insort(ordered, entry, key=_position)
            self.ahead = deque(ordered)
        else:
            self.ahead.append(entry)

    def take(self, entry: Entry) -> list[Entry]:
        """``entry`` has been used. Returns what was passed over on the way; it stays usable."""
        entry.used = True
        ahead = self.ahead
        passed: list[Entry] = []
        if ahead and ahead[0] is entry:
            ahead.popleft()
        elif self.skipped.pop(entry.seq, None) is None:
            while ahead and ahead[0].position <= entry.position:
                one = ahead.popleft()
                if one is not entry:
                    passed.append(one)
            self.skipped.update((one.seq, one) for one in passed)
        self._go_on(entry)
        return passed

    def pass_over(self, entry: Entry) -> None:
        """``entry``, the next one, is gone past; it stays usable."""
        if self.ahead and self.ahead[0] is entry:
            self.ahead.popleft()
            self.skipped[entry.seq] = entry
            self._go_on(entry)

    def _go_on(self, entry: Entry) -> None:
        self.cursor = max(self.cursor, entry.position + entry.count)
        if self.gone:
            self._go_over()

    def leave_out(self, position: int, count: int) -> None:
        """Nobody will ask for what stands here: what is behind it comes next."""
        self.gone[position] = count
        self._go_over()

    def _go_over(self) -> None:
        while self.cursor in self.gone:
            self.cursor += self.gone[self.cursor]

    def give_back(self, entry: Entry) -> None:
        """``entry`` has been used in part: what is left of it comes next."""
        self.ahead.appendleft(entry)
        self.cursor = min(self.cursor, entry.position)

    def forget(self, is_gone: Callable[[Entry], bool]) -> None:
        """Nobody will ask for the calls of which this is true."""
        for entry in filter(is_gone, self.unused()):
            entry.used = True
        self.ahead = deque(entry for entry in self.ahead if not entry.used)
        self.skipped = {seq: entry for seq, entry in self.skipped.items() if not entry.used}

    def unused(self) -> Iterator[Entry]:
        """In their order."""
        yield from self.skipped.values()
        yield from self.ahead


def _position(entry: Entry) -> int:
    return entry.position
