"""Machine that decides what happens to each call of a session.

::

    call ─> policy (allowed?) ─> matcher (recorded?) ─> Serve | GoLive | Pass | Reexecute | Refuse

Also compares calls with their recorded counterparts and collects the divergences of the session.
Pure: no clock, no threads, no network. Not thread-safe: the session's lock covers it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from reenact.engine.call import (
    PAIRS,
    SCHEDULE,
    SLEEP,
    Call,
    Decision,
    Entry,
    GoLive,
    Pass,
    Reexecute,
    Refuse,
    Serve,
    draw_call,
)
from reenact.engine.divergence.model import Divergence
from reenact.engine.request import ObservedRequest, request_of
from reenact.engine.update.changes import NO_CHANGES, UpdateChanges, UpdateOutcome
from reenact.errors import PolicyRefused
from reenact.format.canonical import exact, quickly
from reenact.format.content_hash import without_volatile
from reenact.format.event import Data, Event
from reenact.policy.access import Access, net_refusal, over_key, over_request
from reenact.policy.matching import Comparer
from reenact.policy.model import Action, Policy, SessionMode

if TYPE_CHECKING:
    from reenact.engine.decision.matcher import Matcher
    from reenact.engine.decision.recorded_calls import RecordedCalls
    from reenact.engine.divergence.diagnosis import Diagnosis

__all__ = [
    "MAX_DIVERGENCES",
    "DivergenceLog",
    "Machine",
    "call_identity",
    "entry_identity",
    "make_matcher",
]

MAX_DIVERGENCES: Final = 1_000
"""Divergences that are kept whole; later ones are counted."""


def call_identity(call: Call) -> Data:
    """Return the compared part of a call, in the form of an event."""
    if call.type != "nondeterministic":
        return call.request
    if call.key and not call.request:
        return {"source": call.source, "key": call.key}
    return {"source": call.source, "op": call.operation, "request": call.request}


def entry_identity(entry: Entry) -> Data:
    """Return the compared part of a recorded call."""
    return request_of(entry.type, entry.opening.data)


class DivergenceLog:
    """The divergences of one session. Not thread-safe: the session's lock covers it."""

    mode: SessionMode
    script: RecordedCalls | None

    def __init__(self, comparer: Comparer, diagnosis: Diagnosis) -> None:
        self._comparer = comparer
        self._diagnosis = diagnosis
        self.count_anew()

    def count_anew(self) -> None:
        """Reset the counters. A forked child does not report the divergences of its parent."""
        self.divergences: list[Divergence] = []
        self.more_divergences = 0

    def key(self, call: Call) -> str:
        """Return the key of ``call``: its own, or the digest of its compared part."""
        return call.key or self._comparer.key(call_identity(call))

    def describe(self, call: Call, key: str, lane: str) -> ObservedRequest:
        """Return ``call`` in the form of a diagnosis."""
        return ObservedRequest(
            type=call.type,
            operation=call.operation,
            lane=lane,
            request=call_identity(call),
            key=key,
        )

    def stalled(
        self, head: int | None, waiting: ObservedRequest | None, *, stack: str, why: str
    ) -> Divergence:
        """Note a run that waits for event ``head``, which the program does not request."""
        event = self.script.event(head) if self.script and head else None
        return self.note(self._diagnosis.stalled(event, waiting, stack=stack, why=why))

    def cancelled(self, entry: Entry, call: Call, key: str, lane: str) -> Divergence:
        """Note a call that has a recorded result and was cancelled this time."""
        return self.note(self._diagnosis.cancelled(entry.opening, self.describe(call, key, lane)))

    def differs(self, entry: Entry, call: Call, key: str, lane: str, result: Data) -> Divergence:
        """Return the divergence of a repeated call whose result differs. It is not noted."""
        closing = entry.closing or entry.opening
        if call.volatile:
            closing = msgspec.structs.replace(
                closing, _data=without_volatile(closing.data, call.volatile)
            )
        observed = ObservedRequest(
            type=closing.type,
            operation=call.operation,
            lane=lane,
            request=request_of(closing.type, without_volatile(result, call.volatile)),
            key=key,
        )
        return self._diagnosis.payload_mismatch(closing, observed, ())

    def made_again(self, entry: Entry, why: str) -> Divergence:
        """Return the divergence of an updated call: ``entry`` was requested and cannot stay."""
        return self._diagnosis.missing(entry.opening, why=why)

    def goes_on(
        self, entry: Entry, call: Call, lane: str, then: Data, now: Data
    ) -> Divergence | None:
        """Compare data that the program sent during a call: ``then`` recorded, ``now`` sent.

        They are compared as if they had been part of the request.
        """
        was = msgspec.structs.replace(call, request={**call.request, **then})
        call = msgspec.structs.replace(call, request={**call.request, **now})
        key = self.key(call)
        if self.key(was) == key:
            return None
        event = msgspec.structs.replace(
            entry.opening, _data={**entry.opening.data, "request": was.request}
        )
        observed = self.describe(call, key, lane)
        return self.note(self._diagnosis.payload_mismatch(event, observed, ()))

    def note(self, divergence: Divergence) -> Divergence:
        """Store ``divergence`` for the report, or count it if there are too many."""
        if len(self.divergences) < MAX_DIVERGENCES:
            self.divergences.append(divergence)
        else:
            self.more_divergences += 1
        return divergence

    def note_served(self, divergence: Divergence, seq: int) -> Divergence:
        """Add the recorded call that answers to ``divergence``, which was noted last."""
        told = msgspec.structs.replace(divergence, served=seq)
        if self.divergences and self.divergences[-1] is divergence:
            self.divergences[-1] = told
        return told

    def observe_mark(self, call: Call, lane: str) -> Divergence | None:
        """Compare the start or end of a run, stated by the program, with the recorded one."""
        if self.script is None:
            return None
        entry = self.script.mark(call.type, lane)
        key = self.key(call)
        if entry is not None and self._comparer.key(entry_identity(entry)) == key:
            return None
        observed = self.describe(call, key, lane)
        if entry is None:
            divergence = self._diagnosis.unexpected(observed, (), draws=False)
        else:
            divergence = self._diagnosis.payload_mismatch(entry.opening, observed, ())
        return self.note(divergence)

    def observe_closing(self, entry: Entry, kind: str, data: Data) -> Divergence | None:
        """Compare a result that the program states with the recorded one."""
        recorded = entry.closing
        if recorded is None or self.mode != "replay":
            return None
        asked = request_of(kind, data)
        key = self._comparer.key(asked)
        if self._comparer.key(request_of(recorded.type, recorded.data)) == key:
            return None
        observed = ObservedRequest(
            type=kind, operation=entry.operation, lane=entry.lane, request=asked, key=key
        )
        return self.note(self._diagnosis.payload_mismatch(recorded, observed, ()))


