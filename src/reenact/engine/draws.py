"""Draws: clock readings, random values, and values read from the environment and the host.

Each draw has a position in its lane, as any call has, but a program can make millions of them.
Consecutive draws of a lane are stored as one event, called a run of draws. Most draws need
neither the session's lock nor the log: only one thread or task executes a lane at a time, so the
open run of a lane belongs to that thread or task alone.

:class:`RecordedDraws` makes draws and writes them down. :class:`ReplayedDraws` serves recorded
ones. A lenient replay without a recorded value uses a synthetic value, which is the same in every
replay. Updates (``update.draws``) and forks (``fork.forked_run``) have variants of their own,
which are loaded on demand.
"""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from reenact.engine.call import DRAWS_ENTRY, Call, Decision, Entry, Refuse, Serve, draw_call
from reenact.engine.codecs import PlainCodec, ResultCodec, copy_value
from reenact.engine.decision.machine import Machine
from reenact.engine.divergence.model import Divergence
from reenact.engine.lanes import Lane, Lanes
from reenact.engine.recording.recorder import InFlightCall, Recorder
from reenact.errors import RecordingDamaged, ValueRefused
from reenact.format.draw_runs import (
    LONGEST_RUN,
    MOST_NAMES,
    Mutation,
    Name,
    Run,
    load_run,
    mutation_of,
)
from reenact.format.event import Data

if TYPE_CHECKING:
    from reenact.engine.decision.passthrough import PassThroughRules
    from reenact.store.source import SeekableSource

__all__ = [
    "ABSENT",
    "VALUE_CODEC",
    "DrawSession",
    "Draws",
    "Live",
    "OpenDrawRun",
    "PartlyServedDraws",
    "RecordedDraws",
    "ReplayedDraws",
    "ServedDraws",
    "named_draw_call",
    "next_clock_value",
    "read_draw_run",
    "recorded_draws",
    "synthetic_value",
]

Live = Callable[[], Any]


class DrawDecisions(Protocol):
    """Decision about a draw that is not in an open run."""

    def decide(self, call: Call, *, blocks: bool) -> tuple[Decision, InFlightCall]: ...


class DrawGateway(Protocol):
    """Execution of a draw that is not in an open run."""

    def call(self, call: Call, live: Live, codec: ResultCodec = ...) -> Any: ...
    def steps(
        self, decision: Decision, opened: InFlightCall, live: Live, codec: ResultCodec
    ) -> Any: ...
    def run(self, steps: Any) -> Any: ...


class DrawReporter(Protocol):
    """Position of a divergence in the program."""

    def located(self, divergence: Divergence) -> Divergence: ...


class DrawSession(Protocol):
    """Parts of a session that draws use."""

    lanes: Lanes
    machine: Machine
    recorder: Recorder

    @property
    def decisions(self) -> DrawDecisions: ...
    @property
    def gateway(self) -> DrawGateway: ...
    @property
    def reporter(self) -> DrawReporter: ...
    @property
    def lock(self) -> AbstractContextManager[Any]: ...
    @property
    def is_active(self) -> bool: ...
    @property
    def free_draws(self) -> set[str]: ...
    @property
    def source(self) -> SeekableSource | None: ...


ABSENT: Final = object()
"""In place of a value: there is none here."""


@lru_cache(maxsize=4096)  # a name may have a path in it
def named_draw_call(name: Name) -> Call:
    """Return the call of a draw of ``name``."""
    source, _, key = name.partition(" ")
    return draw_call(source, key)


class _Value(PlainCodec):
    def dump(self, call: Call, result: Any) -> Data:
        return {"value": copy_value(result), "instant": True}


VALUE_CODEC: Final = _Value()


class ServedDraws:
    """Recorded draws that are being handed over; ``done`` is called with the last one."""

    __slots__ = ("_done", "_drawn", "at", "entry")

    def __init__(self, run: Run, entry: Entry, done: Callable[[], None]) -> None:
        self.at = entry.start
        self.entry = entry
        columns = list(map(iter, run.columns))
        self._drawn = [(run.names[turn], next(columns[turn])) for turn in run.turns]
        self._done = done

    def next(self, name: Name) -> Any:
        """Return the next value if it belongs to ``name``, else ``ABSENT``."""
        at = self.at
        if at == len(self._drawn):
            return ABSENT
        asked, value = self._drawn[at]
        if asked != name:
            return ABSENT
        self.at = at + 1
        if self.at == len(self._drawn):
            self._done()
        return value

    def last_values(self) -> dict[Name, Any]:
        """Return the last served value of each name."""
        return dict(self._drawn[: self.at])

    @property
    def following(self) -> Name | None:
        """Name of the next draw; None at the end."""
        return None if self.at == len(self._drawn) else self._drawn[self.at][0]


