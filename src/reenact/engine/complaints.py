"""What a session says when a program does something else than was recorded."""

from __future__ import annotations

import msgspec

from reenact.engine.call import Call, Entry
from reenact.engine.divergence import Divergence
from reenact.engine.order import Delivery, Token
from reenact.engine.recorder import Opened
from reenact.engine.rendering import render
from reenact.engine.report import Report
from reenact.engine.results import same_result
from reenact.engine.stacks import stack_of, standing
from reenact.engine.state import State
from reenact.engine.waiter import Waiter
from reenact.errors import DivergenceError
from reenact.format.event import Data

__all__ = ["Complaints"]


class Complaints(State):
    """The second layer of a session: what the program states is compared, and differences are raised."""

    def observe_mark(self, call: Call) -> None:
        """The program says that its run starts or ends."""
        self.check_open()
        lane = self.lanes.current().name
        if self.writes:
            with self.lock:
                recorded = self._keeper.mark(call, lane) if self._keeper is not None else None
                self.recorder.event(call.type, call.request, lane, recorded=recorded)
            return
        with self.lock:
            divergence = self.machine.observe_mark(call, lane)
        if divergence is not None and self.machine.strict:
            raise self.diverged(divergence)

    def observe_closing(self, entry: Entry, kind: str, data: Data) -> None:
        """The program says what came back from a call that it made itself."""
        with self.lock:
            divergence = self.machine.observe_closing(entry, kind, data)
        if divergence is not None and self.machine.strict:
            raise self.diverged(divergence)

    def compare_result(
        self, opened: Opened, entry: Entry, fields: Data, recorded: Data | None
    ) -> None:
        """A call that was made again: is the result the recorded one?"""
        if not same_result(self.comparer, opened.call, fields, recorded or {}):
            asked = {name: recorded[name] for name in ("callId",) if recorded and name in recorded}
            divergence = self.machine.note(
                self.machine.differs(
                    entry, opened.call, opened.key, opened.lane.name, asked | fields
                )
            )
            if self.machine.strict:
                raise self.diverged(divergence)

    # Divergences

    def diverged(self, divergence: Divergence) -> DivergenceError:
        """What to raise. In a strict session every later call raises it again, and so does every
        call that waits for its turn."""
        report = render(divergence)
        error = DivergenceError(divergence, report)
        if self.machine.strict and self.poison is None:
            self.poison = divergence
            self.settings.tell(error)
            with self.lock:
                self.conductor.give_up(lambda: DivergenceError(divergence, report))
        return error

    def located(self, divergence: Divergence) -> Divergence:
        """``divergence``, which has just been noted, with the place in the program."""
        found = msgspec.structs.replace(divergence, stack=self.redacted_text(standing()))
        with self.lock:
            self.machine.divergences = [
                found if one is divergence else one for one in self.machine.divergences
            ]
        return found

    def cancelled_early(self, opened: Opened, entry: Entry) -> None:
        """Answered in the recording, cancelled now. Strict sessions raise at the next call."""
        self.left_early(opened, entry, [])

    def left_early(self, opened: Opened, entry: Entry, tokens: list[Token]) -> None:
        """The program did not wait for what it waited for in the recording: for ``tokens``."""
        with self.lock:
            self.diverged(self.machine.cancelled(entry, opened.call, opened.key, opened.lane.name))
            if entry.closing is not None:
                tokens.append(entry.closing.seq)
            self.conductor.skip(*tokens)

    def wants_more(self, opened: Opened, entry: Entry) -> DivergenceError:
        """The program reads on where the recorded one stopped."""
        with self.lock:
            return self.diverged(self._never_answered(opened, entry))

    def _never_answered(self, opened: Opened, entry: Entry) -> Divergence:
        ask = self.machine.ask(opened.call, opened.key, opened.lane.name)
        why = "the recorded call was cancelled, or the recording ends before its answer"
        if entry.closing is not None and entry.closing.data.get("ended") == "unfinished":
            why = "the recorded program was killed here, in the middle of the answer"
        return self.machine.stalled(entry.seq, ask, stack="", why=why)

    def _stalled(self, head: Delivery | None, waiter: Waiter | None) -> BaseException | None:
        ask = waiter.ask() if waiter is not None and waiter.ask is not None else None
        why = "nobody asks for it, and nothing else can happen"
        stack = stack_of(self.lanes, head.lane) if head is not None else ""
        divergence = self.machine.stalled(
            head.seq if head is not None else None, ask, stack=stack, why=why
        )
        error = self.diverged(divergence)
        return error if self.machine.strict or head is None else None

    def divergences(self) -> list[Divergence]:
        """What differed so far; after the end also what was left over."""
        self._check_opened()
        return [*self.machine.divergences, *self._ending.left_over]

    def report(self) -> Report:
        """What happened, for machines: status, counts, divergences, what was left over."""
        self._check_opened()
        with self.lock:
            outcome = self._ending.outcome or self.machine.outcome()
        return Report.of(
            self.machine, self._ending.left_over, self._ending.count, self.mode, outcome
        )
