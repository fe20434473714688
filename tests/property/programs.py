"""Programs of many lanes, run in any interleaving: recorded by one, replayed by others.

A program is a tree: a lane makes its steps one after another, and some steps have a lane of their
own. What runs when is drawn from a random number generator, but for what a real program fixes: the
order inside a lane, and that a tool comes back when its inside has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import strategies as st

from reenact.engine.call import Call, Reexecute, Serve
from reenact.engine.scheduling.delivery_order import DeliveryToken
from reenact.testing import MemorySource, Playbook, recording
from reenact.testing.recordings import call_of, parse_line


@dataclass(frozen=True)
class Step:
    """``said`` is the call in the notation of playbooks; a spawn has none."""

    said: str
    inside: tuple[Step, ...] | None = None

    @property
    def kind(self) -> str:
        return self.said.partition(" ")[0] or "spawn"


Program = tuple[Step, ...]

# Few different requests, so that many calls are identical.
NETWORK = st.sampled_from(['network get {"x": 1}', 'network get {"x": 2}', 'network put {"x": 1}'])
MODEL = st.sampled_from(['llm acme/m1 {"q": 1}', 'llm acme/m1 {"q": 2}'])
DRAWN = st.sampled_from(["clock now", "rng random"])
TOOL = st.sampled_from(['tool search {"q": 1}', "tool run {}"])
LEAVES = st.builds(Step, st.one_of(NETWORK, NETWORK, MODEL, DRAWN))


def _nested(inside: st.SearchStrategy[Program]) -> st.SearchStrategy[Program]:
    steps = st.one_of(
        LEAVES, LEAVES, st.builds(Step, TOOL, inside), st.builds(Step, st.just(""), inside)
    )
    return st.lists(steps, max_size=5).map(tuple)


PROGRAMS = st.recursive(st.lists(LEAVES, max_size=4).map(tuple), _nested, max_leaves=8)


def lanes_of(program: Program, name: str = "0") -> dict[str, list[tuple[Step, str | None]]]:
    """Every lane with its steps, each with the lane of its inside."""
    found: dict[str, list[tuple[Step, str | None]]] = {name: []}
    children = 0
    for step in program:
        inner = None
        if step.inside is not None:
            children += 1
            inner = f"{name}.{children}"
            found |= lanes_of(step.inside, inner)
        found[name].append((step, inner))
    return found


@dataclass
class _Lane:
    name: str
    steps: list[tuple[Step, str | None]]
    at: int = 0
    waits: bool = False
    parent: _Lane | None = None
    """Whose tool this is the inside of."""
    on_end: Callable[[], None] = lambda: None

    @property
    def is_ready(self) -> bool:
        return not self.waits and self.at < len(self.steps)


class Scheduler:
    """Runs the lanes of a program. What a call does is up to who inherits."""

    def __init__(self, program: Program, random: Random) -> None:
        self.random = random
        self.all = lanes_of(program)
        self.running: list[_Lane] = []
        self.start("0")

    def start(self, name: str, on_end: Callable[[], None] = lambda: None) -> None:
        lane = _Lane(name, self.all[name], on_end=on_end)
        self.running.append(lane)
        if not lane.steps:
            on_end()

    def run(self) -> None:
        while True:
            ready = [lane for lane in self.running if lane.is_ready]
            choices = [*ready, *self.deliverable()]
            if not choices:
                return
            chosen = self.random.choice(choices)
            if isinstance(chosen, _Lane):
                self.step(chosen)
            else:
                self.deliver(chosen)

    def step(self, lane: _Lane) -> None:
        step, inner = lane.steps[lane.at]
        if step.kind == "spawn":
            assert inner is not None
            self.start(inner)
            self.advance(lane)
        else:
            self.call(lane, step, inner)

    def advance(self, lane: _Lane) -> None:
        lane.waits = False
        lane.at += 1
        if lane.at == len(lane.steps):
            lane.on_end()

    def deliverable(self) -> list[Any]:
        """What may be handed to the program now."""
        raise NotImplementedError

    def deliver(self, token: Any) -> None:
        raise NotImplementedError

    def call(self, lane: _Lane, step: Step, inner: str | None) -> None:
        raise NotImplementedError


@dataclass
class Recorded:
    """``seqs`` are the openings, ``answers`` what each call was answered, both by lane and index
    of the step; ``order`` the completing events of those that were waited for."""

    lines: list[str] = field(default_factory=list)
    seqs: dict[tuple[str, int], int] = field(default_factory=dict)
    closings: dict[tuple[str, int], int] = field(default_factory=dict)

    def source(self) -> MemorySource:
        return recording("\n".join(self.lines))

    @property
    def order(self) -> list[tuple[str, int]]:
        return sorted(self.closings, key=self.closings.__getitem__)


class Recording(Scheduler):
    """One run of a program, written down as it goes. The answer of every call is its own seq."""

    def __init__(self, program: Program, random: Random) -> None:
        super().__init__(program, random)
        self.made = Recorded()
        self._under_way: list[tuple[_Lane, str]] = []
        self.run()

    def _write(self, line: str) -> int:
        self.made.lines.append(line)
        return len(self.made.lines)

    def deliverable(self) -> list[Any]:
        return list(self._under_way)

    def deliver(self, token: Any) -> None:
        lane, said = token
        self._under_way.remove(token)
        place = lane.name, lane.at
        seq = self._write(f"{lane.name} {said} = {len(self.made.lines) + 1}")
        self.made.closings[place] = seq
        self.made.seqs.setdefault(place, seq)
        self.advance(lane)

    def call(self, lane: _Lane, step: Step, inner: str | None) -> None:
        place = lane.name, lane.at
        if step.kind in ("clock", "rng"):
            number = len(self.made.lines) + 1
            self.made.seqs[place] = self._write(f"{lane.name} {step.said} = {number}")
            self.advance(lane)
            return
        lane.waits = True
        # The notation finds the start of a call by its name: every pair needs one of its own.
        if step.kind == "network":
            self._under_way.append((lane, step.said))
            return
        name = " ".join(step.said.split(" ")[:2])
        where = f"inside {inner}" if inner else ""
        self.made.seqs[place] = self._write(f"{lane.name} {step.said} {where}")
        if inner is None:
            self._under_way.append((lane, name))
        else:
            self.start(inner, lambda: self._under_way.append((lane, name)))


class Replay(Scheduler):
    """Another run, answered by a playbook's machine and paced by its order."""

    def __init__(self, program: Program, random: Random, book: Playbook) -> None:
        super().__init__(program, random)
        self.book = book
        self.got: dict[tuple[str, int], Any] = {}
        self.served: list[int] = []
        self.order: list[tuple[str, int]] = []
        self.refused: list[tuple[str, int]] = []
        self._waiting: dict[DeliveryToken, _Lane] = {}
        assert book.script is not None
        self._script = book.script
        self.run()

    def deliverable(self) -> list[Any]:
        head = self._script.order.head()
        return [head.token] if head is not None and head.token in self._waiting else []

    def deliver(self, token: Any) -> None:
        self._script.order.drop(token)
        lane = self._waiting.pop(token)
        self.order.append((lane.name, lane.at))
        self.advance(lane)

    def call(self, lane: _Lane, step: Step, inner: str | None) -> None:
        call = self._asked(lane, step)
        decision, _ = self.book.machine.decide(call, lane.name)
        place = lane.name, lane.at
        if not isinstance(decision, (Serve, Reexecute)):
            lane.waits = True
            self.refused.append(place)
            return
        entry = decision.entry
        closing = self._script.complete(entry)
        assert closing is not None
        self.served.append(entry.seq)
        data = closing.data
        self.got[place] = data.get("result", data.get("response", data.get("value")))
        if call.instant:
            self.advance(lane)
            return
        lane.waits = True
        if isinstance(decision, Reexecute):
            assert inner is not None
            self.start(inner, lambda: self._waiting.__setitem__(closing.seq, lane))
            return
        if entry.inner is not None:
            self._script.stub(entry.inner)
        self._waiting[closing.seq] = lane

    def _asked(self, lane: _Lane, step: Step) -> Call:
        return call_of(parse_line(f"{lane.name} {step.said}"))


def is_inside_a_tool(lane: str, program: Program) -> bool:
    """Is ``lane`` inside a tool, at whatever depth?"""
    tools = {
        inner
        for steps in lanes_of(program).values()
        for step, inner in steps
        if step.kind == "tool" and inner is not None
    }
    parts = lane.split(".")
    return any(".".join(parts[:end]) in tools for end in range(1, len(parts) + 1))