class PartlyServedDraws(ServedDraws):
    """Served draws of which some are ``let_by``: these are skipped."""

    __slots__ = ("_let_by",)

    def __init__(
        self, run: Run, entry: Entry, done: Callable[[], None], let_by: PassThroughRules
    ) -> None:
        super().__init__(run, entry, done)
        self._let_by = let_by

    def next(self, name: Name) -> Any:
        value = super().next(name)
        before = self.at
        while value is not ABSENT and self.following and self._let_by.draws(self.following):
            self.at += 1
        if before < self.at == len(self._drawn):
            self._done()
        return value


def read_draw_run(entry: Entry, session: DrawSession) -> Run:
    """Return the draws of a recorded run. Raises :class:`RecordingDamaged`."""
    script = session.machine.script
    assert script is not None
    try:
        with session.lock:
            data = script.data_of(entry.opening)
        return load_run(data)
    except ValueRefused as error:
        raise RecordingDamaged(
            f"event {entry.seq} cannot be read: {error.message}", place=f"event {entry.seq}"
        ) from None


def recorded_draws(session: DrawSession) -> frozenset[str]:
    """Return the sources whose draws the recording of ``session`` has completely."""
    source = session.source
    said = "" if source is None else source.manifest().environment.get(DRAWS_ENTRY, "")
    return frozenset(said.split())


_MICROSECOND = 1e-6


def next_clock_value(value: Any) -> Any:
    """Return the value of a clock after ``value``: a microsecond or one unit later.

    A value that is not a number stays unchanged.
    """
    if isinstance(value, float):
        return value + _MICROSECOND
    return value + 1 if isinstance(value, int) else value


def synthetic_value(call: Call, run_seed: str, lane: Lane, last_clock: float | None) -> Any:
    """Return a reproducible value for a draw that was not recorded.

    For a clock it follows the last value. For randomness it is a number from 0 to 1 that depends on
    the run, the lane and the position. None for other sources.
    """
    if call.source == "clock" and last_clock is not None:
        return next_clock_value(last_clock)
    if call.source == "rng":
        place = f"{run_seed}/{lane.name}/{lane.calls}/{call.operation}"
        number = int.from_bytes(hashlib.sha256(place.encode()).digest()[:7], "big") >> 3
        return number / (1 << 53)
    return None


_MOST_OPEN: Final = 64
"""Lanes of one thread whose runs are not written yet."""

_ident = threading.get_ident


class OpenDrawRun:
    """Draws that have been made and are not written yet: one event, so state mutations are apart
    from other draws, and have each name once."""

    __slots__ = ("_kind", "_names", "_once", "drawn")

    def __init__(self) -> None:
        self.drawn: list[tuple[Name, Any]] = []
        self._names: set[Name] = set()
        self._kind: Mutation = ""
        self._once: set[Name] = set()
        """Names that the open state mutation has already."""

    def draw(self, name: Name, live: Live) -> Any:
        """Draw and record a value. Return ``ABSENT`` if the run is full or ``name`` is not admitted."""
        if name not in self._names or len(self.drawn) >= LONGEST_RUN:
            return ABSENT
        value = live()
        self.drawn.append((name, value))  # at once: a signal may come between any two steps
        if self._kind:
            self._names.discard(name)
            self._once.add(name)
        return value

    def admit(self, name: Name) -> bool:
        """From now on ``name`` can be drawn. False when there are too many, or when it belongs to
        another event."""
        if len(self.drawn) >= LONGEST_RUN or len(self._names) >= MOST_NAMES:
            return False
        kind = mutation_of(name)
        if self.drawn and (kind != self._kind or kind == "cwd_change" or name in self._once):
            return False
        self._kind = kind
        self._names.add(name)
        return True

    def take(self, name: Name, value: Any) -> bool:
        """Add the first draw of ``name``, whose value is known. False where :meth:`admit` is."""
        kind, drawn = mutation_of(name), self.drawn
        if drawn:
            if kind != self._kind or kind == "cwd_change" or name in self._once:
                return False
            if len(drawn) >= LONGEST_RUN or len(self._names) >= MOST_NAMES:
                return False
        self._kind = kind
        drawn.append((name, value))
        (self._once if kind else self._names).add(name)
        return True

    @property
    def reads_environment(self) -> bool:
        """Are these environment variables, each of them once?"""
        return self._kind == "env_read"

    def whole(self) -> Run:
        """Return the draws as a run."""
        if len(self._names) == 1 and not self._kind:
            [name] = self._names
            return Run([name], [0] * len(self.drawn), [[value for _, value in self.drawn]])
        columns: dict[Name, list[Any]] = {}
        for name, value in self.drawn:
            columns.setdefault(name, []).append(value)
        numbers = {name: number for number, name in enumerate(columns)}
        turns = [numbers[name] for name, _ in self.drawn]
        return Run(list(columns), turns, list(columns.values()))