_DRAWN = frozenset({"clock", "rng", "env", "process"})
"""Kinds that have run out at the end of the recording. Other calls are unexpected there."""

_TO_THE_LETTER = frozenset({"nondeterministic", "llm_request"})

_GO_LIVE, _PASS, _PASS_INSIDE = GoLive(), Pass(), Pass(inside=True)


def make_matcher(policy: Policy, script: RecordedCalls, comparer: Comparer) -> Matcher:
    """Return the matcher that ``policy`` selects."""

    def key_of(entry: Entry) -> str:
        return comparer.key(entry_identity(entry))

    # Deferred: a recording has no calls to match.
    from reenact.engine.decision.matcher import LaneMatcher, LookupMatcher

    return (LookupMatcher if policy.match == "lookup" else LaneMatcher)(script, key_of)


class Machine(DivergenceLog):
    """Decides call after call. Not thread-safe: the session's lock covers it.

    ``script`` is what was recorded, None in modes that read nothing. With ``only``, calls of other
    sources are not recorded and not served, but refused like any.
    """

    def __init__(
        self,
        mode: SessionMode,
        policy: Policy,
        access: Access,
        comparer: Comparer,
        diagnosis: Diagnosis,
        *,
        script: RecordedCalls | None = None,
        strict: bool = True,
        only: str | None = None,
    ) -> None:
        super().__init__(comparer, diagnosis)
        self.mode: SessionMode = mode
        self.strict = strict
        self.script: RecordedCalls | None = None
        self._matcher: Matcher | None = None
        self._access = access
        self._policy = policy
        self._only = only
        self._sizes = (
            policy.budgets.key_bytes is not None or policy.budgets.request_bytes is not None
        )
        self._calls: Counter[str] = Counter()
        self.changes = UpdateChanges() if mode == "update" and script is not None else None
        """Changes that an update makes to the recording."""
        self._gone_past: set[str] = set()
        """In an update: lanes with a skipped recorded call, which can still be requested."""
        self._free: set[tuple[str, str, str]] = set()
        """Calls by capability, source and operation that nothing can stand against."""
        if script is not None:
            self.read_from(script)

    def count_anew(self) -> None:
        super().count_anew()
        self.passed: Counter[str] = Counter()
        """Number of calls that a rule let pass, by capability and operation."""
        self.served = 0
        self.live = 0

    def read_from(self, script: RecordedCalls) -> None:
        """Continue with the recorded calls of ``script``."""
        self.script = script
        self._matcher = make_matcher(self._policy, script, self._comparer)

    def covers(self, call: Call) -> bool:
        """Return whether ``call`` is of a kind that this session records and serves."""
        return self._only is None or call.source == self._only

    def decide(self, call: Call, lane: str) -> tuple[Decision, str]:
        """Decide what happens to ``call`` of ``lane``; return the decision and the key of the call."""
        if not self.covers(call):
            return self._let_by(call)
        found = None if lane in self._gone_past else self._to_the_letter(call, lane)
        key = self.key(call) if found is None else found.key
        refusal = self._refusal(call, key)
        if refusal is not None:
            return self._repeat_refusal(refusal, call, key, lane), key
        self._calls[call.capability] += 1
        action = self._action(call)
        if action == "pass":
            self.passed[f"{call.capability} {call.operation}".rstrip()] += 1
            return _PASS, key
        if self._matcher is None:
            self.live += 1
            return _GO_LIVE, key
        if found is not None:
            decision: Decision = self._serve(self._matcher, found)
        else:
            decision = self._match(self._matcher, call, key, lane)
        if action == "re-execute" and call.nests and isinstance(decision, Serve):
            return Reexecute(decision.entry), key
        return decision, key

    def form_of(self, call: Call, lane: str) -> Call:
        """Return ``call`` in its recorded form: with its meaning, or as a plain call.

        The present lenses can recognise more than the lenses of the recording, and a net tape has
        plain calls only.
        """
        if call.plain is None or self._matcher is None:
            return call
        entry = self._matcher.upcoming(lane)
        if entry is not None and entry.kind != SLEEP:
            return call.plain if entry.kind == call.plain.kind else call
        if self.has_recorded(call, lane) or not self.has_recorded(call.plain, lane):
            return call
        return call.plain

    def draws_of(self, call: Call) -> Literal["run", "one", "pass"]:
        """Return how draws such as ``call`` are stored: in runs, one by one, or not at all.

        They are stored one by one where the policy has to check each.
        """
        if not self.covers(call):
            return "pass"
        if self._policy.action_for(call.capability, call.operation) == "pass":
            self.passed[call.capability] += 1
            return "pass"
        return "run" if self.runs(call) else "one"

    def runs(self, call: Call) -> bool:
        """Return whether draws such as ``call`` are stored in runs, many in one event."""
        action = self._policy.action_for(call.capability, call.operation)
        freely = action == "record" and not self._sizes and self._is_free(call)
        return freely and self.covers(call) and self._policy.match == "lane"

    def refusal_of(self, call: Call) -> PolicyRefused | None:
        """Return why no call like ``call`` is allowed, or None. Nothing is counted."""
        if not self.covers(call):
            return None
        if self._policy.action_for(call.capability, call.operation) == "pass":
            return None
        return self._access.refusal(call.capability, call.kind, call.operation, 0)

    def take_draws(self, name: str, lane: str) -> Entry | None:
        """Take the next recorded draws of ``lane`` if they begin with ``name``."""
        if self._matcher is None:
            return None
        call = draw_call(*name.split(" ", 1))
        entry = self._after_sleeping(self._matcher, call, call.key, lane)
        if entry is None or f"{entry.kind} {entry.key}" != name:
            return None
        self._matcher.take(entry)
        return entry

    def _action(self, call: Call) -> Action:
        """Return the action for ``call``: from the policy, else from the call itself."""
        action = self._policy.action_for(call.capability, call.operation)
        return call.replay if action == "record" and call.nests else action

    def _is_free(self, call: Call) -> bool:
        return self._access.is_free(call.capability, call.kind, call.operation)

    def find_exact(self, call: Call, lane: str) -> Entry | None:
        """Return the next recorded call of ``lane`` if it equals ``call`` byte for byte.

        None if it was not answered with a value, if a rule of the policy concerns it, and where
        :meth:`decide` has to compare in detail. Changes nothing, see :meth:`take`.
        """
        if not call.is_simple or not self.covers(call):
            return None
        entry = self._to_the_letter(call, lane)
        if entry is None or entry.instant or not self._is_answered(entry):
            return None
        if entry.kind == "llm":  # a sketch does not know what it is
            call = msgspec.structs.replace(call, capability="llm.call", operation=entry.operation)
        return entry if self._goes_freely(call, entry.key) else None

    def _is_answered(self, entry: Entry) -> bool:
        if entry.closing is None and (self.script is None or self.script.complete(entry) is None):
            return False
        return not entry.unanswered

    def _goes_freely(self, call: Call, key: str) -> bool:
        """Return whether the policy allows ``call`` and has no special rule for it."""
        place = call.capability, call.source, call.operation
        if place in self._free:
            return True
        if self._sizes or self._refusal(call, key) is not None:
            return False
        if self._policy.action_for(call.capability, call.operation) != "record":
            return False
        net = self._policy.net
        if self._is_free(call) and net.domains is None and net.methods is None:
            self._free.add(place)
        return True

    def take(self, entry: Entry, call: Call) -> None:
        """Count ``call`` and take ``entry``, which answers it."""
        assert self._matcher is not None
        self._calls["llm.call" if entry.kind == "llm" else call.capability] += 1
        self._matcher.take(entry)
        self.served += 1

    def _let_by(self, call: Call) -> tuple[Decision, str]:
        """Let a call pass that is not covered, if it is allowed. Calls inside it can be covered."""
        key = self.key(call)
        refusal = self._refusal(call, key)
        if refusal is not None:
            return Refuse(error=refusal), key
        self._calls[call.capability] += 1
        return _PASS_INSIDE, key

    def _to_the_letter(self, call: Call, lane: str) -> Entry | None:
        """Return the next recorded call of ``lane`` if it equals ``call`` byte for byte.

        This check is faster than the search for secrets, which computing a key begins with. A
        request with a secret is never stored unchanged, so it never matches.
        """
        if self._matcher is None or call.key or call.type not in _TO_THE_LETTER:
            return None
        entry = self._matcher.upcoming(lane)
        if entry is None or not entry.key:
            return None
        if call.raw_hash and call.raw_hash == entry.raw_hash:
            return entry
        if entry.kind != call.source or entry.operation != call.operation or call.is_sketch:
            return None
        if entry.type != call.type:
            return None
        encoded = quickly(call.request)
        return entry if encoded and entry.opening.asks(call.request, encoded) else None

    def _refusal(self, call: Call, key: str) -> PolicyRefused | None:
        if not call.capability:
            return self._access.unlisted(call.kind, call.operation)
        refusal: PolicyRefused | None = self._access.refusal(
            call.capability, call.kind, call.operation, self._calls[call.capability]
        )
        if refusal is None and call.replay == "pass" and self._action(call) == "pass":
            refusal = self._access.passing(call.capability, call.operation)
        if refusal is None and call.url:
            refusal = net_refusal(self._policy.net, call.method, call.url)
        if refusal is None and self._sizes:
            refusal = over_key(self._policy, len(key.encode()))
            refusal = refusal or over_request(self._policy, len(exact(call.request)))
        return refusal

    def _repeat_refusal(self, error: PolicyRefused, call: Call, key: str, lane: str) -> Refuse:
        """Return the refusal of ``call``, with the recorded call if that was refused as well."""
        if self._matcher is None:
            return Refuse(error=error)
        entry = self._matcher.at_cursor(call, key, lane)
        if entry is None or self.script is None or not self._is_same(entry, call, key):
            return Refuse(error=error)
        closing = self.script.complete(entry)
        if closing is None or not _was_refused(closing):
            return Refuse(error=error)
        self._matcher.take(entry)
        return Refuse(error=error, entry=entry)

    def _match(self, matcher: Matcher, call: Call, key: str, lane: str) -> Decision:
        entry = self._after_sleeping(matcher, call, key, lane)
        if entry is not None and self._is_same(entry, call, key):
            if lane in self._gone_past:  # of calls that are the same, the earliest
                entry = matcher.anywhere(call, key, lane) or entry
            return self._serve(matcher, entry)
        if self.mode in ("record_missing", "update"):
            found = matcher.anywhere(call, key, lane)
            if found is not None:
                return self._serve(matcher, found)
            self.live += 1
            self._make_again(matcher, entry, call, key, lane)
            return _GO_LIVE
        divergence = self._diagnose(matcher, entry, call, key, lane)
        self.note(divergence)
        if self.strict:
            return Refuse(divergence=divergence)
        found = matcher.anywhere(call, key, lane)
        if found is None and not call.draws:
            found = matcher.alike(call, lane) or self._in_its_place(matcher, call, lane)
        if found is None:
            return Refuse(divergence=divergence)
        served = self._serve(matcher, found)
        return Serve(served.entry, self.note_served(divergence, found.seq))

    def _in_its_place(self, matcher: Matcher, call: Call, lane: str) -> Entry | None:
        """Return the recorded call that a lenient replay serves for a different one.

        That is a call of any model, or of a tool that was called with the same id or arguments.
        """
        if call.type not in PAIRS:
            return None
        found = matcher.in_its_place(call, lane)
        if call.type == "tool_call":
            found = (one for one in found if self._is_renamed(one, call))
        return next(found, None) or self._by_call_id(matcher, call)

    def _by_call_id(self, matcher: Matcher, call: Call) -> Entry | None:
        """Return the recorded call with the id of ``call``, in any lane.

        Tools that run concurrently have lanes of their own, which an additional tool shifts.
        """
        if call.type != "tool_call" or not call.call_id:
            return None
        unused = (one for one in matcher.unused() if one.type == call.type)
        return next((one for one in unused if one.call_id == call.call_id), None)

    def _is_renamed(self, entry: Entry, call: Call) -> bool:
        """Return whether ``entry`` is the call of a tool that has a different name now.

        Otherwise the recorded program did not make ``call``, and the result stays with its tool.
        """
        if call.call_id and call.call_id == entry.call_id:
            return True
        then, now = (
            self._comparer.normal({"args": data.get("args")}).get("args")
            for data in (entry.opening.data, call.request)
        )
        if not (isinstance(then, dict) and isinstance(now, dict)):
            return bool(then == now)
        return then == now or any(value in then.values() for value in now.values())

    def _make_again(
        self, matcher: Matcher, entry: Entry | None, call: Call, key: str, lane: str
    ) -> None:
        """Replace ``entry`` with ``call`` in an update, if both are of one kind.

        The calls and draws after ``entry`` are next then.
        """
        if self.changes is None:
            return
        self.changes.make(self.describe(call, key, lane), call.kind, entry)
        if entry is not None and (entry.type, entry.kind) == (call.type, call.kind):
            matcher.pass_over(entry)
            self._gone_past.add(lane)

    def made_draws(self, name: str, lane: str) -> None:
        """Note new draws of an update, which begin with ``name``."""
        if self.changes is not None:
            call = draw_call(*name.split(" ", 1))
            entry = None if self._matcher is None else self._matcher.upcoming(lane)
            self.changes.make(self.describe(call, call.key, lane), call.kind, entry)

    def outcome(self) -> UpdateOutcome:
        """Return the changes of an update. Reads to the end."""
        if self.changes is None:
            return NO_CHANGES
        return self.changes.come_to(self.served, self.unused(), self._diagnosis)

    def _after_sleeping(self, matcher: Matcher, call: Call, key: str, lane: str) -> Entry | None:
        """Return the recorded call at this position, after recorded sleeps that the program skips."""
        entry = matcher.at_cursor(call, key, lane)
        while entry is not None and entry.kind == SLEEP and call.source != SLEEP:
            matcher.take(entry)
            if entry.closing is not None and self.script is not None:
                self.script.order.drop(entry.closing.seq)
            entry = matcher.at_cursor(call, key, lane)
        return entry

    def is_next(self, call: Call, lane: str) -> bool:
        """Return whether ``call`` equals the next recorded call of ``lane``."""
        entry = self.upcoming(lane)
        return entry is not None and self._is_same(entry, call, self.key(call))

    def upcoming(self, lane: str) -> Entry | None:
        """Return the next recorded call of ``lane``, where calls are matched in order."""
        return None if self._matcher is None else self._matcher.upcoming(lane)

    def refusal(self, call: Call) -> PolicyRefused | None:
        """Return why the policy refuses ``call``, or None. Nothing is counted."""
        return self._refusal(call, self.key(call))

    def _is_same(self, entry: Entry, call: Call, key: str) -> bool:
        if entry.type != call.type or entry.kind != call.kind:
            return False
        if call.key:
            return entry.key == key and call.operation in ("", entry.operation)
        # When the keys differ so do the requests, unless they were recorded under other rules.
        return entry.key == key or self._comparer.key(entry_identity(entry)) == key

    def _serve(self, matcher: Matcher, entry: Entry) -> Serve:
        matcher.take(entry)
        self.served += 1
        return Serve(entry)

    def _diagnose(
        self, matcher: Matcher, entry: Entry | None, call: Call, key: str, lane: str
    ) -> Divergence:
        observed = self.describe(call, key, lane)
        candidates = matcher.candidates(lane)
        if entry is None:
            draws = call.draws or call.kind in _DRAWN
            return self._diagnosis.unexpected(observed, candidates, draws=draws)
        if entry.type != call.type or entry.kind != call.kind:
            return self._diagnosis.type_mismatch(entry.opening, observed, candidates)
        return self._diagnosis.payload_mismatch(entry.opening, observed, candidates)

    # Besides calls

    def has_recorded(self, call: Call, lane: str) -> bool:
        """Return whether ``call`` would be served."""
        if self._matcher is None:
            return False
        key = self.key(call)
        entry = self._matcher.at_cursor(call, key, lane)
        if entry is not None and self._is_same(entry, call, key):
            return True
        return self._matcher.anywhere(call, key, lane) is not None

    def unused(self) -> Iterable[Entry]:
        """Return the recorded calls that were not made. Reads to the end."""
        if self._matcher is None:
            return ()
        return (entry for entry in self._matcher.unused() if entry.kind not in (SCHEDULE, SLEEP))

    def left_over(self, limit: int) -> tuple[list[Divergence], int]:
        """Return divergences of the first unused calls, and the number of unused calls."""
        unused = iter(self.unused())
        first = list(islice(unused, limit))
        total = len(first) + sum(1 for _ in unused)
        return [self.unmade(entry) for entry in first], total

    def unmade(self, entry: Entry) -> Divergence:
        """Return the divergence of ``entry``, which was not used."""
        why = "the recorded run made this call and the present one did not"
        return self._diagnosis.missing(entry.opening, why=why)


def _was_refused(closing: Event) -> bool:
    error = closing.data.get("error")
    return isinstance(error, dict) and error.get("kind") in ("denied", "budget", "refused")
