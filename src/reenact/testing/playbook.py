"""Calls in, decisions out, compared as one transcript."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from reenact.engine.call import Call, Decision, Entry, GoLive, Pass, Reexecute, Serve
from reenact.engine.decision.machine import Machine
from reenact.engine.decision.recorded_calls import RecordedCalls
from reenact.engine.divergence.diagnosis import Diagnosis
from reenact.engine.divergence.model import Divergence
from reenact.engine.fork.forked_run import ForkMachine
from reenact.engine.fork.plan import At, ForkPoint, find_fork_point
from reenact.engine.session.settings import READING_MODES
from reenact.errors import UsageError
from reenact.policy.access import KNOWN, Access, Capabilities
from reenact.policy.matching import Comparer, Rules
from reenact.policy.model import DEFAULT, Pinned, Policy, SessionMode
from reenact.policy.redaction.redactor import Redactor
from reenact.store.sinks.memory import MemorySource
from reenact.testing.recordings import call_of, lines_of, parse_line, recording

__all__ = ["Playbook"]

_ARROW = " -> "


class Playbook:
    """Decisions of the engine about one call after another, without making any of them.

        Playbook('0 network get {"x": 1} = "one"').check('''
            0  network get {"x": 2}  -> refuse event_payload_mismatch 1 $.request.x
            0  network get {"x": 1}  -> serve 1
            unused                   -> nothing
        ''')

    ``source`` is a recording, or the text of one (:func:`recording`). The left side of a line is a
    call (:mod:`reenact.testing.recordings`), ``unused`` (the recorded calls that were not made), or
    ``head`` (the next delivery of the recorded order). The right side is one of

        serve 3                         the answer of event 3; "unanswered" if it never had one
        serve 3 despite CODE SEQ PATH   the same in a lenient run, with what differs
        live                            the call is made and recorded
        fork 3                          the same for event 3, the call where the run is forked
        pass                            the call is made and not recorded
        re-execute 3                    the code of tool call 3 runs again
        refuse CODE SEQ PATH            a divergence; SEQ and PATH only where there are any
        refuse policy.denied            the policy forbids it; "as 3" if event 3 was refused, too

    A served result counts as delivered at once, and a served tool as stubbed. With ``fork`` the
    run is forked there: see :class:`reenact.engine.fork.plan.At`.
    """

    def __init__(
        self,
        source: MemorySource | str | None = None,
        *,
        mode: SessionMode = "replay",
        policy: Policy = DEFAULT,
        strict: bool = True,
        pinned: Pinned | None = None,
        known: Capabilities = KNOWN,
        fork: At | None = None,
    ) -> None:
        pinned = pinned or Pinned.of(policy)
        held = recording(source) if isinstance(source, str) else source
        self.script = _script(held, mode, pinned.policy)
        make: Callable[..., Machine] = Machine
        self._point: ForkPoint | None = None
        if fork is not None and held is not None and self.script is not None:
            self._point = find_fork_point(held, fork.at)
            self.script.order.limit = self._point.cut
            live = None if fork.live is None else frozenset(fork.live)
            make = partial(ForkMachine, self._point, live)
        self.machine = _machine(make, mode, pinned, known, self.script, strict=strict)

    def check(self, text: str) -> None:
        """Raise :class:`AssertionError` with the complete transcript if a decision differs."""
        lines = lines_of(text)
        for line in lines:
            if _ARROW not in line:
                raise UsageError(
                    f"the line {line!r} expects nothing", hint="write -> and the decision behind it"
                )
        made = self._play(lines)
        if list(map(_squeezed, made)) != list(map(_squeezed, lines)):
            raise AssertionError(f"the playbook went otherwise\n{_difference(lines, made)}")

    def play(self, text: str) -> str:
        """Return the transcript with the decisions that are made, instead of the given ones."""
        return "\n".join(self._play(lines_of(text)))

    def _play(self, lines: list[str]) -> list[str]:
        asked = [line.rpartition(_ARROW)[0] or line for line in lines]
        width = max(map(len, asked), default=0)
        return [f"{line:{width}}{_ARROW}{self.decide(line.rstrip())}" for line in asked]

    def decide(self, line: str) -> str:
        """Return the decision for one line, in words."""
        if line == "unused":
            return " ".join(str(entry.seq) for entry in self.machine.unused()) or "nothing"
        if line == "head":
            return self._head()
        parsed = parse_line(line)
        call = call_of(parsed)
        decision, _ = self.machine.decide(call, parsed.lane)
        self._carry_out(call, decision)
        if self._is_point(decision):
            assert isinstance(self.machine, ForkMachine)
            self.machine.turned = True
            return _in_words(decision).replace("serve", "fork")
        return _in_words(decision)

    def _is_point(self, decision: Decision) -> bool:
        entry: Entry | None = getattr(decision, "entry", None)
        return self._point is not None and entry is not None and entry.seq == self._point.seq

    def _head(self) -> str:
        head = None if self.script is None else self.script.order.head()
        if head is None:
            return "nothing"
        return str(head.token) if isinstance(head.token, int) else " ".join(head.token)

    def _carry_out(self, call: Call, decision: Decision) -> None:
        """Use the recording as the gateway would."""
        entry: Entry | None = getattr(decision, "entry", None)
        if self.script is None or entry is None:
            return
        closing = self.script.complete(entry)
        if call.nests and entry.inner is not None and not isinstance(decision, Reexecute):
            self.script.stub(entry.inner)
        if closing is not None:
            self.script.order.drop(closing.seq)


def _script(source: MemorySource | None, mode: SessionMode, policy: Policy) -> RecordedCalls | None:
    if source is None or mode not in READING_MODES:
        return None
    return RecordedCalls(source.reopen(), by_lane=policy.match != "transcript")


def _machine(
    make: Callable[..., Machine],
    mode: SessionMode,
    pinned: Pinned,
    known: Capabilities,
    script: RecordedCalls | None,
    *,
    strict: bool,
) -> Machine:
    policy, redactor = pinned.policy, Redactor("none")
    rules = Rules(
        ignore_paths=policy.ignore.paths,
        ignore_headers=policy.ignore.headers,
        ignore_query=policy.ignore.query,
        volatile=policy.volatile,
    )
    comparer = Comparer(rules, redactor)
    diagnosis = Diagnosis(comparer, redactor)
    access = Access(pinned, known)
    return make(mode, policy, access, comparer, diagnosis, script=script, strict=strict)


def _in_words(decision: Decision) -> str:
    if isinstance(decision, Serve):
        entry = decision.entry
        told = f"serve {entry.seq}{' unanswered' if entry.unanswered else ''}"
        return f"{told} despite {_code(decision.divergence)}" if decision.divergence else told
    if isinstance(decision, GoLive):
        return "live"
    if isinstance(decision, Pass):
        return "pass"
    if isinstance(decision, Reexecute):
        return f"re-execute {decision.entry.seq}"
    if decision.error is None:
        return f"refuse {_code(decision.divergence)}"
    return f"refuse {decision.error.code}" + (f" as {decision.entry.seq}" if decision.entry else "")


def _code(divergence: Divergence | None) -> str:
    if divergence is None:
        return ""
    parts = (divergence.code, divergence.event_seq, divergence.json_path)
    return " ".join(str(part) for part in parts if part is not None)


def _difference(wanted: list[str], made: list[str]) -> str:
    told: list[str] = []
    for expected, actual in zip(wanted, made, strict=True):
        is_same = _squeezed(expected) == _squeezed(actual)
        told += [f"  {actual}"] if is_same else [f"- {expected}", f"+ {actual}"]
    return "\n".join(told)


def _squeezed(line: str) -> str:
    """Return ``line`` with single spaces, because the width of columns is ignored."""
    return " ".join(line.split())