class RecordedDraws:
    """Draws that are made and written down."""

    def __init__(self, session: DrawSession) -> None:
        self._session = session
        self._lane = session.lanes.current
        self._open: defaultdict[int, dict[Lane, None]] = defaultdict(dict)
        self._free = session.free_draws
        """Sources whose draws are kept many in one event: that depends on nothing else."""

    def draw(self, name: Name, live: Live) -> Any:
        lane = self._lane()
        run = lane.run
        value = ABSENT if run is None else run.draw(name, live)
        return self._first(lane, name, live) if value is ABSENT else value

    def _first(self, lane: Lane, name: Name, live: Live) -> Any:
        """Draw the first value of its name in a run."""
        session = self._session
        if not session.is_active:
            return live()
        how = self._how(session, name)
        if how != "run" or session.recorder.budget.full is not None:
            self._write(lane)
            return (
                live()
                if how == "pass"
                else session.gateway.call(named_draw_call(name), live, VALUE_CODEC)
            )
        if lane.run is None or not lane.run.admit(name):
            self._write(lane)
            lane.run = OpenDrawRun()
            lane.run.admit(name)
            self._opened(lane)
        return lane.run.draw(name, live)

    def _how(self, session: DrawSession, name: Name) -> Literal["run", "one", "pass"]:
        """See :meth:`reenact.engine.decision.machine.Machine.draws_of`."""
        source = name.partition(" ")[0]
        if source in self._free:
            return "run"
        with session.lock:
            how = session.machine.draws_of(named_draw_call(name))
        if how == "run":
            self._free.add(source)
        return how

    def draw_aside(self, name: Name, live: Live, *, fresh: bool = False) -> Any:
        lane = self._lane()
        run = lane.side
        value = ABSENT if run is None else run.draw(name, live)
        return self._first_aside(lane, name, live) if value is ABSENT else value

    def _first_aside(self, lane: Lane, name: Name, live: Live) -> Any:
        session = self._session
        if not session.is_active:
            return live()
        if self._how(session, name) != "run" or session.recorder.budget.full is not None:
            return live()
        if lane.side is None or not lane.side.admit(name):
            self._end_side(lane)
            lane.side = OpenDrawRun()
            lane.side.admit(name)
            self._opened(lane)
        return lane.side.draw(name, live)

    def note_aside(self, lane: Lane, name: Name, value: Any) -> None:
        """:meth:`draw_aside` in ``lane`` for a fact whose ``value`` is known. An app reads the same
        environment variables in every request, so this takes the shortest way."""
        session = self._session
        if not session.is_active or self._how(session, name) != "run":
            return
        if session.recorder.budget.full is not None:
            return
        if lane.side is None or not lane.side.take(name, value):
            self._end_side(lane)
            lane.side = OpenDrawRun()
            lane.side.take(name, value)
            self._opened(lane)

    def _opened(self, lane: Lane) -> None:
        here = self._open[_ident()]
        if len(here) >= _MOST_OPEN:
            # Lanes of this very thread, so none of them is drawing: most belong to tasks that ended.
            for other in [one for one in here if one is not lane]:
                self._write(other)
        here[lane] = None

    def end(self, lane: Lane) -> None:
        self._write(lane)

    def _write(self, lane: Lane) -> None:
        run, lane.run = lane.run, None
        self._end_side(lane)
        with self._session.lock:
            for lanes in self._open.values():
                lanes.pop(lane, None)
            if run is not None and run.drawn:
                self._session.recorder.draws(lane, run.whole())

    def _end_side(self, lane: Lane) -> None:
        run, lane.side = lane.side, None
        if run is not None and run.drawn:
            with self._session.lock:
                if run.reads_environment:
                    self._session.recorder.reads(lane, run.drawn)
                else:
                    self._session.recorder.draws(lane, run.whole(), aside=True)

    def end_all(self) -> None:
        for lanes in list(self._open.values()):
            for lane in list(lanes):
                self._write(lane)

    def after_fork(self) -> None:
        """Forget the draws of the parent of this forked child."""
        for lanes in self._open.values():
            for lane in lanes:
                lane.run = lane.side = None
        self._open.clear()


