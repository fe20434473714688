"""Recorded calls of a replay, queued by lane, and read only as far as the replay has progressed.

Each event that is read goes where it will be requested: an opening event into the queue of its
lane, a completing event to its opening, a delivery into the delivery order. A program that
repeats its recorded behaviour requests events in about the order of the log, so few events are
held in memory. Only a small part of an event is decoded until the event is used. Not thread-safe:
the session's lock covers it.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec

from reenact.engine.call import CHUNK, CUT_OFF, DRAWS, PAIRS, SCHEDULE, Entry
from reenact.engine.decision.passthrough import PassThroughRules
from reenact.engine.scheduling.delivery_order import Delivery, DeliveryOrder
from reenact.errors import RecordingError, ValueRefused
from reenact.format.draw_runs import LONGEST_RUN, load_aside, load_run
from reenact.format.event import DROPPED, ROOT_LANE, STOPPED, Data, Event, delivery_names

__all__ = [
    "EventReader",
    "EventSummary",
    "LaneCalls",
    "RecordedCalls",
    "completes_entry",
    "make_entry",
    "summarise_event",
    "text_or_empty",
]

_SHORT = 4_096


class EventSummary(msgspec.Struct, rename="camel", gc=False):
    """Summary of an event's data. Its fields can have any type, because recordings are untrusted."""

    source: Any = ""
    key: Any = ""
    op: Any = ""
    name: Any = ""
    provider: Any = ""
    model: Any = ""
    call_id: Any = ""
    inner: Any = None
    position: Any = None
    cancelled: Any = False
    unfinished: Any = False
    instant: Any = False
    ended: Any = None
    count: Any = None
    aside: Any = False
    raw_hash: Any = ""
    response: msgspec.Raw = msgspec.Raw()
    broken: Any = None
    error: Any = None
    redacted: Any = None

    @property
    def unanswered(self) -> bool:
        """Was the call cancelled, or under way at the end?"""
        return self.cancelled is True or self.unfinished is True

    @property
    def answer(self) -> bytes:
        """The answer, if it is a short value and nothing but that."""
        if self.ended is self.broken is self.error is self.redacted is None:
            encoded = bytes(self.response)
            return encoded if len(encoded) <= _SHORT else b""
        return b""


_brief = msgspec.json.Decoder(EventSummary)
_NOTHING = EventSummary()


def summarise_event(event: Event) -> EventSummary:
    """Return the summary of ``event``; an empty one, which matches nothing, if its data is invalid."""
    try:
        return _brief.decode(event.payload)
    except (msgspec.DecodeError, RecursionError):
        return _NOTHING


