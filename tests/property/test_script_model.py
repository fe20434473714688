"""Script and order, step by step against a model that is a plain list."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reenact.engine.call import Entry
from reenact.engine.decision.recorded_calls import RecordedCalls
from reenact.engine.scheduling.delivery_order import DeliveryToken
from reenact.testing import MemorySource, recording


@dataclass
class Fact:
    """One recorded call."""

    lane: str
    position: int
    seq: int
    closing: int | None = None
    inner: str | None = None
    instant: bool = False
    used: bool = False
    passed: bool = False


@dataclass
class Log:
    """What was recorded, in the order of the log."""

    lines: list[str] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    deliveries: list[tuple[DeliveryToken, str]] = field(default_factory=list)
    lanes: list[str] = field(default_factory=lambda: ["0", "0.1"])


class _Writer:
    """Writes a log action by action, as a program might."""

    def __init__(self, draw: Any) -> None:
        self.log = Log()
        self._draw = draw
        self._positions: dict[str, int] = {}
        self._streams: list[tuple[str, int, list[int]]] = []
        self._tools: list[tuple[Fact, str]] = []
        self._timers = 0

    def _line(self, text: str) -> int:
        self.log.lines.append(text)
        return len(self.log.lines)

    def _start(self) -> tuple[str, int]:
        lane = self._draw(st.sampled_from(self.log.lanes))
        position = self._positions.get(lane, 0)
        self._positions[lane] = position + 1
        return lane, position

    def single(self) -> None:
        lane, position = self._start()
        self._end_single(lane, position)

    def _end_single(self, lane: str, position: int) -> None:
        seq = self._line(f"{lane} network get {{}} at {position} = 1")
        self.log.facts.append(Fact(lane, position, seq, seq))
        self.log.deliveries.append((seq, lane))

    def clock(self) -> None:
        lane, position = self._start()
        seq = self._line(f"{lane} clock now at {position} = 1")
        self.log.facts.append(Fact(lane, position, seq, seq, instant=True))

    def stream(self) -> None:
        """A gap, unless it ends."""
        self._streams.append((*self._start(), []))

    def chunk(self) -> None:
        if self._streams:
            lane, position, chunks = self._draw(st.sampled_from(self._streams))
            name = f"chunk:{position}:{len(chunks)}"
            chunks.append(self._line(f"{lane} schedule {name}"))
            self.log.deliveries.append(((lane, name), lane))

    def end(self) -> None:
        if self._streams:
            at = self._draw(st.integers(0, len(self._streams) - 1))
            lane, position, _ = self._streams.pop(at)
            self._end_single(lane, position)

    def tool(self) -> None:
        lane, position = self._start()
        inner = f"{lane}.{len(self.log.lines) + 5}"
        name = f"t{len(self.log.lines)}"
        seq = self._line(f"{lane} tool {name} {{}} at {position} inside {inner}")
        fact = Fact(lane, position, seq, inner=inner)
        self.log.facts.append(fact)
        self.log.lanes.append(inner)
        self._tools.append((fact, name))

    def result(self) -> None:
        if self._tools:
            at = self._draw(st.integers(0, len(self._tools) - 1))
            fact, name = self._tools.pop(at)
            fact.closing = self._line(f"{fact.lane} tool {name} = 1")
            self.log.deliveries.append((fact.closing, fact.lane))

    def timer(self) -> None:
        lane = self._draw(st.sampled_from(self.log.lanes))
        self._timers += 1
        self._line(f"{lane} schedule timer:{self._timers}")
        self.log.deliveries.append(((lane, f"timer:{self._timers}"), lane))


ACTIONS = ["single", "single", "clock", "stream", "chunk", "end", "tool", "tool", "result", "timer"]


@st.composite
def logs(draw: Any) -> Log:
    writer = _Writer(draw)
    for action in draw(st.lists(st.sampled_from(ACTIONS), min_size=4, max_size=20)):
        getattr(writer, action)()
    return writer.log


class Model:
    """The slow and plain way: look through everything every time."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.cursors: dict[str, int] = {}
        self.gone: set[str] = set()
        self.dropped: set[DeliveryToken] = set()

    def is_under(self, lane: str, tops: set[str]) -> bool:
        return any(lane == top or lane.startswith(f"{top}.") for top in tops)

    def unused(self, lane: str) -> list[Fact]:
        return [
            fact
            for fact in sorted(self.log.facts, key=lambda fact: (fact.position, fact.seq))
            if fact.lane == lane and not fact.used and not self.is_under(lane, self.gone)
        ]

    def upcoming(self, lane: str) -> Fact | None:
        ahead = [fact for fact in self.unused(lane) if not fact.passed]
        if not ahead or ahead[0].position > self.cursors.get(lane, 0):
            return None
        return ahead[0]

    def take(self, fact: Fact, among: set[int] | None = None) -> None:
        """``among`` are those that have been read; without it, all up to the cursor have."""
        fact.used = True
        if not fact.passed:
            for one in self.unused(fact.lane):
                if among is None or one.seq in among:
                    one.passed |= one.position < fact.position
        self.cursors[fact.lane] = max(self.cursors.get(fact.lane, 0), fact.position + 1)

    def head(self) -> DeliveryToken | None:
        for token, lane in self.log.deliveries:
            if self._waits(token, lane):
                return token
            self.dropped.add(token)  # the order does not come back to what it has gone past
        return None

    def _waits(self, token: DeliveryToken, lane: str) -> bool:
        facts = self.log.facts
        passed_tools = {
            fact.inner for fact in facts if fact.inner and fact.passed and not fact.used
        }
        if token in self.dropped or self.is_under(lane, self.gone | passed_tools):
            return False
        if isinstance(token, int):
            return not any(fact.closing == token and fact.passed for fact in facts)
        name, _, _ = token[1].rpartition(":")
        return not any(
            fact.lane == lane and fact.passed and name == f"chunk:{fact.position}" for fact in facts
        )


class ScriptMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.script: RecordedCalls
        self.model: Model

    @initialize(log=logs())
    def start(self, log: Log) -> None:
        source: MemorySource = recording("\n".join(log.lines))
        self.script = RecordedCalls(source)
        self.model = Model(log)
        self.entries: dict[int, Entry] = {}

    def lane(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(self.model.log.lanes))

    @rule(data=st.data())
    def the_next_call_of_a_lane(self, data: st.DataObject) -> None:
        lane = self.lane(data)
        found, wanted = self.script.upcoming(lane), self.model.upcoming(lane)
        assert (found and found.seq) == (wanted and wanted.seq)
        if found is None or wanted is None or not data.draw(st.booleans()):
            return
        self.script.take(found)
        self.model.take(wanted)

    @rule(data=st.data())
    def a_call_out_of_order(self, data: st.DataObject) -> None:
        """As a lenient run and a look-up take one, from what has been read so far."""
        lane = self.lane(data)
        entries = {entry.seq: entry for entry in self.script.lane(lane).unused()}
        facts = {fact.seq: fact for fact in self.model.unused(lane)}
        assert set(entries) == set(facts) if self.script.whole else set(entries) <= set(facts)
        if entries:
            seq = data.draw(st.sampled_from(sorted(entries)))
            self.script.take(entries[seq])
            self.model.take(facts[seq], among=set(entries))

    @rule(data=st.data())
    def what_completed_a_call(self, data: st.DataObject) -> None:
        lane = self.lane(data)
        entry, fact = self.script.upcoming(lane), self.model.upcoming(lane)
        if entry is not None and fact is not None:
            closing = self.script.complete(entry)
            assert (closing and closing.seq) == fact.closing

    @rule(data=st.data())
    def stub_a_tool(self, data: st.DataObject) -> None:
        tools = [fact.inner for fact in self.model.log.facts if fact.inner is not None]
        if tools:
            lane = data.draw(st.sampled_from(tools))
            self.script.stub(lane)
            self.model.gone.add(lane)

    @rule()
    def hand_over(self) -> None:
        head = self.script.order.head()
        assert (head and head.token) == self.model.head()
        if head is not None:
            assert self.script.order.is_ahead(head.token)
            self.script.order.drop(head.token)
            self.model.dropped.add(head.token)

    @rule(data=st.data())
    def give_up_a_timer(self, data: st.DataObject) -> None:
        timers = [token for token, _ in self.model.log.deliveries if not isinstance(token, int)]
        if timers:
            token = data.draw(st.sampled_from(timers))
            self.script.order.skip(token)
            self.model.dropped.add(token)

    @precondition(lambda self: not self.script.whole)
    @rule(events=st.integers(1, 6))
    def read_on(self, events: int) -> None:
        for _ in range(events):
            self.script.read_on()

    @invariant()
    def nothing_is_ahead_that_was_handed_over(self) -> None:
        if hasattr(self, "model"):
            assert not any(map(self.script.order.is_ahead, self.model.dropped))


TestScript = ScriptMachine.TestCase
TestScript.settings = settings(stateful_step_count=40)