class ReplayedDraws:
    """Draws that are served as they were recorded."""

    def __init__(self, session: DrawSession) -> None:
        self._session = session
        self._lane = session.lanes.current
        self._open: dict[Lane, None] = {}
        self._last: dict[Name, Any] = {}
        self._recorded = recorded_draws(session)

    def draw(self, name: Name, live: Live) -> Any:
        lane = self._lane()
        run = lane.run
        value = ABSENT if run is None else run.next(name)
        return self._first(lane, name, live) if value is ABSENT else value

    def _first(self, lane: Lane, name: Name, live: Live) -> Any:
        session = self._session
        call = named_draw_call(name)
        if call.source not in self._recorded or not session.is_active:
            return live()
        with session.lock:
            passes = session.machine.draws_of(call) == "pass"
        if passes:
            return live()
        decision, opened = session.decisions.decide(call, blocks=False)  # ends the run of the lane
        if isinstance(decision, Refuse) and decision.divergence is not None:
            decision = Refuse(divergence=session.reporter.located(decision.divergence))
        if isinstance(decision, Refuse) and decision.divergence and not session.machine.strict:
            return self._made_up(name, live, decision, opened)
        if not isinstance(decision, Serve) or "count" not in decision.entry.opening.data:
            gateway = session.gateway
            value = gateway.run(gateway.steps(decision, opened, live, VALUE_CODEC))
            self._last[name] = value
            return value
        entry = decision.entry
        run = read_draw_run(entry, session)
        lane.calls += entry.count - 1
        lane.run = self._serving(run, entry, lane)
        self._open[lane] = None
        return lane.run.next(name)

    def _serving(self, run: Run, entry: Entry, lane: Lane) -> ServedDraws:
        script = self._session.machine.script
        let_by = None if script is None else script.let_by
        if let_by is None:
            return ServedDraws(run, entry, lambda: self._done(lane, entry))
        return PartlyServedDraws(run, entry, lambda: self._done(lane, entry), let_by)

    def _made_up(self, name: Name, live: Live, decision: Refuse, opened: InFlightCall) -> Any:
        """Return a synthetic value in a lenient replay.

        A clock continues from its last value. A clock that was never read in the recording is live.
        """
        if not name.startswith("clock "):
            gateway = self._session.gateway
            return gateway.run(gateway.steps(decision, opened, live, VALUE_CODEC))
        last = self._last.get(name)
        value = live() if last is None else next_clock_value(last)
        self._last[name] = value
        return value

    def draw_aside(self, name: Name, live: Live, *, fresh: bool = False) -> Any:
        session = self._session
        if fresh or named_draw_call(name).source not in self._recorded or not session.is_active:
            return live()
        with session.lock:
            script = session.machine.script
            assert script is not None
            free = session.machine.draws_of(named_draw_call(name)) == "run"
            found = script.next_aside(self._lane().name, name) if free else None
        return live() if found is None else found[1]

    def _done(self, lane: Lane, entry: Entry) -> None:
        script = self._session.machine.script
        assert script is not None
        with self._session.lock:
            self._open.pop(lane, None)
            script.used_up(entry)

    def end(self, lane: Lane) -> None:
        run, lane.run = lane.run, None
        if run is None:
            return
        self._last.update(run.last_values())
        if run.following is None:
            return
        script = self._session.machine.script
        assert script is not None
        with self._session.lock:
            self._open.pop(lane, None)
            lane.calls -= run.entry.count - (run.at - run.entry.start)
            script.give_back(run.entry, run.at, run.following)

    def end_all(self) -> None:
        for lane in list(self._open):
            self.end(lane)

    def after_fork(self) -> None:
        """Forget the draws that the parent of this forked child is served."""
        for lane in self._open:
            lane.run = None
        self._open.clear()


class Draws(Protocol):
    """One per session."""

    def draw(self, name: Name, live: Live) -> Any:
        """Return the value of ``live``, or the recorded one. Raises the refusal of a policy."""

    def draw_aside(self, name: Name, live: Live, *, fresh: bool = False) -> Any:
        """Variant of :meth:`draw` without a position, for libraries and facts.

        It never diverges. Recorded values are served while they last; ``fresh`` ignores them.
        """

    def end(self, lane: Lane) -> None:
        """End the run of ``lane``, because the program continues with something else."""

    def end_all(self) -> None:
        """The session ends."""

    def after_fork(self) -> None:
        """Forget the draws of the parent of this forked child."""


class LiveDraws:
    """Nothing is kept."""

    def draw(self, name: Name, live: Live) -> Any:
        return live()

    def draw_aside(self, name: Name, live: Live, *, fresh: bool = False) -> Any:
        return live()

    def end(self, lane: Lane) -> None:
        pass

    def end_all(self) -> None:
        pass

    def after_fork(self) -> None:
        pass