def text_or_empty(value: Any) -> str:
    """Return ``value`` if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def make_entry(event: Event, brief: EventSummary) -> Entry:
    """Return the recorded call that ``event`` opens. Its position is -1 if none is stored."""
    if event.type == "nondeterministic":
        kind, operation = text_or_empty(brief.source), text_or_empty(brief.op)
    else:
        kind, operation = _named(event.type, brief)
    position, key, call_id, inner = brief.position, brief.key, brief.call_id, brief.inner
    return Entry(
        opening=event,
        kind=kind,
        operation=operation,
        key=key if type(key) is str else "",
        position=position if type(position) is int and position >= 0 else -1,
        raw_hash=text_or_empty(brief.raw_hash),
        answer=brief.answer,
        call_id=call_id if type(call_id) is str else "",
        unanswered=brief.cancelled is True or brief.unfinished is True,
        inner=inner if type(inner) is str else None,
        count=_count(brief.count),
    )


def _count(count: Any) -> int:
    return count if type(count) is int and 1 < count <= LONGEST_RUN else 1


def _named(type: str, brief: EventSummary) -> tuple[str, str]:
    """Return the kind and the operation, as in :class:`reenact.engine.call.Call`."""
    if type == "tool_call":
        return "tool", text_or_empty(brief.name)
    if type == "llm_request":
        return "llm", f"{text_or_empty(brief.provider)}/{text_or_empty(brief.model)}"
    return type, text_or_empty(brief.op) if type == "state_mutation" else ""


def completes_entry(event: Event, brief: EventSummary, opening: Entry) -> bool:
    """Return whether ``event`` completes ``opening``.

    In recordings written by hand, a parent can be any enclosing call.
    """
    if PAIRS.get(opening.type) != event.type:
        return False
    given = text_or_empty(brief.call_id)
    return not given or not opening.call_id or given == opening.call_id


class LaneCalls:
    """The calls of one lane that have been read and not been used, by position."""

    __slots__ = ("ahead", "children", "cursor", "gone", "read", "skipped")

    def __init__(self) -> None:
        self.ahead: deque[Entry] = deque()
        self.skipped: dict[int, Entry] = {}
        """Calls that a lenient run has passed over, by seq."""
        self.children: list[str] = []
        self.cursor = 0
        """The position that the next call of the program has, if nothing diverged."""
        self.read = 0
        """Number of positions that were read."""
        self.gone: dict[int, int] = {}
        """Positions that will not be requested, each with a count."""

    def add(self, entry: Entry) -> None:
        if self.ahead and entry.position < self.ahead[-1].position:
            ordered = list(self.ahead)
            insort(ordered, entry, key=_position)
            self.ahead = deque(ordered)
        else:
            self.ahead.append(entry)

    def take(self, entry: Entry) -> list[Entry]:
        """Mark ``entry`` as used. Return the skipped calls before it, which stay usable."""
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
        """Skip ``entry``, the next call. It stays usable."""
        if self.ahead and self.ahead[0] is entry:
            self.ahead.popleft()
            self.skipped[entry.seq] = entry
            self._go_on(entry)

    def _go_on(self, entry: Entry) -> None:
        self.cursor = max(self.cursor, entry.position + entry.count)
        if self.gone:
            self._go_over()

    def leave_out(self, position: int, count: int) -> None:
        """Skip ``count`` positions, so that the one after them is next."""
        self.gone[position] = count
        self._go_over()

    def _go_over(self) -> None:
        while self.cursor in self.gone:
            self.cursor += self.gone[self.cursor]

    def give_back(self, entry: Entry) -> None:
        """Make the rest of ``entry``, which was used in part, the next call."""
        self.ahead.appendleft(entry)
        self.cursor = min(self.cursor, entry.position)

    def forget(self, is_gone: Callable[[Entry], bool]) -> None:
        """Drop the calls for which ``is_gone`` is true."""
        for entry in filter(is_gone, self.unused()):
            entry.used = True
        self.ahead = deque(entry for entry in self.ahead if not entry.used)
        self.skipped = {seq: entry for seq, entry in self.skipped.items() if not entry.used}

    def unused(self) -> Iterator[Entry]:
        """Yield the unused calls in their order."""
        yield from self.skipped.values()
        yield from self.ahead


def _position(entry: Entry) -> int:
    return entry.position


_OPENINGS = {closing: opening for opening, closing in PAIRS.items()}
_MARKS = ("run_start", "run_end")
_AT_A_TIME = 8


class EventReader(Protocol):
    """Source of recorded calls, read in order."""

    def next(self) -> Event | None:
        """Return the next event, or None at the end."""

    def at(self, seq: int) -> Event:
        """Return event ``seq``, independent of the reading position."""


class UsageTracker(Protocol):
    """Tracker that is notified of used events."""

    def use(self, seq: int) -> None:
        """Note that the call opened by event ``seq`` was served."""

    def stub(self, lane: str) -> None:
        """Note that events under ``lane`` are no longer requested."""


def _data(event: Event) -> Data:
    return event.data


class RecordedCalls:
    """Recorded calls of a replay. Not thread-safe: the session's lock covers it.

    With ``by_lane=False`` all lanes are one, in the order of the log. ``whole`` returns the data of
    an event with its redacted values; by default they stay redacted. Calls that ``let_by`` accepts
    are ignored.
    """

    def __init__(
        self,
        events: EventReader,
        *,
        by_lane: bool = True,
        ledger: UsageTracker | None = None,
        whole: Callable[[Event], Data] | None = None,
        let_by: PassThroughRules | None = None,
    ) -> None:
        self.order = DeliveryOrder(self.read_on, self._is_awaited_by_nobody)
        self.whole = False
        """True if everything was read."""
        self.entries: list[Entry] | None = None
        """Every call in the order of the log, when :meth:`keep_all` was asked for."""
        self._aside: defaultdict[tuple[str, str], deque[tuple[int, Any]]] = defaultdict(deque)
        """Draws without positions, by lane and name, each with the seq of its event."""
        self.data_of = whole or _data
        """The data of an event, with what was redacted back in place as far as it can be."""
        self._events = events
        self.let_by = let_by
        self._by_lane = by_lane
        self._ledger = ledger
        self._lanes: dict[str, LaneCalls] = {}
        self._open: dict[int, Entry] = {}
        self._unlinked: defaultdict[tuple[str, str], list[Entry]] = defaultdict(list)
        self._marks: defaultdict[tuple[str, str], deque[Entry]] = defaultdict(deque)
        self._stubbed: set[str] = set()
        self._passed: set[str] = set()
        """Insides of tools that a lenient run has gone past."""
        self._elsewhere: set[str] = set()
        self._dropped: set[str] = set()
        self.stopped: set[str] = set()
        """Lanes of processes that the recorded program has ended, as far as was read."""
        self._only: str | None = None
        self._problem: RecordingError | None = None

    def keep_all(self) -> list[Entry]:
        """Return the list of all calls that are read from now on, in the order of the log."""
        if self.entries is None:
            self.entries = []
        return self.entries

    def lane(self, name: str) -> LaneCalls:
        """Return the calls of lane ``name``, empty if none was read."""
        if not self._by_lane:
            name = ROOT_LANE
        found = self._lanes.get(name)
        if found is None:
            found = self._lanes[name] = LaneCalls()
            parent = name.rpartition(".")[0]
            if parent:
                self.lane(parent).children.append(name)
        return found

    def lane_names(self) -> list[str]:
        """Return the names of the lanes that were read so far."""
        return list(self._lanes)

    def upcoming(self, name: str) -> Entry | None:
        """Return the next call of lane ``name``, or None if there are no more.

        Also None if the call at this position is lost, such as a stream that was open when the
        recording program was killed.
        """
        lane = self._lanes.get(name) or self.lane(name)
        while True:
            ahead = lane.ahead
            # Slow calls are in the log after calls that were made later.
            if ahead and (ahead[0].position <= lane.cursor or not self._by_lane):
                return ahead[0]
            if not self.read_on():
                return None

    def never_began(self, name: str) -> bool:
        """Return whether the job of lane ``name`` was dropped before it began."""
        return self.upcoming(name) is None and name in self._dropped

    def was_stopped(self, name: str) -> bool:
        """Return whether the process of lane ``name`` was stopped before its next call."""
        return self.upcoming(name) is None and _is_under(name, self.stopped)

    def take(self, entry: Entry) -> None:
        """Mark ``entry`` as used. Of a run of draws, this marks the beginning of its use."""
        if self._ledger is not None and entry.count == 1:
            self._ledger.use(entry.seq)
        if entry.inner is not None:
            self._passed.discard(entry.inner)
        name = entry.lane
        lane = self._lanes.get(name) or self.lane(name)
        for one in lane.take(entry):
            self._pass_over(one)

    def used_up(self, entry: Entry) -> None:
        """Note that every draw of a run was used."""
        if self._ledger is not None:
            self._ledger.use(entry.seq)

    def give_back(self, entry: Entry, used: int, following: str) -> None:
        """Return the unused rest of a run of draws, because the program paused after ``used``."""
        entry.go_on_at(used, following)
        entry.used = False
        lane = self._lanes.get(entry.lane) or self.lane(entry.lane)
        lane.give_back(entry)

    def pass_over(self, entry: Entry) -> None:
        """Skip ``entry``, the next call of its lane. It stays usable."""
        lane = self._lanes.get(entry.lane) or self.lane(entry.lane)
        lane.pass_over(entry)
        self._pass_over(entry)

    def _pass_over(self, entry: Entry) -> None:
        """Keep the call usable, and continue the order of deliveries without it."""
        entry.passed = True
        if entry.closing is not None:
            self.order.drop(entry.closing.seq)
        if entry.inner is not None:
            self._passed.add(entry.inner)
        self.order.leave_out(entry.lane, f"{CHUNK}:{entry.position}")
        self.order.some_apart = True

    def is_unused(self, delivery: Delivery) -> bool:
        """Return whether ``delivery`` belongs to a recorded call that has not been made.

        The pieces of a stream can precede the event of its call, which is not read for this."""
        if not self._by_lane:
            return False
        lane, token = self._lanes.get(delivery.lane), delivery.token
        if isinstance(token, int):
            ahead = () if lane is None else lane.ahead
            return any(one.closing is not None and one.closing.seq == token for one in ahead)
        position = token[1].removeprefix(f"{CHUNK}:").partition(":")[0]
        return position.isdecimal() and (lane is None or int(position) >= lane.cursor)

    def mark(self, kind: str, lane: str) -> Entry | None:
        """Return the next ``run_start`` or ``run_end`` of ``lane``, or None."""
        waiting = self._marks[kind, lane if self._by_lane else ROOT_LANE]
        while not waiting:
            if not self.read_on():
                return None
        return waiting.popleft()

    def complete(self, entry: Entry) -> Event | None:
        """Return the event that completed ``entry``, or None if it was never completed."""
        while entry.closing is None:
            if not self.read_on():
                return None
        return entry.closing

    def event(self, seq: int) -> Event:
        """Return event ``seq``, read before or not."""
        return self._events.at(seq)

    def read_all(self) -> None:
        """Read to the end."""
        while self.read_on():
            pass

    def read_on(self) -> bool:
        """Read a few events; return False at the end. Single events would take twice as long."""
        if self._problem is not None:
            raise self._problem
        for number in range(_AT_A_TIME):
            try:
                read = self._read_one()
            except RecordingError as error:
                if number == 0:
                    raise
                self._problem = error  # it is not requested yet
                return True
            if not read:
                return number > 0
        return True

    def _read_one(self) -> bool:
        event = None if self.whole else self._events.next()
        if event is None:
            self.whole = True
            return False
        if not (self.order.some_apart and self.is_passed_over(event.lane)):
            self._place(event)
        return True

    def _place(self, event: Event) -> None:
        kind = event.type
        if kind == "nondeterministic":
            self._add_single(event)
        elif kind in _OPENINGS:
            self._close(event)
        elif kind in PAIRS:
            self._open_pair(event)
        elif kind == "state_mutation" or kind in _MARKS:
            brief = summarise_event(event)
            if brief.aside is True:
                self._add_aside(event)
                return
            entry = make_entry(event, brief)
            entry.closing, entry.instant = event, True
            if kind not in _MARKS:
                self._add(entry)
            elif not _is_the_commands(event):
                lane = event.lane if self._by_lane else ROOT_LANE
                self._marks[kind, lane].append(entry)

    def _add_single(self, event: Event) -> None:
        brief = summarise_event(event)
        if brief.source == SCHEDULE:
            self._add_deliveries(event, brief)
            return
        if brief.aside is True:
            self._add_aside(event)
            return
        entry = make_entry(event, brief)
        entry.closing = event
        entry.instant = entry.kind in DRAWS or brief.instant is True
        self._add(entry)
        if entry.passed:
            return
        if not entry.unanswered and not entry.instant and brief.ended not in CUT_OFF:
            seq = event.seq
            self.order.add(seq, event.lane, seq)

    def _add_deliveries(self, event: Event, brief: EventSummary) -> None:
        lane = event.lane
        if brief.key == DROPPED:
            self._dropped.add(lane)
            return
        if brief.key == STOPPED:
            self.stopped.add(lane)
            return
        for name in delivery_names(text_or_empty(brief.key), brief.count):
            self.order.add((lane, name), lane, event.seq)

    def _add_aside(self, event: Event) -> None:
        try:
            run = load_aside(self.data_of(event))
        except ValueRefused:
            return  # never a divergence: the next ones are real
        for name, column in zip(run.names, run.columns, strict=True):
            self._aside[event.lane, name].extend((event.seq, value) for value in column)

    def next_aside(self, lane: str, name: str, before: int | None = None) -> tuple[int, Any] | None:
        """Take the next value of ``name`` that was drawn aside in ``lane`` before its next call.

        Return it with the seq of its event, or None if there are no more. With ``before``, the seq
        must be lower than that.
        """
        found = self._lanes.get(lane) or self.lane(lane)
        while True:
            queue = self._aside.get((lane, name))
            if queue:
                is_ours = before is None or queue[0][0] < before
                return queue.popleft() if is_ours else None
            if found.ahead or not self.read_on():
                return None

    def _open_pair(self, event: Event) -> None:
        brief = summarise_event(event)
        entry = make_entry(event, brief)
        self._open[event.seq] = entry
        self._unlinked[event.lane, entry.call_id or event.type].append(entry)
        self._add(entry)

    def _add(self, entry: Entry) -> None:
        name = entry.opening.lane
        lane = self._lanes.get(name) or self.lane(name)
        if entry.position < 0 or not self._by_lane:
            entry.position = lane.read
        lane.read += entry.count
        if self.let_by is not None and self._is_left_out(entry, lane, self.let_by):
            return
        lane.add(entry)
        if self.entries is not None:
            self.entries.append(entry)

    def _is_left_out(self, entry: Entry, lane: LaneCalls, let_by: PassThroughRules) -> bool:
        """Return whether ``entry`` is never requested, because the policy lets it pass.

        A run of draws can start with such draws. It then begins after them.
        """
        names = self._drawn(entry) if entry.count > 1 else []
        first = next((at for at, name in enumerate(names) if not let_by.draws(name)), None)
        if first:
            lane.leave_out(entry.position, first)
            entry.go_on_at(first, names[first])
        if first is not None or not (names or let_by.calls(entry)):
            return False
        lane.leave_out(entry.position, entry.count)
        entry.used = entry.passed = True
        if entry.inner is not None and entry.type == "tool_call":
            self._stub(entry.inner)  # what it does inside, it does without asking, too
        self.order.leave_out(entry.lane, f"{CHUNK}:{entry.position}")
        return True

    def _drawn(self, entry: Entry) -> list[str]:
        try:
            run = load_run(self.data_of(entry.opening))
        except ValueRefused:
            return []  # the request of it raises
        return [run.names[turn] for turn in run.turns]

    def _close(self, event: Event) -> None:
        """Find the opening: by its seq, by the id of the call, or the oldest open one."""
        brief = summarise_event(event)
        entry = self._open.get(event.parent or 0)
        if entry is None or not completes_entry(event, brief, entry):
            name = text_or_empty(brief.call_id) or _OPENINGS[event.type]
            waiting = self._unlinked.get((event.lane, name), ())
            entry = next((one for one in waiting if completes_entry(event, brief, one)), None)
            if entry is None:
                return
        del self._open[entry.seq]
        self._unlink(entry)
        entry.closing = event
        entry.answer = brief.answer
        entry.unanswered = brief.unanswered
        if not entry.unanswered and not entry.passed and brief.ended not in CUT_OFF:
            self.order.add(event.seq, event.lane, event.seq)

    def _unlink(self, entry: Entry) -> None:
        name = (entry.lane, entry.call_id or entry.type)
        self._unlinked[name].remove(entry)
        if not self._unlinked[name]:
            del self._unlinked[name]

    # Lanes of tools and of other processes

    def stub(self, lane: str) -> None:
        """Skip everything under ``lane``, because the tool that contains it is stubbed."""
        if self._ledger is not None:
            self._ledger.stub(lane)
        self._stub(lane)

    def _stub(self, lane: str) -> None:
        self._stubbed.add(lane)
        self.order.some_apart = True
        self._forget(lane)

    def leave_to_child(self, lane: str) -> None:
        """Leave the calls under ``lane`` to a different process."""
        self._elsewhere.add(lane)
        self.order.some_apart = True
        self._forget(lane)

    def keep_to(self, lane: str) -> None:
        """Keep only the calls under ``lane``, which this process makes."""
        self._only = lane
        self.order.some_apart = True

    def is_passed_over(self, lane: str) -> bool:
        """Return whether ``lane`` is inside a stubbed tool or belongs to a different process."""
        if not self._stubbed and not self._elsewhere and self._only is None:
            return False
        if self._only is not None and not _is_under(lane, {self._only}):
            return True
        return _is_under(lane, self._stubbed) or _is_under(lane, self._elsewhere)

    def _is_awaited_by_nobody(self, lane: str) -> bool:
        return self.is_passed_over(lane) or (bool(self._passed) and _is_under(lane, self._passed))

    def _forget(self, lane: str) -> None:
        if not self._by_lane:
            self.lane(lane).forget(lambda entry: self.is_passed_over(entry.lane))
            return
        gone = self._lanes.pop(lane, None)
        if gone is None:
            return
        gone.forget(lambda _: True)
        for child in gone.children:
            self._forget(child)


def _is_the_commands(event: Event) -> bool:
    """Return whether ``reenact run`` has recorded the start of the program."""
    return event.seq == 1 and "hashSeed" in event.data


def _is_under(lane: str, tops: set[str]) -> bool:
    """Return whether ``lane`` is in ``tops`` or below one of them."""
    while tops and lane:
        if lane in tops:
            return True
        lane = lane.rpartition(".")[0]
    return False
